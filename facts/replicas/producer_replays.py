"""The producers of one replica, replayed from its log, and as its broker would load them.

In: a `ReplicaInput`. Out: replays, and the producers' states at each producer snapshot's offset. What stood in a batch
with a wrong checksum is told to the replay, and never taken for missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tidegauge.facts.metadata.expiration import Expiration, Idle
from tidegauge.facts.producers.replay import ProducerReplay, seeded
from tidegauge.facts.replicas.replica_input import ReplicaInput
from tidegauge.facts.segments.summary import SegmentSummary
from tidegauge.kafka_log.corruption import Damage
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry


def ranges(given: ReplicaInput) -> Iterator[tuple[int, SegmentSummary]]:
    """The stretches of a log, in order: where each begins, and its summary."""
    for segment in given.segments:
        yield from segment.ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesAt:
    """The producers at one offset: each one's state, and how long it had written nothing at most."""

    states: dict[int, ProducerSnapshotEntry]
    longest_idle: dict[int, Idle]


def replayed(
    given: ReplicaInput, *, expiration: Expiration, compacted: bool
) -> tuple[ProducerReplay, dict[int, StatesAt]]:
    """The replay of the whole log, and the producers' state at each producer snapshot's offset."""
    replay = ProducerReplay(
        compacted=compacted,
        head_gone=bool(given.segments) and given.segments[0].base_offset > 0,
        ignore_sequences=given.ignore_sequences,
        expiration=expiration,
        damaged=_rotten_stretches(given),
    )
    wanted = {s.offset for s in given.snapshots}
    states_at: dict[int, StatesAt] = {}
    for start, part in ranges(given):
        if start in wanted and start not in states_at:
            states_at[start] = _states(replay)
        replay.add(part.events, part.gaps)
    end = _readable_end(given)
    for offset in wanted:
        if offset not in states_at and end is not None and offset >= end:
            states_at[offset] = _states(replay)
    return replay, states_at


def _states(replay: ProducerReplay) -> StatesAt:
    return StatesAt(states=dict(replay.states), longest_idle=dict(replay.longest_idle))


def _rotten_stretches(given: ReplicaInput) -> tuple[tuple[int, int], ...]:
    """Offsets [start, end) of batches that fail their checksum, as far as their headers can be believed."""
    return tuple(
        sorted(
            (c.start_offset, c.end_offset)
            for segment in given.segments
            for c in segment.corruptions
            if c.kind is Damage.CRC and c.start_offset is not None and c.end_offset is not None
        )
    )


def _readable_end(given: ReplicaInput) -> int | None:
    ends = [part.last_offset + 1 for _, part in ranges(given) if part.batch_count]
    return max(ends, default=given.segments[-1].base_offset if given.segments else None)


def replayed_from_snapshot(
    given: ReplicaInput, log_start: int, log_end: int, *, expiration: Expiration, compacted: bool
) -> ProducerReplay | None:
    """As a broker that stopped cleanly loads it: the newest good snapshot inside the log, then the batches behind it.

    One at the log start or below it is not loaded (ProducerStateManager#truncateAndReload).
    """
    usable = [s for s in given.snapshots if log_start < s.offset <= log_end and not s.content.corruptions]
    if not usable:
        return None
    newest = max(usable, key=lambda s: s.offset)
    replay = seeded(
        ProducerReplay(
            compacted=compacted,
            ignore_sequences=given.ignore_sequences,
            expiration=expiration,
            damaged=_rotten_stretches(given),
        ),
        newest.content.entries,
    )
    for start, part in ranges(given):
        if start >= newest.offset:
            replay.add(part.events, part.gaps)
    return replay
