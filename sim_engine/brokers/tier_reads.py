"""Reading from the remote tier: followers that begin behind it, consumers of old records.

In: what a broker knows of the tier, and the store. Out: a follower's log, batches, or why there are none. Only a
segment of the log's own lineage counts, and what the store has lost nobody can read.

Source: TierStateMachine#buildRemoteLogAuxState, RemoteLogManager#read, DelayedRemoteFetch; KIP-405.
"""

from tidegauge.kafka_log.transaction_index import AbortedTransaction
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.brokers.remote_metadata_topic import view_of
from tidegauge.sim_engine.log.remote_metadata import RemoteSegment, RemoteState, RemoteView
from tidegauge.sim_engine.log.replica_log import EpochStart, ReplicaLog
from tidegauge.sim_engine.log.stored_batch import StoredBatch, readable
from tidegauge.sim_engine.log.tiering import with_auxiliary_state
from tidegauge.sim_engine.messages import NONE, FetchedPartition
from tidegauge.sim_engine.turn import Turn

MOVED_TO_TIER = "OFFSET_MOVED_TO_TIERED_STORAGE"


def is_in_tier(log: ReplicaLog, offset: int) -> bool:
    """Whether an offset of the log is to be looked for in the tier."""
    return log.config.remote_storage and log.log_start_offset <= offset < log.segments[0].base_offset


def local_start(log: ReplicaLog) -> tuple[int, int]:
    """Where the local log begins, and the epoch of what lies before that."""
    start = log.segments[0].base_offset
    return start, epoch_at(log.epochs, start - 1)


def epoch_at(epochs: tuple[EpochStart, ...], offset: int) -> int:
    """The epoch in force at an offset; -1 if none is known."""
    return max((e.leader_epoch for e in epochs if e.start_offset <= offset), default=-1)


def start_behind_tier(turn: Turn, broker_id: int, found: FetchedPartition) -> bool:
    """A follower's log begins where the tier ends, if the broker knows the tier that far and the object is there."""
    assert found.local_start is not None
    start, epoch = found.local_start
    segment = _holding(view_of(turn, broker_id, found.partition), found.partition, start - 1, epoch)
    stored = turn.remote.objects.get(segment.segment_id) if segment is not None else None
    if stored is None:
        return False
    log = turn.log(broker_id, found.partition)
    anew = with_auxiliary_state(log, stored, log_start_offset=found.log_start_offset, now_ms=turn.now_ms)
    ledger.truncated(turn, broker_id, found.partition, log, anew, "start behind the tier")
    turn.put_log(broker_id, found.partition, anew)
    return True


def remote_batches(
    turn: Turn, broker_id: int, partition: TopicPartition, offset: int
) -> tuple[str, tuple[StoredBatch, ...]]:
    """An error or none, and batches of one remote segment from an offset on."""
    epoch = epoch_at(turn.log(broker_id, partition).epochs, offset)
    segment = _holding(view_of(turn, broker_id, partition), partition, offset, epoch)
    if segment is None:
        return "OFFSET_OUT_OF_RANGE", ()
    stored = turn.remote.objects.get(segment.segment_id)
    if stored is None:
        return "UNKNOWN_SERVER_ERROR", ()
    return NONE, readable(b for b in stored.segment.batches if b.last_offset >= offset)


def aborted_entries(turn: Turn, log: ReplicaLog, partition: TopicPartition) -> list[AbortedTransaction]:
    """What all transaction indexes of a partition tell, remote ones too."""
    remote = [o.segment for o in turn.remote.objects.values() if o.about.partition == partition]
    return [entry for segment in (*remote, *log.segments) for entry in segment.transaction_index]


def _holding(view: RemoteView, partition: TopicPartition, offset: int, epoch: int) -> RemoteSegment | None:
    """The finished segment that holds an offset of an epoch (RemoteLogMetadataCache#remoteLogSegmentMetadata)."""
    for segment in view.of(partition, RemoteState.COPY_SEGMENT_FINISHED):
        if segment.start_offset <= offset < segment.end_offset and epoch_at(segment.epochs, offset) == epoch:
            return segment
    return None
