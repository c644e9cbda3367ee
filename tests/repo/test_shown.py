"""Which relations the store has whole: those of which a view, or a query of ours, shows rows that breach nothing."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidegauge.relations import RELATIONS

ROOT: Final = Path(__file__).resolve().parents[2]
ASKED: Final = re.compile(r"\b(?:FROM|JOIN)\s+tidegauge\.(\w+)")
PROVES_IF_THERE: Final = {"segments"}
"""Asked by the loss ledger for a proof that records are back. Where the rows did not travel it proves nothing, and the
loss stays.
"""


def sources() -> Iterator[Path]:
    for room in ("sql/views", "sql/migrations/versions"):
        yield from (ROOT / room).rglob("*.sql")
    for room in ("alerts", "audit", "cli", "console", "embedded", "recovery", "scoring"):
        yield from (ROOT / "tidegauge" / room).rglob("*.py")
    yield from (ROOT / "store").glob("*.py")
    yield from (ROOT / "grafana").glob("*.py")


def test_what_somebody_reads_is_in_the_store_whole_and_nothing_else_has_to_be() -> None:
    asked = {name for path in sources() for name in ASKED.findall(path.read_text(encoding="utf-8"))}
    assert asked >= PROVES_IF_THERE
    assert (asked & RELATIONS.keys()) - PROVES_IF_THERE == {name for name, r in RELATIONS.items() if r.shown}
