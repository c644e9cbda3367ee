"""Segment summaries as bytes, so that they can lie in a Parquet column and be reused.

In: `SegmentSummary`. Out: bytes, and back. The rule that must hold: what was written by another version of the fold is
refused (`SUMMARY_VERSION`), never misread.

    u32 header length | header (JSON: version, scalars, rows per array) |
    zstd of: epoch runs | events | gaps | buckets | findings

An event of a producer is 120 bytes, most of them those of the one before it: unpacked, what a segment of millions of
producers has would be more than Spark's Java process takes as one value.
"""

import json
import struct
from dataclasses import fields
from typing import Any, Final

import numpy as np

from tidegauge.facts.segments.summary import BUCKET, EPOCH_RUN, EVENT, FINDING, GAP, SegmentSummary
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.compression import compress, decompress_to_array
from tidegauge.kafka_log.corruption import Corruption

SUMMARY_VERSION: Final = 7
_ARRAYS: Final = {"epoch_runs": EPOCH_RUN, "events": EVENT, "gaps": GAP, "buckets": BUCKET, "findings": FINDING}
_LENGTH: Final = struct.Struct("<I")
MAX_PLAIN_BYTES: Final = 4 << 30
"""What the arrays of one segment's summary may unpack to: a segment of 2 GiB has no room for more batches."""


def encode_summary(summary: SegmentSummary) -> bytes:
    """A summary as bytes."""
    scalars = {f.name: getattr(summary, f.name) for f in fields(summary) if f.name not in _ARRAYS}
    rows = {name: len(getattr(summary, name)) for name in _ARRAYS}
    header = json.dumps({"version": SUMMARY_VERSION, "scalars": scalars, "rows": rows}).encode()
    # Joined from where they lie: with many producers they are most of what a task holds.
    arrays = (np.ascontiguousarray(getattr(summary, name)).view(np.uint8) for name in _ARRAYS)
    packed = compress(CompressionType.ZSTD, b"".join(array.data for array in arrays))
    return b"".join([_LENGTH.pack(len(header)), header, packed])


def decode_summary(data: bytes) -> SegmentSummary:
    """The summary back. Raises `ValueError` if another version wrote it, it is cut short, or it is none at all."""
    try:
        return _decoded(data)
    except (struct.error, AttributeError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"no summary: {type(error).__name__}: {error}") from error


def _decoded(data: bytes) -> SegmentSummary:
    (length,) = _LENGTH.unpack_from(data)
    header = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    if header["version"] != SUMMARY_VERSION:
        raise ValueError(f"summary version {header['version']}, expected {SUMMARY_VERSION}")
    size = sum(_rows(header, name) * dtype.itemsize for name, dtype in _ARRAYS.items())
    if size > MAX_PLAIN_BYTES:
        raise ValueError(f"a summary claims {size} bytes, and none has more than {MAX_PLAIN_BYTES}")
    plain = decompress_to_array(CompressionType.ZSTD, data[_LENGTH.size + length :], max_plain_bytes=size)
    if isinstance(plain, Corruption) or len(plain) != size:
        raise ValueError(f"the arrays of a summary do not unpack to {size} bytes")
    arrays: dict[str, Any] = {}
    at = 0
    for name, dtype in _ARRAYS.items():
        rows = _rows(header, name)
        arrays[name] = np.frombuffer(plain, dtype=dtype, count=rows, offset=at).copy()
        at += rows * dtype.itemsize
    scalars = header["scalars"]
    scalars["counts"] = counts = tuple(scalars["counts"])
    numbers = [*counts, *(value for name, value in scalars.items() if name != "counts")]
    if not all(isinstance(number, int) for number in numbers):
        raise ValueError("a number in it is none")
    return SegmentSummary(**scalars, **arrays)


def _rows(header: Any, name: str) -> int:
    rows = header["rows"][name]
    if not isinstance(rows, int) or rows < 0:
        raise ValueError(f"{rows!r} rows of {name}")
    return rows
