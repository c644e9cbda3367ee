"""The table of what was read: docs/fuzz.md, and the figures that it is made from.

In: rows. Out: both files. A row is of one run, whose seed and numbers stand in it; a run that did not ask for a kind
leaves its row alone.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.fuzz.run import Row

KEPT: Final = Path(__file__).resolve().parents[2] / "docs" / "fuzz.json"
PAGE: Final = KEPT.with_suffix(".md")
_HEAD: Final = """# What hostile bytes did

`make fuzz` reads damaged files with every decoder, derives the facts of damaged snapshots, and audits some. An input is
a real broker's file with bits flipped, spans cut, doubled or exchanged, and numbers set to what breaks readers. What is
packed is unpacked, damaged and packed again, and sizes and checksums are mostly made right, so that damage gets past
them. A crash is an error that a reader does not document, a promise that it breaks (every byte is accounted for,
positions lie inside the file, what was written reads the same), a process that dies, or one that takes more than two
minutes.

    make fuzz                              a minute of it, over all kinds
    make fuzz FUZZ="--seconds 3600"        an hour
    make fuzz FUZZ="--replay FILE"         one finding again

| kind | inputs | crashes | slowest | peak memory | of it before the first input |
|---|--:|--:|--:|--:|--:|
"""
_FOOT: Final = """
The slowest is processor time on a shared core; of an audit it is a snapshot's share of the time that the snapshots
audited with it take. An input has a kind, a seed and a number; these are numbers {first:,} and up of seed
{seeds}. [fuzz.json](fuzz.json) has the figures; `python -m benchmarks.fuzz --write` writes both files.
"""


def merged(rows: Iterable[Row]) -> list[Row]:
    """The rows that are kept, with these in the place of their kinds'."""
    kept = {row["kind"]: Row(**row) for row in json.loads(KEPT.read_text(encoding="utf-8"))} if KEPT.exists() else {}
    return list((kept | {row.kind: row for row in rows}).values())


def write(rows: Iterable[Row], order: Iterable[str]) -> None:
    """Both files; kinds that are no more have no row."""
    by_kind = {row.kind: row for row in merged(rows)}
    ordered = [by_kind[kind] for kind in order if kind in by_kind]
    KEPT.write_text(json.dumps([asdict(row) for row in ordered], indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(ordered), encoding="utf-8")


def page(rows: list[Row]) -> str:
    """docs/fuzz.md."""
    seeds = " and ".join(sorted({row.seed for row in rows}))
    first = min((row.first for row in rows), default=0)
    return _HEAD + "".join(f"{line(row)}\n" for row in rows) + _FOOT.format(seeds=seeds, first=first)


def line(row: Row) -> str:
    """A row as one of the table."""
    slowest = f"{row.slowest_ms:,.1f} ms" if row.slowest_ms < 1000 else f"{row.slowest_ms / 1000:,.1f} s"
    memory = f"{row.peak_mib:,.0f} MiB | {row.born_mib:,.0f} MiB"
    return f"| {row.kind} | {row.inputs:,} | {row.crashes:,} | {slowest} | {memory} |"
