"""Replica directories of a capture: what Kafka is asked about them, and what Tidegauge says, in one and the same form.

In: `Derived`, the facts of a snapshot. Out: jobs for the oracle, and plain lists to compare with its answers. Both
sides are told the same (checkpoints, clean shutdown); neither is told what the other says.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from tests.derivation.pipeline import Derived
from tests.oracle.kafka import Answer, Job
from tidegauge.derivation.gathering.replica_files import replica_input
from tidegauge.facts.producers.replay import ProducerReplay
from tidegauge.facts.replicas.epochs import epoch_vector
from tidegauge.facts.replicas.replica import ReplicaFacts, replica_facts
from tidegauge.facts.replicas.replica_input import ReplicaInput, SnapshotFile
from tidegauge.kafka_log.checkpoints import EpochEntry
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry
from tidegauge.kafka_log.scan import scan_buffer

_ROW: Final = (
    "position", "size_bytes", "base_offset", "last_offset", "partition_leader_epoch", "magic", "crc", "crc_valid",
    "attributes", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "record_count",
)  # fmt: skip
LOADED_AT_MS: Final = 0
"""Before any record was written: no producer's state is too old to be loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica's facts, and whether its topic is tiered."""

    capture: str
    root: Path
    facts: ReplicaFacts
    tiered: bool
    recovered: ReplicaFacts
    """The facts without the producer snapshots that a broker drops before it recovers."""

    @property
    def name(self) -> str:
        """The directory's own name, which Kafka reads topic and partition from."""
        return self.facts.given.place.directory.rsplit("/", 1)[-1]

    @property
    def where(self) -> str:
        """For a failure's message."""
        return f"{self.capture}/{self.facts.given.place.directory}"

    def high_watermarks(self) -> list[int]:
        """Offsets at which the first unstable one is asked for: before and behind each end marker, and some between."""
        facts = self.facts
        markers = [t.marker_offset for t in facts.replay.completed if t.marker_offset is not None]
        ends = {facts.log_start_offset, facts.log_end_offset, facts.checkpointed.high_watermark or 0}
        ends.update(o for m in markers[:: max(1, len(markers) // 20)] for o in (m, m + 1))
        return sorted(o for o in ends if facts.log_start_offset <= o <= facts.log_end_offset)

    def job(self, **changes: Any) -> Job:
        """What a broker would be told when it loads this directory."""
        given = self.facts.given
        return {
            "job": "load",
            "directory": str(self.root / given.place.directory),
            "name": self.name,
            "clean": given.moment.clean_shutdown,
            "log_start": given.checkpointed.log_start_offset or 0,
            "recovery_point": given.checkpointed.recovery_point_offset or 0,
            "high_watermarks": self.high_watermarks(),
            "now_ms": LOADED_AT_MS,
            "remote": self.tiered,
            "keep_snapshots": True,
            "with_batches": True,
            **changes,
        }


def replicas_of(derived: Derived, capture: str) -> Iterator[Replica]:
    """Every replica directory of a snapshot, the future ones of a disk move too."""
    for key, works in sorted(derived.context.replicas.items()):
        context = derived.context.partitions[key]
        for work in works:
            given = replica_input(derived.root, work, derived.index)
            facts, recovered = (
                replica_facts(
                    each,
                    topic_compacted=context.settings.ever_compacted,
                    tiered=context.settings.remote_storage_enable,
                    expiration=context.settings.producer_expiration,
                )
                for each in (given, replace(given, snapshots=_taken_by_recovery(given)))
            )
            yield Replica(
                capture=capture,
                root=derived.root,
                facts=facts,
                tiered=context.settings.remote_storage_enable,
                recovered=recovered,
            )


def _taken_by_recovery(given: ReplicaInput) -> tuple[SnapshotFile, ...]:
    """After a stop that was not clean, a broker reads the segments from the recovery point on anew.

    It drops every producer snapshot above the first of these segments, and takes new ones (`LogLoader#recoverSegment`).
    """
    if given.moment.clean_shutdown:
        return given.snapshots
    bases = [segment.base_offset for segment in given.segments]
    first = max(
        (base for base in bases if base <= (given.checkpointed.recovery_point_offset or 0)),
        default=min(bases, default=0),
    )
    return tuple(s for s in given.snapshots if s.offset <= first)


def batches(path: Path) -> list[list[int]]:
    """The rows of a segment as Kafka's iterator would give them."""
    headers, _ = scan_buffer(path.read_bytes())
    return [[int(row[name]) for name in _ROW] for row in headers]


def states(replay: ProducerReplay) -> dict[int, list[int]]:
    """Producers by id, in the order of a producer snapshot's fields."""
    return {s.producer_id: _state(s) for s in replay.states.values()}


def _state(state: ProducerSnapshotEntry) -> list[int]:
    first = state.current_transaction_first_offset
    return [
        state.producer_id, state.producer_epoch, state.last_sequence, state.last_offset, state.offset_delta,
        state.timestamp, state.coordinator_epoch, -1 if first is None else first,
    ]  # fmt: skip


def states_above_start(facts: ReplicaFacts) -> dict[int, list[int]]:
    """The same without producers that wrote nothing at or above the log start: a broker replays from there."""
    reached = dict.fromkeys(facts.replay.states, 0)
    for (pid, _), epoch in facts.replay.epochs.items():
        reached[pid] = max(reached[pid], epoch.last_offset)
    return {pid: state for pid, state in states(facts.replay).items() if reached[pid] >= facts.log_start_offset}


def by_id(producers: Iterable[list[int]]) -> dict[int, list[int]]:
    """Kafka's producers, keyed alike."""
    return {fields[0]: fields for fields in producers}


def epochs(facts: ReplicaFacts) -> list[list[int]]:
    """The epoch cache as it is after loading.

    Loading drops an epoch that begins at the log end (`LeaderEpochFileCache#truncateFromEnd`), for nothing was written
    in it. A leader that runs has it there, so the facts keep it. Of an empty log only what began below it is left,
    folded into its one offset.
    """
    start, end = facts.log_start_offset, facts.log_end_offset
    kept = [e for e in facts.vector.entries if e.start_offset < end]
    if start == end:
        checkpoint = facts.given.epoch_checkpoint
        runs = [(int(run["leader_epoch"]), int(run["start_offset"])) for run in facts.summary.epoch_runs]
        whole = epoch_vector(
            checkpoint=checkpoint.entries if checkpoint is not None else None,
            batch_epochs=[EpochEntry(leader_epoch=epoch, start_offset=offset) for epoch, offset in runs],
            log_start_offset=0,
            log_end_offset=end,
        )
        below = [e for e in whole.entries if e.start_offset < end]
        kept = [EpochEntry(leader_epoch=below[-1].leader_epoch, start_offset=start)] if below else []
    return [[int(e.leader_epoch), int(e.start_offset)] for e in kept]


def aborted_on_disk(facts: ReplicaFacts) -> list[list[int]]:
    """All entries of the transaction indexes, as they lie there, each behind its segment's base offset."""
    return [
        [base, e.producer_id, e.first_offset, e.last_offset, e.last_stable_offset]
        for base in sorted(facts.given.transaction_indexes)
        for e in facts.given.transaction_indexes[base].content.entries
    ]


def aborted_by_replay(facts: ReplicaFacts, replay: ProducerReplay) -> list[list[int]]:
    """The entries that a replay of the log asks for, in the order of their markers."""
    bases = [segment.base_offset for segment in facts.given.segments]
    found = sorted(((t.marker_offset or 0, t) for t in replay.completed if t.outcome == "aborted"), key=itemgetter(0))
    return [
        [bases[bisect_right(bases, marker) - 1], t.producer_id, t.first_offset, marker, t.last_stable_offset or 0]
        for marker, t in found
    ]


def loaded_states(replica: Replica) -> dict[int, list[int]]:
    """The producers that a broker knows once it has loaded the directory.

    Without any producer snapshot it knows none after a clean stop (`UnifiedLog#rebuildProducerState` spares itself the
    scan), else those that the log tells.
    """
    facts = replica.recovered
    if facts.snapshot_replay is not None:
        return states(facts.snapshot_replay)
    return {} if facts.moment.clean_shutdown and not facts.given.snapshots else states_above_start(facts)


def differences(replica: Replica, kafka: Answer) -> dict[str, tuple[Any, Any]]:
    """What Kafka says otherwise of a loaded replica: by name, what the facts say and what Kafka says."""
    facts = replica.facts
    highest = [facts.replay.first_unstable_offset(h) for h in replica.high_watermarks()]
    pairs = {
        "log start": (facts.log_start_offset, kafka["log_start"]),
        "local log start": (
            # Kafka's is where reading may begin, the fact is the first segment's base.
            max(facts.local_log_start_offset, facts.log_start_offset if not replica.tiered else 0),
            kafka["local_log_start"],
        ),
        "log end": (facts.log_end_offset, kafka["log_end"]),
        "epochs": (epochs(facts), kafka["epochs"]),
        "segments": ([[s.base_offset, s.size_bytes] for s in facts.given.segments], kafka["segments"]),
        "producers": (loaded_states(replica), by_id(kafka["producers"])),
        "replayed producers": (states_above_start(facts), by_id(kafka["replayed"].get("producers", ()))),
        "first unstable offsets": (
            [-1 if offset is None else offset for offset in highest],
            kafka["replayed"].get("first_unstable"),
        ),
    }
    return {name: (ours, theirs) for name, (ours, theirs) in pairs.items() if ours != theirs}
