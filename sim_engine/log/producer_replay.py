"""The producers of a log as a broker restores them when it starts, and the snapshots that it leaves on the way.

In: producer snapshots, segments, a log start. Out: `Producers` and snapshots. The newest snapshot in range is believed,
and what lies behind it is read.

Source: Kafka ProducerStateManager, UnifiedLog#rebuildProducerState.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry
from tidegauge.sim_engine.log.producers import (
    EndedTransaction,
    Producers,
    appended,
    expired,
    restored,
    snapshot_entries,
)
from tidegauge.sim_engine.log.segment import Segment
from tidegauge.sim_engine.log.stored_batch import StoredBatch

Snapshots = Mapping[int, tuple[ProducerSnapshotEntry, ...]]


@dataclass(slots=True, kw_only=True)
class ProducerReplay:
    """What is known up to `end_offset`; the last snapshot was taken at `snapshot_offset`."""

    snapshots: dict[int, tuple[ProducerSnapshotEntry, ...]]
    now_ms: int
    expiration_ms: int
    producers: Producers
    end_offset: int = 0
    snapshot_offset: int = 0

    def take(self, batch: StoredBatch) -> EndedTransaction | None:
        """Goes over a batch."""
        self.producers, ended = appended(self.producers, batch)
        return ended

    def snapshot(self) -> None:
        """Writes the producers down, if the last time was further back."""
        if self.end_offset > self.snapshot_offset:
            self.snapshots[self.end_offset] = snapshot_entries(self.producers)
            self.snapshot_offset = self.end_offset

    def rebuild(self, segments: Sequence[Segment], *, log_start_offset: int, up_to: int, clean: bool) -> None:
        """Restores what was known at an offset."""
        bases = [s.base_offset for s in segments][-2:]
        if not self.snapshots and clean:
            # Nobody writes with a producer id here, says a clean stop that left no snapshot: the log is not read.
            for offset in (*bases, up_to):
                self.end_offset = offset
                self.snapshot()
            return
        self._reload(log_start_offset, up_to)
        for segment in _between(segments, self.end_offset, up_to):
            start = max(segment.base_offset, self.end_offset, log_start_offset)
            self.end_offset = start
            if segment.base_offset in (*bases, up_to):
                self.snapshot()
            for batch in segment.batches:
                if start <= batch.last_offset < up_to:
                    self.take(batch)
        self.end_offset = up_to
        self.snapshot()

    def _reload(self, log_start_offset: int, up_to: int) -> None:
        for offset in [o for o in self.snapshots if not log_start_offset < o <= up_to]:
            del self.snapshots[offset]
        self.snapshot_offset = max(self.snapshots, default=log_start_offset)
        if up_to == self.end_offset:
            self.end_offset = max(self.end_offset, log_start_offset)
            return
        self.producers = restored(self.snapshots[self.snapshot_offset]) if self.snapshots else Producers()
        self.producers = self.producers.without(expired(self.producers, self.now_ms, self.expiration_ms))
        self.end_offset = self.snapshot_offset


def without_strays(snapshots: Snapshots, bases: Sequence[int]) -> dict[int, tuple[ProducerSnapshotEntry, ...]]:
    """Snapshots that belong to a segment, and the newest of the others if it lies behind them all."""
    strays = [o for o in snapshots if o not in bases]
    newest = max(strays, default=-1)
    kept = newest if newest >= max(bases, default=-1) else -1
    return {o: entries for o, entries in snapshots.items() if o in bases or o == kept}


def _between(segments: Sequence[Segment], start: int, end: int) -> Sequence[Segment]:
    first = max((i for i, s in enumerate(segments) if s.base_offset <= start), default=0)
    return [s for s in segments[first:] if s.base_offset < end] if start < end else []
