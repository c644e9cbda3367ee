"""A segment's summary in pieces of bounded size, so that one with millions of producers is never one value.

In: a `SegmentSummary`. Out: summaries each of which has a stretch of its arrays, and the summary again. The rule that
must hold: the first piece has all that is no array, so a small summary is its own only piece.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.segments.summary import BUCKET, EPOCH_RUN, EVENT, FINDING, GAP, SegmentSummary, empty_summary

ARRAYS: Final = {"epoch_runs": EPOCH_RUN, "events": EVENT, "gaps": GAP, "buckets": BUCKET, "findings": FINDING}
"""The arrays of a summary, by field."""
_NO_ENTRIES: Final[Any] = {name: np.zeros(0, dtype=dtype) for name, dtype in ARRAYS.items()}


def entries(summary: SegmentSummary) -> int:
    """How many its arrays have together."""
    return sum(len(getattr(summary, name)) for name in ARRAYS)


def pieces_of(summary: SegmentSummary, room: int) -> Iterator[SegmentSummary]:
    """The summary in pieces of so many entries at most."""
    if entries(summary) <= room:
        yield summary
        return
    piece, left = replace(summary, **_NO_ENTRIES), room
    for name in ARRAYS:
        array: NDArray[Any] = getattr(summary, name)
        while len(array):
            if not left:
                yield piece
                piece, left = empty_summary(), room
            taken: Any = {name: array[:left]}
            piece, array, left = replace(piece, **taken), array[left:], left - len(taken[name])
    yield piece


def whole_of(pieces: Sequence[SegmentSummary]) -> SegmentSummary:
    """The summary of these pieces, which are in order."""
    first, *others = pieces
    if not others:
        return first
    joined: Any = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in ARRAYS}
    return replace(first, **joined)
