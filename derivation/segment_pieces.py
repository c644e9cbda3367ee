"""A segment's row of the index step as rows of bounded size, and the rows again.

In: what the index step found in a segment, with summaries and a coordinator's table of whatever size. Out: its first
row, which tells everything else, and as many more as these two need; and the other way round. The rule that must hold:
no row grows with producers, groups or transactions, so that neither Spark nor Parquet ever has one that does not fit.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from tidegauge.derivation.index_row import IndexRow
from tidegauge.facts.coordinators import table_pieces
from tidegauge.facts.coordinators.tables import CoordinatorTable
from tidegauge.facts.segments import summary_pieces
from tidegauge.facts.segments.summary import SegmentSummary

ROOM: Final = 2048
"""Entries of a row, of some hundred bytes each."""
_OF_SUMMARY: Final = 8
"""Entries that a summary's own numbers are as large as, about."""


def in_pieces(row: IndexRow) -> Iterator[IndexRow]:
    """The rows of a segment, the first one first."""
    if row.get("error") is not None or "summaries" not in row:
        yield {**row, "piece": 0, "pieces": 1}
        return
    first, *others = _summaries_together(row)
    table = row["coordinator_records"]
    tables = [] if table is None else list(table_pieces.pieces_of(table, ROOM))
    told: IndexRow = {
        "snapshot": row["snapshot"], "broker_id": row["broker_id"], "directory": row["directory"],
        "topic": row["topic"], "partition": row["partition"], "path": row["path"], "stored_path": row["stored_path"],
        "base_offset": row["base_offset"], "size_bytes": row["size_bytes"], "content": row["content"],
        "reused": row["reused"],
    }  # fmt: skip
    pieces = 1 + len(others) + len(tables[1:])
    yield {**row, **_said(first), "coordinator_records": tables[0] if tables else None, "piece": 0, "pieces": pieces}
    further: list[IndexRow] = [_said(some) for some in others]
    further += [{"coordinator_records": part} for part in tables[1:]]
    for piece, said in enumerate(further, 1):
        yield {**told, **said, "piece": piece}


_Placed = tuple[int, SegmentSummary]
"""The offset that a summary's stretch of the log begins at, and a piece of it."""


def _summaries_together(row: IndexRow) -> Iterator[list[_Placed]]:
    """Pieces of a row's summaries, as many at a time as there is room for; at least once."""
    waiting: list[_Placed] = []
    left = ROOM
    for start, summary in zip(row["range_offsets"], row["summaries"], strict=True):
        for piece in summary_pieces.pieces_of(summary, ROOM):
            size = _OF_SUMMARY + summary_pieces.entries(piece)
            if waiting and size > left:
                yield waiting
                waiting, left = [], ROOM
            waiting.append((start, piece))
            left -= size
    yield waiting


def _said(placed: Iterable[_Placed]) -> IndexRow:
    starts, summaries = zip(*placed, strict=True) if (placed := list(placed)) else ((), ())
    return {"range_offsets": starts, "summaries": summaries}


def whole_rows(rows: Iterable[IndexRow]) -> list[IndexRow]:
    """A row a segment again, of rows in any order: what they tell but for a coordinator's table."""
    found: dict[tuple[str, str], list[IndexRow]] = {}
    for row in rows:
        found.setdefault((row["snapshot"], row["path"]), []).append(row)
    return [_joined(of_segment) for of_segment in found.values()]


def _joined(rows: list[IndexRow]) -> IndexRow:
    if len(rows) == 1:
        (whole,) = rows
    else:
        rows.sort(key=lambda row: row["piece"])
        whole = rows[0]
    if whole.get("error") is not None or whole.get("summaries") is None:
        return whole
    placed: dict[int, list[SegmentSummary]] = {}
    for row in rows:
        for start, piece in zip(row["range_offsets"] or (), row["summaries"] or (), strict=True):
            placed.setdefault(start, []).append(piece)
    if len(rows) == 1 and len(placed) == len(whole["summaries"]):
        return whole
    return {
        **whole,
        "range_offsets": list(placed),
        "summaries": [summary_pieces.whole_of(pieces) for pieces in placed.values()],
    }


def whole_table(pieces: Iterable[CoordinatorTable]) -> CoordinatorTable:
    """The table of a segment's rows, which are in order."""
    return table_pieces.whole_of(pieces)
