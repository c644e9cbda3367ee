"""What is broken in built pages: a directory of HTML in, problems in words out.

A link, picture, script or style sheet has to lie in the site, an anchor has to be on its page, and nothing but a link
that a reader follows may lead to another host. Zensical's strict mode looks at links between Markdown documents alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_SOURCES: Final = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src", "source": "src"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What an element of a page leads to."""

    tag: str
    target: str


@dataclass(slots=True)
class _Page(HTMLParser):
    ids: set[str] = field(default_factory=set)
    references: list[Reference] = field(default_factory=list)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element's id and what it leads to."""
        attributes = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := attributes.get(name))}
        target = attributes.get(_SOURCES.get(tag, ""))
        if target is not None:
            self.references.append(Reference(tag=tag, target=target))


def problems(site: Path) -> list[str]:
    """One line for each reference that leads nowhere, or loads something from another host."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site)}: <{reference.tag}> {reference.target}: {why}"
        for path, page in pages.items()
        for reference, why in _broken(path, page, pages, site)
    ]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def _broken(path: Path, page: _Page, pages: Mapping[Path, _Page], site: Path) -> Iterator[tuple[Reference, str]]:
    for reference in page.references:
        parts = urlsplit(reference.target)
        if parts.scheme or parts.netloc:
            if reference.tag != "a" and parts.scheme != "data":
                yield reference, "is loaded from another host"
            continue
        place = _place(unquote(parts.path), path, site)
        if not place.is_relative_to(site.resolve()) or not place.is_file():
            yield reference, "is no file of the site"
        elif parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].ids:
            yield reference, "has no such anchor"


def _place(target: str, path: Path, site: Path) -> Path:
    if target.startswith("/"):  # the page for addresses that there are not: it is shown at any depth
        return (site / target.lstrip("/")).resolve()
    return (path.parent / target).resolve() if target else path
