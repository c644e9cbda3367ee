"""The documentation as a site: the repository's documents in, `build/site/index.html` and its pages out.

    stage     documents, what they link to, and the invariants' pages lie below build/pages as in the repository
    build     Zensical makes HTML of them, and takes any warning for an error
    check     what Zensical does not look at: links to other files, anything that is loaded from another host

The rule that must hold: no step asks the network, and a page of the site reads as the same document does in the
repository. A link to an invariant's runbook, which lies in the repository, leads to the invariant's page in the site.

    python docs/build_site.py [DIRECTORY]    below build/ unless a directory is given; exit status 1 if a link is broken
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import yaml

sys.path.insert(0, str(Path(__file__).parent))
import check_site
import invariant_pages

from tidegauge.expectations.data_docs import FAMILIES
from tidegauge.expectations.registry import CATALOGUE

ROOT: Final = Path(__file__).resolve().parents[1]
SETTINGS: Final = ROOT / "docs" / "site" / "mkdocs.yml"
DOCUMENTS: Final = (
    "*.md", "docs/**/*.md", "benchmarks/*.md", "grafana/*.md", "helm/*.md", "tests/golden/*.md",
    "expectations/invariants/*.md",
)  # fmt: skip
BESIDES: Final = ("docs/site/*.js", "docs/site/*.css", "docs/site/*.LICENSE")
INVARIANTS: Final = "docs/invariants/"

_LINK: Final = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
_RUNBOOK: Final = re.compile(r"\]\([./]*expectations/invariants/([A-Z][0-9]+)_\w+/runbook\.md")


def stage(pages: Path) -> None:
    """Copies documents and what they link to; makes the invariants' pages."""
    shutil.rmtree(pages, ignore_errors=True)
    documents = [path for pattern in DOCUMENTS for path in ROOT.glob(pattern)]
    for path in documents:
        text = path.read_text(encoding="utf-8")
        _write(pages / path.relative_to(ROOT), _to_invariants(text, path.relative_to(ROOT)))
        for linked in _files_linked(path, text):
            _copy(linked, pages)
    for path in (path for pattern in BESIDES for path in ROOT.glob(pattern)):
        _copy(path, pages)
    for name, text in invariant_pages.pages():
        _write(pages / INVARIANTS / name, text)


def _to_invariants(text: str, document: Path) -> str:
    """A document whose links to runbooks lead to the invariants' pages."""
    up = "../" * (len(document.parts) - 1)
    names = {code: invariant_pages.page_name(invariant) for code, invariant in CATALOGUE.items()}
    return _RUNBOOK.sub(lambda found: f"]({up}{INVARIANTS}{names[found[1]]}", text)


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
