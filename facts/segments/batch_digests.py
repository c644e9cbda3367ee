"""What the fold keeps of a batch: its identity in 64 bits, its looks in 32, and the sequence that follows it.

In: a header's fields. Out: numbers. The rule that must hold: two batches that are the same have the same ones.
"""

from typing import Any

import numba
import numpy as np

from tidegauge.facts.segments.summary import SEQUENCE_MASK


@numba.njit(cache=True)
def sequence_after(sequence: int, delta: int) -> int:
    """Sequences wrap (DefaultRecordBatch#incrementSequence)."""
    return (sequence + delta) & SEQUENCE_MASK


@numba.njit(cache=True)
def mix(base: int, last: int, epoch: int, crc: int, size: int) -> Any:
    """One 64-bit value per batch (splitmix64's finaliser over its identity); buckets add them up, so order is free."""
    h = np.uint64(base) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(crc)
    h ^= (np.uint64(last) << np.uint64(17)) ^ (np.uint64(epoch) << np.uint64(48)) ^ (np.uint64(size) << np.uint64(32))
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@numba.njit(cache=True)
def look(base_timestamp: int, size: int, count: int, delta: int) -> Any:
    """What a batch that a client sends again has in common with the first one, in 32 bits; never 0."""
    h = np.uint64(base_timestamp) * np.uint64(0x9E3779B97F4A7C15)
    h ^= np.uint64(size) ^ (np.uint64(count) << np.uint64(24)) ^ (np.uint64(delta) << np.uint64(44))
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.uint32((h ^ (h >> np.uint64(31))) & np.uint64(0xFFFFFFFF)) | np.uint32(1)
