"""From a request to a page or its data: what every page has in common.

A page is a function from `Asked` to `Page`; `add_page` gives it two addresses, its own and that of its figures
(`<page>/figures/<name>.csv` and `.json`). The rules that must hold: names from the address are checked before anybody
uses them; templates escape everything.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from tidegauge import __version__
from tidegauge.addresses import Links, name_of
from tidegauge.console import wording
from tidegauge.console.callers import Caller
from tidegauge.console.database import Reader
from tidegauge.console.docs import Docs
from tidegauge.console.figures import Figure, to_csv, to_json
from tidegauge.console.refusal import RefusalError, not_found

PAGE_ROWS: Final = 50
DOWNLOAD_ROWS: Final = 5_000
_TYPES: Final = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, as a page sees it."""

    store: Reader
    docs: Docs
    links: Links
    path: Mapping[str, str]
    query: Mapping[str, str]
    now: datetime
    caller: Callable[[], Caller]
    """Who asks; asked for where it matters, since a wrong token is refused. Raises `RefusalError`."""
    takes_tokens: bool = False
    is_download: bool = False
    csrf_token: str = ""

    @property
    def size(self) -> int:
        """How many rows of a long list are wanted."""
        return DOWNLOAD_ROWS if self.is_download else PAGE_ROWS

    @property
    def after(self) -> str | None:
        """The position in a long list."""
        return self.query.get("after") or None

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """A query value that is one of these, or None. Raises `RefusalError`."""
        value = self.query.get(name) or None
        if value is not None and value not in allowed:
            raise RefusalError(400, "Not understood", f"{name} must be one of {', '.join(allowed)}, or left out.")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A template with its values, and its figures by name."""

    template: str
    values: Mapping[str, Any]
    figures: Mapping[str, Figure] = field(default_factory=dict)


Builder = Callable[[Asked], Page]


def add_page(router: APIRouter, path: str, build: Builder) -> None:
    """Gives a page its address and that of its figures."""

    def show(request: Request) -> Response:
        with asking(request) as asked:
            return render(build_checked(build, asked), asked, request)

    def download(request: Request) -> Response:
        with asking(request, is_download=True) as asked:
            extension = asked.path["extension"]
            found = build_checked(build, asked).figures.get(asked.path["figure"])
        if found is None or extension not in _TYPES:
            raise not_found("This page has no such figure.")
        headers = {"Content-Disposition": f'attachment; filename="{asked.path["figure"]}.{extension}"'}
        if found.next_page is not None:
            headers["Link"] = f'<{found.next_page}>; rel="next"'
        text = to_csv(found) if extension == "csv" else to_json(found)
        return Response(text, media_type=_TYPES[extension], headers=headers)

    router.add_api_route(path, show, methods=["GET", "HEAD"], include_in_schema=False)
    router.add_api_route(
        f"{path.rstrip('/')}/figures/{{figure}}.{{extension}}", download, methods=["GET", "HEAD"],
        include_in_schema=False,
    )  # fmt: skip


def build_checked(build: Builder, asked: Asked) -> Page:
    """The page; a position in a list that cannot be read is the reader's mistake, not ours."""
    try:
        return build(asked)
    except ValueError as error:
        raise RefusalError(
            400, "Not understood", f"The address is not usable: {error}. Start from the list's top."
        ) from None


@contextmanager
def asking(request: Request, *, is_download: bool = False) -> Iterator[Asked]:
    """The request, its names decoded, and one reading of the store. Raises `RefusalError`."""
    try:
        path = {name: name_of(str(value)) for name, value in request.path_params.items()}
    except ValueError as error:
        raise RefusalError(404, "Not found", f"No page has this address: {error}.") from None
    query = dict(request.query_params)
    if any("\0" in value for value in (*path.values(), *query.values())):
        raise RefusalError(400, "Not understood", "A name holds a NUL character, which the store cannot hold.")
    with request.app.state.store.reading() as reader:
        yield Asked(
            store=reader,
            docs=request.app.state.docs,
            links=Links(request.scope.get("root_path", "")),
            path=path,
            query=query,
            now=datetime.now(UTC),
            caller=partial(request.app.state.door.caller, request),
            takes_tokens=request.app.state.door.takes_tokens,
            is_download=is_download,
            csrf_token=getattr(request.state, "csrf_token", ""),
        )


def render(page: Page, asked: Asked, request: Request) -> HTMLResponse:
    """The page as HTML."""
    return HTMLResponse(
        html_of(page, asked.links, request, now=asked.now, query=asked.query, csrf_token=asked.csrf_token)
    )


def html_of(page: Page, links: Links, request: Request, *, now: datetime, **values: Any) -> str:
    """A template with what every page needs."""
    here = request.url.path

    def figure_link(name: str, extension: str) -> str:
        return f"{here.rstrip('/')}/figures/{name}.{extension}" + (f"?{request.url.query}" if request.url.query else "")

    common = {
        "links": links,
        "static": static_link(links),
        "figure_link": figure_link,
        "now": now,
        "version": __version__,
        "here": here,
    }
    return templates().get_template(page.template).render({**common, **values, **page.values})


def static_link(links: Links) -> Callable[[str], str]:
    """Addresses of static files; the version in them lets browsers keep the files."""
    return lambda name: links.to(f"/static/{name}", v=_static_version())


@cache
def _static_version() -> str:
    from hashlib import sha256

    digest = sha256()
    folder = files("tidegauge.console") / "static"
    for name in ("console.css", "console.js", "lineage.js", "charts.js", "tables.js"):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:12]


@cache
def templates() -> Environment:
    """The templates: everything is escaped, and a name that is not there is an error."""
    environment = Environment(
        loader=PackageLoader("tidegauge.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(wording.FILTERS)
    return environment
