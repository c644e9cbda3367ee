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
    """The summary back. Raises ValueError if another version wrote it, or it is cut short."""
    (length,) = _LENGTH.unpack_from(data)
    header = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    if header["version"] != SUMMARY_VERSION:
        raise ValueError(f"summary version {header['version']}, expected {SUMMARY_VERSION}")
    size = sum(header["rows"][name] * dtype.itemsize for name, dtype in _ARRAYS.items())
    plain = decompress_to_array(CompressionType.ZSTD, data[_LENGTH.size + length :], max_plain_bytes=size)
    if isinstance(plain, Corruption) or len(plain) != size:
        raise ValueError(f"the arrays of a summary do not unpack to {size} bytes")
    arrays: dict[str, Any] = {}
    at = 0
    for name, dtype in _ARRAYS.items():
        rows = header["rows"][name]
        arrays[name] = np.frombuffer(plain, dtype=dtype, count=rows, offset=at).copy()
        at += rows * dtype.itemsize
    scalars = header["scalars"]
    scalars["counts"] = tuple(scalars["counts"])
    return SegmentSummary(**scalars, **arrays)
