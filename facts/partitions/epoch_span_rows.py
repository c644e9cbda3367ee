"""Rows of `epoch_spans`: every leader epoch that the batches or the checkpoint of a replica know.

In: `ReplicaSet`. Out: dictionaries column -> value, as `relations` names them. A row says what the replica has of the
epoch, what the partition's reference has, and what the broker has that was elected for it.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.replicas.cleaning_doubt import policy_history_known
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_columns import capture, of_replica
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.kafka_log.checkpoints import EpochEntry, LeaderEpochCheckpoint
from tidegauge.relations import EpochSpanRow

_Span = tuple[int, int, int]
"""Of an epoch in a log: first offset, end offset, batches."""


class _Log:
    """What a replica's batches tell of its leader epochs: `spans` by epoch, `first_epoch` the lowest of them."""

    def __init__(self, replica: ReplicaFacts) -> None:
        self.replica = replica
        self.spans: dict[int, _Span] = {}
        for run in replica.summary.epoch_runs:
            leader_epoch = int(run["leader_epoch"])
            start, end, batches = int(run["start_offset"]), int(run["end_offset"]), int(run["batches"])
            if leader_epoch in self.spans:
                start, batches = min(start, self.spans[leader_epoch][0]), batches + self.spans[leader_epoch][2]
            self.spans[leader_epoch] = (start, end, batches)
        self._epochs = sorted(self.spans)
        self.first_epoch = self._epochs[0] if self._epochs else None

    def next_start(self, leader_epoch: int) -> int:
        """Where the next epoch's first batch is: later than the epoch's own last one where a cleaner was at work."""
        at = bisect_right(self._epochs, leader_epoch)
        return self.spans[self._epochs[at]][0] if at < len(self._epochs) else self.replica.log_end_offset


class _Reference:
    """The partition's reference, as the rows of the other replicas name it."""

    def __init__(self, log: _Log) -> None:
        self._log = log
        self._starts = {e.leader_epoch: e.start_offset for e in log.replica.vector.entries}

    def columns(self, leader_epoch: int) -> EpochSpanRow:
        """What it has of an epoch."""
        span = self._log.spans.get(leader_epoch)
        return {
            "reference_broker_id": self._log.replica.broker_id,
            "reference_start_offset": span[0] if span is not None else self._starts.get(leader_epoch),
            "reference_is_first": leader_epoch == self._log.first_epoch,
            "reference_high_watermark": self._log.replica.checkpointed.high_watermark,
        }


_NO_REFERENCE: EpochSpanRow = {
    "reference_broker_id": None,
    "reference_start_offset": None,
    "reference_is_first": False,
    "reference_high_watermark": None,
}


def epoch_span_rows(present: ReplicaSet, *, compacted: bool) -> Iterator[EpochSpanRow]:
    """The rows of all live replicas of a partition."""
    context = present.context
    logs = [_Log(replica) for replica in present.live]
    by_broker = {log.replica.broker_id: log for log in logs}
    reference = _Reference(_Log(present.reference)) if present.reference is not None else None
    # An epoch is led by one broker or by none: each record that names a leader, or none, begins one.
    leaderless = {c.leader_epoch for c in context.history.changes if c.leader_id is None and not c.after_damage}
    for log in logs:
        other = reference if log.replica is not present.reference else None
        ours = _of_this_topic(context, log.replica)
        of_all: EpochSpanRow = {
            **of_replica(log.replica),
            "divergence_offset": present.shared_end.get(log.replica.broker_id),
            "ever_compacted": compacted,
            "max_metadata_leader_epoch": context.assignment.leader_epoch if ours else None,
            **_columns_of_all_epochs(context, log.replica),
            **capture(context, log.replica),
        }
        for row in _own_rows(log):
            leader_epoch = row["leader_epoch"]
            yield {
                **of_all,
                **row,
                "election_known": leader_epoch in context.history.epoch_leaders
                or (ours and leader_epoch in leaderless),
                **(other.columns(leader_epoch) if other is not None else _NO_REFERENCE),
                **_writer_columns(context.history.epoch_leaders.get(leader_epoch), by_broker, leader_epoch),
            }


def _own_rows(log: _Log) -> Iterator[EpochSpanRow]:
    """What a replica itself has of each of its epochs: in its batches, and in its checkpoint."""
    given, spans = log.replica.given, log.spans
    entries, later = _entries(given.epoch_checkpoint), _entries(given.later_epoch_checkpoint)
    by_checkpoint = {e.leader_epoch: e.start_offset for e in reversed(entries)}
    by_later_checkpoint = {e.leader_epoch: e.start_offset for e in reversed(later)}
    epochs = sorted(spans.keys() | by_checkpoint.keys())
    first_entry = entries[0].leader_epoch if entries else (epochs[0] if epochs else None)
    for leader_epoch in epochs:
        start, end, batches = spans.get(leader_epoch, (None, None, 0))
        yield {
            "leader_epoch": leader_epoch,
            "start_offset": start,
            "end_offset": log.next_start(leader_epoch),
            "last_batch_end_offset": end,
            "batch_count": batches,
            "checkpoint_start_offset": by_checkpoint.get(leader_epoch),
            "later_checkpoint_start_offset": by_later_checkpoint.get(leader_epoch),
            "is_first_entry": leader_epoch == first_entry,
            "is_last_entry": bool(entries) and leader_epoch == entries[-1].leader_epoch,
        }


def _columns_of_all_epochs(context: PartitionContext, replica: ReplicaFacts) -> EpochSpanRow:
    """What the rows of all epochs of a replica say alike."""
    entries, later = _entries(replica.given.epoch_checkpoint), _entries(replica.given.later_epoch_checkpoint)
    return {
        "log_start_offset": replica.log_start_offset,
        "log_end_offset": replica.log_end_offset,
        "high_watermark": replica.checkpointed.high_watermark,
        "first_batch_offset": replica.summary.begins_at,
        "metadata_log_captured": context.metadata.captured,
        "metadata_damaged": context.metadata.damaged,
        "epoch_checkpoint_missing": replica.given.epoch_checkpoint is None,
        "epoch_checkpoints_copied": replica.copied.epoch_checkpoints,
        "epoch_checkpoint_read_again": replica.given.later_epoch_checkpoint is not None,
        "checkpoint_first_start_offset": entries[0].start_offset if entries else None,
        "checkpoint_last_leader_epoch": entries[-1].leader_epoch if entries else None,
        "later_checkpoint_last_leader_epoch": later[-1].leader_epoch if later else None,
        "checkpoint_older_than_log": replica.moment.checkpoint_older_than_log,
        "log_starts_copied": replica.copied.log_starts,
        "policy_history_known": policy_history_known(context),
        "remote_storage_enable": context.settings.remote_storage_enable,
        "clean_shutdown": replica.moment.clean_shutdown,
    }


def _writer_columns(writer_id: int | None, by_broker: Mapping[int, _Log], leader_epoch: int) -> EpochSpanRow:
    """What the broker that was elected for an epoch has of it."""
    log = by_broker.get(writer_id) if writer_id is not None else None
    span = log.spans.get(leader_epoch) if log is not None else None
    return {
        "elected_leader_id": writer_id,
        "writer_start_offset": span[0] if span is not None else None,
        # What stands behind a newer epoch (a header changed) the writer has all the same.
        "writer_end_offset": max(log.next_start(leader_epoch), span[1])
        if log is not None and span is not None
        else None,
        "writer_first_batch_offset": log.replica.summary.begins_at if log is not None else None,
        "writer_log_end_offset": log.replica.log_end_offset if log is not None else None,
    }


def _entries(checkpoint: LeaderEpochCheckpoint | None) -> Sequence[EpochEntry]:
    return checkpoint.entries if checkpoint is not None else ()


def _of_this_topic(context: PartitionContext, replica: ReplicaFacts) -> bool:
    """Whether nothing says that a directory is of another topic than the one that has its name now."""
    own = replica.given.topic_id
    return own is None or context.topic_id is None or own == context.topic_id
