"""The parts of the documents that the code already says: catalogue, settings, commands, relations.

In: `CATALOGUE`, `VARIABLES`, the command line, `RELATIONS`, the store's views. Out: the text between
`<!-- generated: NAME -->` and `<!-- end of NAME -->` in the documents of `PARTS`, and the whole pages of the folders in
`FOLDERS`. The rule that must hold: everything else is left as it is, and running it twice changes nothing. An
invariant's own page is not kept: docs/build_site.py makes it.

    python docs/generate.py            writes the parts anew
    python docs/generate.py --check    writes nothing; exit status 1 if a part is stale
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tidegauge.expectations.data_docs import FAMILIES
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.scoring.explored import Explored
from tidegauge.scoring.explored import table as explored_table
from tidegauge.scoring.score import from_json
from tidegauge.scoring.table import by_fault, by_invariant, impossible, summary

sys.path.insert(0, str(Path(__file__).parent))
import invariant_pages
import reference_pages

ROOT: Final = Path(__file__).resolve().parents[1]


def families() -> Iterator[str]:
    """A row for each family of invariants: how many there are, and how many of them are critical."""
    yield from reference_pages.table("family", "invariants", "critical")(_family_rows())


def _family_rows() -> Iterator[tuple[str, ...]]:
    for family, title in (*FAMILIES.items(), ("", "all")):
        members = [invariant for code, invariant in CATALOGUE.items() if code.startswith(family)]
        critical = sum(1 for invariant in members if invariant.severity == "critical")
        yield f"{family}: {title}".removeprefix(": "), str(len(members)), str(critical)


def score() -> Iterator[str]:
    """The last score that `benchmarks/score.py --write` kept."""
    kept = json.loads((ROOT / "docs" / "score.json").read_text(encoding="utf-8"))
    measured = from_json(kept["score"])
    yield from summary(measured)
    for title, of_measured in (("By invariant", by_invariant), ("By kind of fault", by_fault), (_UNSEEN, impossible)):
        yield from _folded(title, of_measured(measured))
    if kept["explored"]:
        yield ""
        yield "Every state that the five models of Kafka's truncation reach, rendered as log directories and audited:"
        yield ""
        reached = [Explored(**{**each, "constants": tuple(each["constants"])}) for each in kept["explored"]]
        yield from explored_table(reached)
    yield ""
    minutes = kept["seconds"] / 60
    yield f"`{kept['command']}`; {measured.snapshots:,} snapshots took {minutes:,.0f} minutes on two cores."


def _folded(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield ""
    yield f'<details markdown="1"><summary>{title}</summary>'
    yield ""
    yield from lines
    yield ""
    yield "</details>"


_UNSEEN: Final = "What no file tells, whoever looks"

PARTS: Final[Mapping[str, Mapping[str, Callable[[], Iterator[str]]]]] = {
    "README.md": {"families": families},
    "docs/accuracy.md": {"score": score},
    "docs/reference/commands/README.md": {"commands": reference_pages.commands},
    "docs/reference/relations/README.md": {"common": reference_pages.common, "relations": reference_pages.relations},
    "docs/reference/settings.md": {"settings": reference_pages.settings},
    "docs/reference/truth.md": {"truth": reference_pages.truth},
    "docs/reference/views.md": {"views": reference_pages.views},
}
"""Document -> name of a part -> what makes it."""

FOLDERS: Final[Mapping[str, Callable[[], Iterator[tuple[str, str]]]]] = {
    "docs/invariants": invariant_pages.lists,
    "docs/reference/commands": reference_pages.command_pages,
    "docs/reference/relations": reference_pages.relation_pages,
}
"""Folder -> what makes its pages: a file's name and its text. A document of `PARTS` may lie among them."""


def renewed(text: str, parts: Mapping[str, Callable[[], Iterator[str]]]) -> str:
    """A document's text with its generated parts made anew. Raises ValueError where a part has no place in it."""
    for name, make in parts.items():
        place = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        body = "\n".join(make()).strip("\n") + "\n"
        text, places = place.subn(lambda found, body=body: found[1] + body + found[2], text)
        if places != 1:
            raise ValueError(f"the part {name} has {places} places in the document, not one")
    return text


def stale() -> list[str]:
    """The documents that are missing, left over, or not what the code says today."""
    parts = [name for name, parts in PARTS.items() if _read(name) != renewed(_read(name), parts)]
    return parts + [name for folder in FOLDERS for name in _stale_pages(folder)]


def _stale_pages(folder: str) -> list[str]:
    wanted = dict(FOLDERS[folder]())
    found = {path.name: path.read_text(encoding="utf-8") for path in _pages_in(folder)}
    return [f"{folder}/{name}" for name in sorted(found.keys() | wanted.keys()) if found.get(name) != wanted.get(name)]


def _pages_in(folder: str) -> list[Path]:
    """The pages that a folder has, without documents of which only a part is generated."""
    return [path for path in (ROOT / folder).glob("*.md") if f"{folder}/{path.name}" not in PARTS]


def _write_pages(folder: str) -> None:
    wanted = dict(FOLDERS[folder]())
    (ROOT / folder).mkdir(parents=True, exist_ok=True)
    for path in _pages_in(folder):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (ROOT / folder / name).write_text(text, encoding="utf-8")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def main() -> int:
    """Write or check; return the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true", help="write nothing, say what is stale")
    if arguments.parse_args().check:
        for name in stale():
            print(f"{name} is stale: run python docs/generate.py")
        return 1 if stale() else 0
    for name, parts in PARTS.items():
        text = renewed(_read(name), parts)
        (ROOT / name).write_text(text, encoding="utf-8")
    for folder in FOLDERS:
        _write_pages(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
