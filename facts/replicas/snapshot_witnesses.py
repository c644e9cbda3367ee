"""Producers that one replica's producer snapshot lacks, and that another's has at the same offset.

In: the replicas of a partition, folded. Out: their `IndexFileFacts`, with fewer `undecided`. Another broker's memory is
a witness only where no setting that anybody uses would have let the producer go meanwhile.
"""

from collections.abc import Sequence

from tidegauge.facts.metadata.expiration import CHECK_INTERVAL_MS
from tidegauge.facts.producers.snapshot_content import last_heard_of
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_input import SnapshotFile
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry


def count_witnessed(replicas: Sequence[ReplicaFacts], *, captured_at_ms: int | None) -> None:
    """Counts as missing what a snapshot lacks and another broker's has, and what nothing else decides.

    `captured_at_ms`: no snapshot was taken later. None: of no producer it is known how long it was idle.
    """
    if captured_at_ms is None:
        return
    for replica in replicas:
        for file in replica.index_files:
            facts = file.facts
            if facts.kind != "snapshot" or not facts.undecided:
                continue
            own = next(s for s in replica.given.snapshots if s.path == file.path)
            named = {e.producer_id for e in own.content.entries}
            for producer_id, written_at_ms in list(facts.undecided.items()):
                witness = _witness(replicas, replica, own, producer_id)
                if producer_id in named or witness is None or captured_at_ms - written_at_ms >= CHECK_INTERVAL_MS:
                    continue
                broker_id, entry = witness
                del facts.undecided[producer_id]
                facts.missing_entries += 1
                facts.note(
                    "missing",
                    None,
                    f"{last_heard_of(entry)} and is not in it; broker {broker_id}'s snapshot at the same offset has it",
                )


def _witness(
    replicas: Sequence[ReplicaFacts], but: ReplicaFacts, own: SnapshotFile, producer_id: int
) -> tuple[int, ProducerSnapshotEntry] | None:
    for other in replicas:
        if other is but:
            continue
        for snapshot in other.given.snapshots:
            if snapshot.offset != own.offset or snapshot.content.corruptions:
                continue
            for entry in snapshot.content.entries:
                if entry.producer_id == producer_id:
                    return other.broker_id, entry
    return None
