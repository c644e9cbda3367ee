"""Segment summaries as bytes, so that they can lie in a Parquet column and be reused.

In: `SegmentSummary`. Out: bytes, and back. The rule that must hold: what was written by another version of the fold is
refused (`SUMMARY_VERSION`), never misread.

    u32 header length | header (JSON: version, scalars, rows per array) | epoch runs | events | gaps | buckets |
    findings
"""

import json
import struct
from dataclasses import fields
from typing import Any, Final

import numpy as np

from tidegauge.facts.segments.summary import BUCKET, EPOCH_RUN, EVENT, FINDING, GAP, SegmentSummary

SUMMARY_VERSION: Final = 6
_ARRAYS: Final = {"epoch_runs": EPOCH_RUN, "events": EVENT, "gaps": GAP, "buckets": BUCKET, "findings": FINDING}
_LENGTH: Final = struct.Struct("<I")


def encode_summary(summary: SegmentSummary) -> bytes:
    """A summary as bytes."""
    scalars = {f.name: getattr(summary, f.name) for f in fields(summary) if f.name not in _ARRAYS}
    rows = {name: len(getattr(summary, name)) for name in _ARRAYS}
    header = json.dumps({"version": SUMMARY_VERSION, "scalars": scalars, "rows": rows}).encode()
    # Joined from where they lie: with many producers they are most of what a task holds.
    arrays = (np.ascontiguousarray(getattr(summary, name)).view(np.uint8) for name in _ARRAYS)
    return b"".join([_LENGTH.pack(len(header)), header, *(array.data for array in arrays)])


def decode_summary(data: bytes) -> SegmentSummary:
    """The summary back. Raises ValueError if another version wrote it."""
    (length,) = _LENGTH.unpack_from(data)
    header = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    if header["version"] != SUMMARY_VERSION:
        raise ValueError(f"summary version {header['version']}, expected {SUMMARY_VERSION}")
    at = _LENGTH.size + length
    arrays: dict[str, Any] = {}
    for name, dtype in _ARRAYS.items():
        rows = header["rows"][name]
        arrays[name] = np.frombuffer(data, dtype=dtype, count=rows, offset=at).copy()
        at += rows * dtype.itemsize
    scalars = header["scalars"]
    scalars["counts"] = tuple(scalars["counts"])
    return SegmentSummary(**scalars, **arrays)
