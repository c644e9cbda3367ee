"""The fold: blocks of batch headers to a segment summary, compiled, one pass.

In: blocks of `kafka_log.scan.BATCH_HEADER` rows in file order. Out: a `SegmentSummary`. What is kept between blocks is
one vector of scalars, growing arrays, and a table from producer id to its last event; `kernel` folds.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.segments import kernel
from tidegauge.facts.segments.summary import (
    BUCKET,
    EPOCH_RUN,
    EVENT,
    FINDING,
    FINDING_KINDS,
    FINDINGS_KEPT,
    GAP,
    GAPS_KEPT,
    NONE,
    SegmentSummary,
    by_bucket,
)
from tidegauge.kafka_log.scan import BATCH_HEADER


def _grown(array: NDArray[Any], needed: int) -> NDArray[Any]:
    if array.shape[0] >= needed:
        return array
    larger = np.zeros(max(needed, array.shape[0] * 2), dtype=array.dtype)
    larger[: array.shape[0]] = array
    return larger


class SummaryFold:
    """The fold over one stretch: feed it blocks of headers, then take the summary.

    `ignore_sequences` is for topics whose batches the group coordinator writes (`__consumer_offsets`): their sequences
    are always 0 or -1 and say nothing.
    """

    def __init__(self, *, ignore_sequences: bool = False) -> None:
        self._ignore_sequences = ignore_sequences
        self._state = np.zeros(kernel.STATE_SIZE, dtype=np.int64)
        for at in (
            kernel.FIRST_OFFSET,
            kernel.LAST_OFFSET,
            kernel.MAX_TIMESTAMP,
            kernel.FIRST_EPOCH,
            kernel.LAST_EPOCH,
            kernel.LARGEST_PRODUCER_ID,
            kernel.END_POSITION,
            kernel.LAST_GOOD_OFFSET,
            kernel.FIRST_POSITION,
            kernel.FIRST_BATCH_END_POSITION,
            kernel.FIRST_BATCH_LAST_OFFSET,
            kernel.FIRST_FORMAT,
            kernel.FIRST_FORMAT_OFFSET,
            kernel.LAST_FORMAT,
            kernel.FORMAT_FALL_OFFSET,
        ):
            self._state[at] = NONE
        self._epoch_runs = np.zeros(16, dtype=EPOCH_RUN)
        self._events = np.zeros(64, dtype=EVENT)
        self._gaps = np.zeros(GAPS_KEPT, dtype=GAP)
        self._buckets = np.zeros(64, dtype=BUCKET)
        self._findings = np.zeros(FINDINGS_KEPT * len(FINDING_KINDS), dtype=FINDING)
        self._keys = np.full(64, NONE, dtype=np.int64)
        self._last_event = np.full(64, NONE, dtype=np.int64)

    def add(self, headers: NDArray[Any]) -> None:
        """Folds a block of batch headers (dtype `BATCH_HEADER`), in file order."""
        assert headers.dtype == BATCH_HEADER
        n = headers.shape[0]
        state = self._state
        self._epoch_runs = _grown(self._epoch_runs, int(state[kernel.N_EPOCH_RUNS]) + n)
        self._events = _grown(self._events, int(state[kernel.N_EVENTS]) + n)
        self._buckets = _grown(self._buckets, int(state[kernel.N_BUCKETS]) + n)
        while (int(state[kernel.N_PRODUCERS]) + n) * 2 > self._keys.shape[0]:
            self._rehash(self._keys.shape[0] * 2)
        kernel.fold(
            headers,
            state,
            self._epoch_runs,
            self._events,
            self._gaps,
            self._buckets,
            self._findings,
            self._keys,
            self._last_event,
            self._ignore_sequences,
        )

    def _rehash(self, size: int) -> None:
        keys, last_event = self._keys, self._last_event
        self._keys = np.full(size, NONE, dtype=np.int64)
        self._last_event = np.full(size, NONE, dtype=np.int64)
        for at in np.nonzero(keys != NONE)[0]:
            slot = kernel.find(self._keys, int(keys[at]))
            self._keys[slot] = keys[at]
            self._last_event[slot] = last_event[at]

    def summary(self) -> SegmentSummary:
        """What has been folded so far."""
        s = [int(v) for v in self._state]
        return SegmentSummary(
            batch_count=s[kernel.BATCHES],
            record_count=s[kernel.RECORDS],
            data_record_count=s[kernel.DATA_RECORDS],
            first_offset=s[kernel.FIRST_OFFSET],
            last_offset=s[kernel.LAST_OFFSET],
            first_position=s[kernel.FIRST_POSITION],
            first_batch_end_position=s[kernel.FIRST_BATCH_END_POSITION],
            first_batch_last_offset=s[kernel.FIRST_BATCH_LAST_OFFSET],
            end_position=s[kernel.END_POSITION],
            last_good_offset=s[kernel.LAST_GOOD_OFFSET],
            max_timestamp_ms=s[kernel.MAX_TIMESTAMP],
            first_leader_epoch=s[kernel.FIRST_EPOCH],
            last_leader_epoch=s[kernel.LAST_EPOCH],
            crc_errors=s[kernel.CRC_ERRORS],
            magic_errors=s[kernel.MAGIC_ERRORS],
            older_batches=s[kernel.OLDER_BATCHES],
            first_format=s[kernel.FIRST_FORMAT],
            first_format_offset=s[kernel.FIRST_FORMAT_OFFSET],
            last_format=s[kernel.LAST_FORMAT],
            format_falls=s[kernel.FORMAT_FALLS],
            format_fall_offset=s[kernel.FORMAT_FALL_OFFSET],
            rewritten_batches=s[kernel.REWRITTEN_BATCHES],
            epochless_first=s[kernel.EPOCHLESS_FIRST],
            cleaned_batches=s[kernel.CLEANED_BATCHES],
            missing_offsets=s[kernel.MISSING_OFFSETS],
            largest_producer_id=s[kernel.LARGEST_PRODUCER_ID],
            last_batch_crc_bad=bool(s[kernel.LAST_BATCH_CRC_BAD]),
            counts=tuple(s[kernel.COUNTS :]),
            epoch_runs=self._epoch_runs[: s[kernel.N_EPOCH_RUNS]].copy(),
            events=self._events[: s[kernel.N_EVENTS]].copy(),
            gaps=self._gaps[: s[kernel.N_GAPS]].copy(),
            buckets=by_bucket(self._buckets[: s[kernel.N_BUCKETS]]),
            findings=_in_order(self._findings[: s[kernel.N_FINDINGS]]),
        )


def _in_order(findings: NDArray[Any]) -> NDArray[Any]:
    """As they lie in the log: the kernel notes one kind after the other, block by block."""
    return findings[np.argsort(findings["position"], kind="stable")]
