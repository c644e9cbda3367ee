"""The two tables that code makes and the repository keeps: README's families, and the score in docs/accuracy.md.

Both are read where no site has been built, by who wants to know what Tidegauge judges and how well. Every other table
that code can make is in the site alone: docs/build_site.py makes it.

    python docs/generate.py            writes the parts anew
    python docs/generate.py --check    writes nothing; exit status 1 if a part is stale
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tidegauge.expectations.data_docs import FAMILIES
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.scoring.explored import Explored
from tidegauge.scoring.explored import table as explored_table
from tidegauge.scoring.score import from_json
from tidegauge.scoring.table import by_fault, by_invariant, impossible, summary

sys.path.insert(0, str(Path(__file__).parent))
import reference_pages
from parts import Makers, renewed

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

PARTS: Final[Mapping[str, Makers]] = {
    "README.md": {"families": families},
    "docs/accuracy.md": {"score": score},
}
"""Document -> name of a part -> what makes it."""


def stale() -> list[str]:
    """The documents that are not what the code says today."""
    return [name for name, makers in PARTS.items() if _read(name) != renewed(_read(name), "generated", makers)]


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
    for name, makers in PARTS.items():
        text = renewed(_read(name), "generated", makers)
        (ROOT / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
