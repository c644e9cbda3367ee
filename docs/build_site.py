"""The documentation as a site: the repository's documents in, `build/site/index.html` and its pages out.

    stage     documents and what they link to lie below build/pages as in the repository. What code says is made beside
              them: pages of invariants, commands and relations, and the `built` parts of the reference's pages
    build     Zensical makes HTML of them, and takes any warning for an error
    check     what Zensical does not look at: links to other files, anything that is loaded from another host

No step asks the network, and a page of the site reads as the same document does in the repository. A link to source
that has a page in the site (an invariant's folder, the implications) leads to that page.

    python docs/build_site.py [DIRECTORY]    below build/ unless a directory is given; exit status 1 if a link is broken
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import yaml

sys.path.insert(0, str(Path(__file__).parent))
import check_site
import invariant_pages
import reference_pages
from parts import Makers, renewed

from tidegauge.expectations.data_docs import FAMILIES, runbook_path
from tidegauge.expectations.registry import CATALOGUE

ROOT: Final = Path(__file__).resolve().parents[1]
SETTINGS: Final = ROOT / "docs" / "site" / "mkdocs.yml"
DOCUMENTS: Final = (
    "*.md", "docs/**/*.md", "benchmarks/*.md", "grafana/*.md", "helm/*.md", "tests/golden/*.md",
    "expectations/invariants/*.md",
)  # fmt: skip
BESIDES: Final = ("docs/site/*.js", "docs/site/*.css", "docs/site/*.LICENSE")
INVARIANTS: Final = "docs/invariants/"
BUILT: Final[Mapping[str, Makers]] = {
    "docs/reference/commands/README.md": {"commands": reference_pages.commands},
    "docs/reference/relations/README.md": {"common": reference_pages.common, "relations": reference_pages.relations},
    "docs/reference/settings.md": {"settings": reference_pages.settings},
    "docs/reference/truth.md": {"truth": reference_pages.truth},
    "docs/reference/scenario-files.md": {"steps": reference_pages.steps},
    "docs/reference/views.md": {"views": reference_pages.views},
}
"""Document -> name of a part -> what makes it. In the repository a part says where its source is."""
FOLDERS: Final[Mapping[str, Callable[[], Iterator[tuple[str, str]]]]] = {
    INVARIANTS: invariant_pages.pages,
    "docs/reference/commands/": reference_pages.command_pages,
    "docs/reference/relations/": reference_pages.relation_pages,
}
"""Folder of the site -> what makes its pages: a file's name and its text."""
PAGES_OF: Final[Mapping[str, str]] = {
    "expectations/invariants": f"{INVARIANTS}README.md",
    "expectations/implications.py": f"{INVARIANTS}implications.md",
    **{
        str(Path(runbook_path(invariant)).parent): f"{INVARIANTS}{invariant_pages.page_name(invariant)}"
        for invariant in CATALOGUE.values()
    },
    **{
        runbook_path(invariant): f"{INVARIANTS}{invariant_pages.page_name(invariant)}"
        for invariant in CATALOGUE.values()
    },
}
"""What a document of the repository links to -> the page that the site has of it."""

_LINK: Final = re.compile(r"\]\(([^)\s#]+)[^)]*\)")


def stage(pages: Path) -> None:
    """Copies documents and what they link to; makes what code says."""
    shutil.rmtree(pages, ignore_errors=True)
    documents = [path for pattern in DOCUMENTS for path in ROOT.glob(pattern)]
    for path in documents:
        name = path.relative_to(ROOT)
        text = renewed(path.read_text(encoding="utf-8"), "built", BUILT.get(str(name), {}))
        text = to_pages_of(text, name)
        _write(pages / name, text)
        for linked in _files_linked(path, text):
            _copy(linked, pages)
    for path in (path for pattern in BESIDES for path in ROOT.glob(pattern)):
        _copy(path, pages)
    for folder, made in FOLDERS.items():
        for name_of_page, text in made():
            _write(pages / folder / name_of_page, text)


def to_pages_of(text: str, document: Path) -> str:
    """A document's text, in which links to source lead to the page that the site has of it."""

    def moved(found: re.Match[str]) -> str:
        target = os.path.normpath(document.parent / found[1])
        if target not in PAGES_OF:
            return found[0]
        return found[0].replace(found[1], os.path.relpath(PAGES_OF[target], document.parent), 1)

    return _LINK.sub(moved, text)


def _files_linked(document: Path, text: str) -> Iterator[Path]:
    """Files of the repository, no documents, that a document links to."""
    for target in _LINK.findall(text):
        path = (document.parent / target).resolve()
        if path.is_relative_to(ROOT) and path.is_file() and path.suffix != ".md":
            yield path


def _copy(path: Path, pages: Path) -> None:
    target = pages / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def settings(pages: Path) -> dict[str, Any]:
    """Zensical's settings, with the pages of a folder in the folder's place."""
    read = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))
    return {**read, "nav": [_expanded(entry, pages) for entry in read["nav"]]}


def _expanded(entry: Any, pages: Path) -> Any:
    if isinstance(entry, dict):
        return {title: _expanded(below, pages) for title, below in entry.items()}
    if isinstance(entry, list):
        return [_expanded(below, pages) for below in entry]
    if entry == INVARIANTS:
        return [f"{INVARIANTS}README.md", f"{INVARIANTS}implications.md", *_families()]
    if entry.endswith("/"):
        others = sorted(path.name for path in (pages / entry).glob("*.md") if path.name != "README.md")
        return [f"{entry}README.md", *(f"{entry}{name}" for name in others)]
    return entry


def _families() -> Iterator[dict[str, list[str]]]:
    for family, members in groupby(CATALOGUE.values(), key=lambda invariant: invariant.code[0]):
        yield {f"{family}: {FAMILIES[family]}": [f"{INVARIANTS}{invariant_pages.page_name(i)}" for i in members]}


def build(directory: Path) -> list[str]:
    """Makes `directory`/site. Returns what is broken in it; raises CalledProcessError if Zensical finds something."""
    stage(directory / "pages")
    configuration = directory / "mkdocs.yml"
    configuration.write_text(yaml.safe_dump(settings(directory / "pages"), sort_keys=False), encoding="utf-8")
    to_pages(configuration)
    return check_site.problems(directory / "site")


def to_pages(configuration: Path) -> None:
    """Runs Zensical, which keeps no page of an earlier run; raises CalledProcessError at any warning of it."""
    zensical = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(configuration)]
    subprocess.run(zensical, check=True, stdout=sys.stderr)


def main() -> int:
    """Build, say where the pages are or what is broken, and return the exit status."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    try:
        broken = build(directory)
    except subprocess.CalledProcessError:
        return 1
    for problem in broken:
        print(problem, file=sys.stderr)
    if not broken:
        print(directory / "site" / "index.html")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
