"""Rows of `cluster_answers` about one partition's logs: what its leader answered beside what is on disk.

In: the partition's answers, its context, its replicas' facts. Out: rows. An offset of a live leader only grows within a
leader epoch, so what the copy says of the moment at which it was made lies between the answer before and the answer
after; where the leader or the ISR may have changed in between, nothing is compared.

    answered before <= recomputed highest        recomputed lowest <= answered after
"""

from collections.abc import Iterable, Iterator, Sequence

from tidegauge.facts.answers.answers import CHANGED, NO_ANSWER, answer_row
from tidegauge.facts.answers.asked import PartitionAnswers
from tidegauge.facts.context import PartitionContext
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.watermarks import last_stable_offset
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry
from tidegauge.relations import ClusterAnswerRow
from tidegauge.snapshots.cluster_answers import PartitionAnswer, ProducerAnswer

_SEQUENCES = 1 << 32


def partition_answer_rows(
    context: PartitionContext, answers: PartitionAnswers, live: Sequence[ReplicaFacts]
) -> list[ClusterAnswerRow]:
    """All rows of one partition that was answered."""
    rounds = [a for a in (answers.before, answers.after) if a is not None]
    leader_ids = {a.leader_id for a in rounds}
    leader = next((f for f in live if leader_ids == {f.broker_id}), None)
    reason = _moved(context, answers)
    rows = _Partition(context, answers, leader, reason)
    members = [set(a.isr) for a in rounds]
    in_sync = set.intersection(*members) if members else set()
    return [
        rows.log_start(),
        *(rows.high_watermark(f) for f in live if f.broker_id in in_sync),
        rows.last_stable(),
        *rows.producers(),
    ]


def _moved(context: PartitionContext, answers: PartitionAnswers) -> str | None:
    """Why the answers and the copy are not of one leadership."""
    if context.topic_id is not None and answers.topic_ids - {context.topic_id}:
        return "topic re-created"
    # Offsets are asked before topic ids: those of a topic that had the name before may stand beside the new one's id,
    # or beside none.
    if any(c.created and answers.times.in_window(c.at_ms) for c in context.history.changes):
        return "topic re-created"
    rounds = [a for a in (answers.before, answers.after) if a is not None]
    if any(a.leader_id is None for a in rounds):
        return NO_ANSWER
    epochs = {a.leader_epoch for a in rounds if a.leader_epoch is not None}
    if context.assignment.leader_epoch is not None:
        epochs.add(context.assignment.leader_epoch)
    changed = any(answers.times.in_window(c.at_ms) for c in context.history.changes[1:])
    leaderships = {(a.leader_id, a.isr) for a in rounds}
    return "leader or ISR changed" if changed or len(epochs) > 1 or len(leaderships) > 1 else None


class _Partition:
    """One partition's answers, its leader's copy, and what stands against comparing them."""

    def __init__(
        self, context: PartitionContext, answers: PartitionAnswers, leader: ReplicaFacts | None, reason: str | None
    ) -> None:
        self.context, self.answers, self.leader, self.moved = context, answers, leader, reason

    def log_start(self) -> ClusterAnswerRow:
        """Where the log starts: deleted records count at once in memory, and within a minute on disk."""
        leader = self.leader
        start = leader.log_start_offset if leader is not None else None
        before = self.answers.before
        reason = self._reason(leader)
        if self.context.settings.remote_storage_enable:
            reason = reason or "tiered"
        if start is not None and before is not None and before.log_start_offset is not None:
            late = start < before.log_start_offset
            reason = reason or ("log start not yet checkpointed" if late else None)
        return self._row("log_start_offset", leader, reason, lowest=start, highest=start)

    def high_watermark(self, replica: ReplicaFacts) -> ClusterAnswerRow:
        """Everything below it is on every member of the ISR; what one has checkpointed is no further than it."""
        return self._row(
            "high_watermark",
            replica,
            self._reason(replica),
            lowest=replica.checkpointed.high_watermark,
            highest=replica.log_end_offset,
        )

    def last_stable(self) -> ClusterAnswerRow:
        """Where readers of committed data stop, for the lowest and for the highest watermark of that moment."""
        leader, before, after = self.leader, self.answers.before, self.answers.after
        reason = self._reason(leader)
        if leader is None:
            return self._row("last_stable_offset", leader, reason, lowest=None, highest=None)
        end = leader.log_end_offset
        lower = before.high_watermark if before is not None else leader.checkpointed.high_watermark
        upper = after.high_watermark if after is not None and after.high_watermark is not None else end
        starts = [a.log_start_offset for a in (before, after) if a is not None and a.log_start_offset is not None]
        if leader.damaged_batches or leader.given.unread_bases:
            reason = reason or "log damaged"
        if _head_gone(leader) and leader.snapshot_replay is None:
            reason = reason or "head of the log is gone"
        return self._row(
            "last_stable_offset",
            leader,
            reason,
            lowest=(_stable(leader, min(lower, end), leader.log_start_offset) if lower is not None else None),
            highest=_stable(leader, min(upper, end), max([leader.log_start_offset, *starts])),
        )

    def producers(self) -> Iterator[ClusterAnswerRow]:
        """What the leader remembers of each producer: epoch, last sequence, where its open transaction began."""
        before, after = _producers(self.answers.before), _producers(self.answers.after)
        leader = self.leader
        if leader is None:
            return
        replay = leader.snapshot_replay if leader.snapshot_replay is not None else leader.replay
        for producer_id in sorted((before or {}).keys() | (after or {}).keys()):
            said = [of.get(producer_id) if of is not None else None for of in (before, after)]
            state = replay.states.get(producer_id)
            reason = self._reason(leader)
            if leader.damaged_batches or leader.given.unread_bases:
                reason = reason or "log damaged"
            if state is None and leader.snapshot_replay is None and (_head_gone(leader) or leader.ever_compacted):
                reason = reason or "head of the log is gone"
            sequences = not leader.given.ignore_sequences
            numbers = [_ordinal(p, sequences=sequences) for p in said]
            own = _remembered(state)
            number = _ordinal(own, sequences=sequences)
            if before is not None and after is not None and (None in said or _back(numbers)):
                reason = reason or CHANGED  # It came, it was forgotten, or its sequence began again at 0.
            elif not sequences and numbers == [number, number] and _written_between(*said):
                reason = reason or CHANGED  # Transactions began and ended, and no sequence tells of them.
            yield {
                **self._row("producer", leader, reason, lowest=number, highest=number),
                "producer_id": producer_id,
                "answered_before": numbers[0],
                "answered_after": numbers[1],
                "answered_before_text": _told(said[0], sequences=sequences),
                "answered_after_text": _told(said[1], sequences=sequences),
                "recomputed_values": [text for text in (_told(own, sequences=sequences),) if text is not None],
            }

    def _row(
        self, kind: str, replica: ReplicaFacts | None, reason: str | None, *, lowest: int | None, highest: int | None
    ) -> ClusterAnswerRow:
        said = [
            getattr(a, kind) if a is not None and kind != "producer" else None
            for a in (self.answers.before, self.answers.after)
        ]
        errors = {
            a.errors[kind] for a in (self.answers.before, self.answers.after) if a is not None and kind in a.errors
        }
        if kind != "producer" and said == [None, None]:
            reason = reason or NO_ANSWER
        return answer_row(
            self.answers.times,
            kind,
            {
                "broker_id": replica.broker_id if replica is not None else None,
                "topic": self.context.topic,
                "partition": self.context.partition,
                "answered_before": said[0],
                "answered_after": said[1],
                "recomputed_lowest": lowest,
                "recomputed_highest": highest,
                "error": "; ".join(sorted(errors)) or None,
            },
            reason=reason,
        )

    def _reason(self, replica: ReplicaFacts | None) -> str | None:
        if self.moved is not None:
            return self.moved
        if replica is None:
            return "leader not captured"
        read, times = replica.moment.log_read_at_ms, self.answers.times
        if read is None:
            return None
        # The newest instant counts: sealed segments may be an earlier capture's, and are the same.
        if times.before_finished_at_ms is not None and read[1] < times.before_finished_at_ms:
            return "copy older than answer"
        if times.after_started_at_ms is not None and read[1] > times.after_started_at_ms:
            return "answered before the copy ended"
        return None


def _head_gone(replica: ReplicaFacts) -> bool:
    return replica.log_start_offset > 0 or replica.local_log_start_offset > 0


def _stable(leader: ReplicaFacts, high_watermark: int, log_start_offset: int) -> int | None:
    """The last stable offset at a high watermark; open transactions whose head is gone are in the producer snapshot."""
    replays = [leader.replay, *([leader.snapshot_replay] if leader.snapshot_replay is not None else [])]
    unstable = [u for u in (r.first_unstable_offset(high_watermark) for r in replays) if u is not None]
    return last_stable_offset(
        high_watermark=high_watermark,
        first_unstable_offset=min(unstable, default=None),
        log_start_offset=log_start_offset,
    )


def _producers(answer: PartitionAnswer | None) -> dict[int, ProducerAnswer] | None:
    if answer is None or answer.producers is None:
        return None
    return {p.producer_id: p for p in answer.producers}


def _remembered(state: ProducerSnapshotEntry | None) -> ProducerAnswer | None:
    """A replayed producer as a leader would answer."""
    if state is None:
        return None
    return ProducerAnswer(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence if state.last_sequence >= 0 else None,
        last_timestamp_ms=state.timestamp,
        coordinator_epoch=state.coordinator_epoch if state.coordinator_epoch >= 0 else None,
        current_transaction_first_offset=state.current_transaction_first_offset,
    )


def _ordinal(producer: ProducerAnswer | None, *, sequences: bool) -> int | None:
    """Epoch and last sequence as one number, which only grows. A coordinator numbers no batch of its own."""
    if producer is None:
        return None
    last = producer.last_sequence if sequences and producer.last_sequence is not None else -1
    return producer.producer_epoch * _SEQUENCES + last + 1


def _told(producer: ProducerAnswer | None, *, sequences: bool) -> str | None:
    if producer is None:
        return None
    parts: list[str] = [f"epoch {producer.producer_epoch}"]
    if sequences:
        parts.append("no sequence" if producer.last_sequence is None else f"last sequence {producer.last_sequence}")
    first = producer.current_transaction_first_offset
    parts.append("no open transaction" if first is None else f"transaction open from {first}")
    return ", ".join(parts)


def _written_between(before: ProducerAnswer | None, after: ProducerAnswer | None) -> bool:
    return before is not None and after is not None and before.last_timestamp_ms != after.last_timestamp_ms


def _back(numbers: Iterable[int | None]) -> bool:
    before, after = numbers
    return before is not None and after is not None and after < before
