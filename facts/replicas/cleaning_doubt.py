"""Offsets and records that are missing in a log of which nobody knows whether it was ever cleaned.

In: a partition's replicas, and a way to read batches. Out: `CleaningDoubt`. Where the metadata log does not reach back
to the topic's creation, its policy may have been compaction once. A cleaner's checkpoint tells of that on the brokers
that cleaned; a replica that was moved took their holes along and nothing else. So a hole proves nothing there, unless
another replica still holds what is missing.

Source: LogCleanerManager (cleaner-offset-checkpoint is each log dir's own), Cleaner#cleanInto; UnifiedLog#append takes
any offset at or above the log end from a leader.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.replicas.comparison import ReadBatches
from tidegauge.facts.replicas.replica import ReplicaFacts, ReplicaSegment
from tidegauge.facts.segments.summary import FINDING_KINDS
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA

_GAP: Final = "offset_gap"
_SHORT: Final = "short_batch"
_PLACES_LOOKED_AT: Final = 64
"""Of one replica: holes are looked for in the others batch by batch."""

PlaceKey = tuple[int, int, str]
"""Broker, base offset of the segment, and what is missing: offsets or records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningDoubt:
    """`assumed`: the log may have been cleaned, and nothing contradicts it. `held_elsewhere`: how many of a segment's
    missing places another replica holds.
    """

    assumed: bool = False
    held_elsewhere: Mapping[PlaceKey, int] = field(default_factory=dict)


NO_DOUBT: Final = CleaningDoubt()


def policy_history_known(context: PartitionContext) -> bool:
    """Whether all is known of what the topic's policy has been; the metadata log itself is never cleaned."""
    return context.topic == CLUSTER_METADATA or context.upkeep is None or context.upkeep.history_whole


def cleaning_doubt(context: PartitionContext, live: Sequence[ReplicaFacts], read: ReadBatches) -> CleaningDoubt:
    """What is missing in the replicas' logs, where it may have been cleaned away."""
    if policy_history_known(context) or any(f.ever_compacted for f in live):
        return NO_DOUBT
    held: Counter[PlaceKey] = Counter()
    missing = 0
    for replica in live:
        others = [f for f in live if f is not replica]
        for number, (segment, kind, start, end, records) in enumerate(_places(replica)):
            missing += 1
            if number < _PLACES_LOOKED_AT and any(_holds(f, read, kind, start, end, records) for f in others):
                held[replica.broker_id, segment.segment.base_offset, kind] += 1
    return CleaningDoubt(assumed=missing > 0 and not held, held_elsewhere=dict(held))


def _places(replica: ReplicaFacts) -> Iterator[tuple[ReplicaSegment, str, int, int, int]]:
    """Each place where something is missing: its segment, what, from where to where, and how many records are there."""
    for segment in replica.segments:
        for finding in segment.summary.findings:
            kind = FINDING_KINDS[int(finding["kind"])]
            if kind in (_GAP, _SHORT):
                yield segment, kind, int(finding["start_offset"]), int(finding["end_offset"]), int(finding["found"])
        for place in segment.boundary_damages:
            if place["kind"] == _GAP:
                yield segment, _GAP, place["start_offset"], place["end_offset"], 0


def _holds(replica: ReplicaFacts, read: ReadBatches, kind: str, start: int, end: int, records: int) -> bool:
    """Whether a replica has a whole batch where another has none, or more records in the same one."""
    if replica.local_log_start_offset >= end or replica.log_end_offset <= start:
        return False
    found: list[Any] = list(read(replica, start, end))
    if kind == _GAP:
        return any(int(r["record_count"]) == int(r["last_offset"]) - int(r["base_offset"]) + 1 for r in found)
    same = (row for row in found if (int(row["base_offset"]), int(row["last_offset"]) + 1) == (start, end))
    return any(int(row["record_count"]) > records for row in same)
