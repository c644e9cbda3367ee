"""Rows of `cluster_answers`: what a cluster answered, beside what the metadata log and the coordinators' logs say.

In: the answers before and after the copy, the replayed metadata log, the coordinators' tables. Out: one row a question
and subject. Nothing is judged here. A row carries both answers, what the files know of the same, and, where something
stands against comparing them, what.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

from tidegauge.facts.answers.asked import AnswerTimes, answer_times
from tidegauge.facts.coordinators.transactional_ids import uncounted_after_ms
from tidegauge.facts.metadata.history import MetadataHistory, PartitionState
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.kafka_log.coordinator_records import OffsetCommit, TransactionState
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import ClusterAnswerRow
from tidegauge.snapshots.cluster_answers import (
    BROKER_CONFIG,
    CLUSTER_CONFIG,
    TOPIC_CONFIG,
    CapturedAnswers,
    ClusterAnswers,
    ConfigAnswer,
    GroupAnswer,
    PartitionAnswer,
    TransactionAnswer,
)

NO_ANSWER: Final = "no answer"
NOT_ASKED: Final = "not asked"
CHANGED: Final = "changed while copying"
ASKED_ONCE: Final = "asked once"
_METADATA_ENDS: Final = "metadata log ends before the answer"
_NO_COORDINATOR: Final = "coordinator not captured"
_NOT_SET: Final = "(not set)"
_REMEMBERED_MS: Final = 600_000
"""States that ended longer ago than this before the first answer are no answer that a broker should still give."""
_STATES_KEPT: Final = 50
_WAITING: Final = "last record may not be replicated"
_NEVER_COUNTED: Final = "last record may never have counted"
_UNWRITTEN: Final = -1
"""The epoch of a producer id that a coordinator has just given to a new transactional id, and not written down yet: it
keeps that in memory where the ISR is too small for the record (TransactionCoordinator#handleInitProducerId)."""
_ENDED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
_BEFORE: Final[Mapping[str, frozenset[str]]] = {
    "Empty": _ENDED,
    "Ongoing": _ENDED,
    "PrepareCommit": frozenset({"Ongoing"}),
    "PrepareAbort": frozenset({"Ongoing"}),
    "CompleteCommit": frozenset({"PrepareCommit"}),
    "CompleteAbort": frozenset({"PrepareAbort"}),
}
"""State -> from which one a coordinator goes there: by appending a record, and in memory once that is replicated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """What the files of the whole cluster say.

    `cluster_ids`: broker -> cluster.id of its meta.properties. `led_copies`: partitions of the coordinators' topics
    whose leader's copy was read; `replicated`: those of them whose high watermark on disk is the log's end;
    `replaced_transaction_states`: by transactional id, what its last record replaced, where the log still has that;
    `waiting_commits`: group, topic and partition whose newest commit, or its end, lies at the high watermark or beyond;
    `forgotten_commits`: those whose newest record is a tombstone.
    `unreadable`: topics of coordinators with records that could not be read.
    """

    history: MetadataHistory
    cluster_ids: Mapping[int, str]
    commits: Mapping[TopicPartition, tuple[OffsetCommit, ...]]
    transactions: Iterable[TransactionState]
    replaced_transaction_states: Mapping[str, TransactionState]
    led_copies: Set[TopicPartition]
    replicated: Set[TopicPartition]
    waiting_commits: Set[tuple[str, str, int]]
    forgotten_commits: Set[tuple[str, str, int]]
    unreadable: Set[str]


def answer_row(times: AnswerTimes, kind: str, told: ClusterAnswerRow, *, reason: str | None = None) -> ClusterAnswerRow:
    """One row. `told`: its subject, and what is said of it; `reason`: what stands against comparing."""
    return {
        **told,
        "kind": kind,
        "asked_before_at_ms": times.before_started_at_ms,
        "asked_after_at_ms": times.after_started_at_ms,
        "comparable": reason is None,
        "incomparable_reason": reason,
    }


def cluster_answer_rows(answers: CapturedAnswers, recomputed: Recomputed) -> list[ClusterAnswerRow]:
    """The rows about the cluster as a whole; those about a partition's logs are made where its logs are."""
    rows = _Rows(answers, recomputed)
    return [
        *rows.cluster_ids(),
        *rows.brokers(),
        *rows.broker_configs(),
        *rows.topics(),
        *rows.topic_configs(),
        *rows.leaderships(),
        *rows.committed_offsets(),
        *rows.transactions(),
        *rows.questions(),
    ]


class _Rows:
    """Both rounds of answers, and the files."""

    def __init__(self, answers: CapturedAnswers, recomputed: Recomputed) -> None:
        self.rounds: tuple[ClusterAnswers | None, ClusterAnswers | None] = (answers.before, answers.after)
        self.times = answer_times(answers, recomputed.history.last_record_at_ms)
        self.files = recomputed
        self.history = recomputed.history

    def cluster_ids(self) -> Iterator[ClusterAnswerRow]:
        """Each captured broker's cluster id."""
        for broker_id, cluster_id in sorted(self.files.cluster_ids.items()):
            said = [r.cluster_id if r is not None else None for r in self.rounds]
            yield self._text("cluster_id", *said, values=[cluster_id], subject={"broker_id": broker_id})

    def brokers(self) -> Iterator[ClusterAnswerRow]:
        """Each broker that takes part: is it registered, and in which rack."""
        for broker_id, said in _pairs(r.brokers if r is not None else () for r in self.rounds).items():
            state = self.history.brokers.get(broker_id)
            yield self._text(
                "broker",
                *(None if b is None else _rack(b.rack) for b in said),
                values=[_rack(state.rack)] if state is not None else [],
                reason=self._since_metadata() or (CHANGED if None in said and None not in self.rounds else None),
                subject={"broker_id": broker_id},
            )

    def broker_configs(self) -> Iterator[ClusterAnswerRow]:
        """Each setting that was set dynamically on a broker or on all of them."""
        for broker_id, said in _pairs(r.brokers if r is not None else () for r in self.rounds).items():
            for source, resource in ((BROKER_CONFIG, str(broker_id)), (CLUSTER_CONFIG, "")):
                own = self.history.configs.get((4, str(broker_id)), {})
                yield from self._configs(
                    "broker_config",
                    source,
                    (4, resource),
                    [b.configs if b is not None else None for b in said],
                    hidden=own if source == CLUSTER_CONFIG else {},
                    subject={"broker_id": broker_id},
                )

    def topics(self) -> Iterator[ClusterAnswerRow]:
        """Each topic by its id."""
        known: dict[str, list[str]] = {}
        for topic in sorted(self.history.topics.values(), key=lambda t: not t.deleted):
            known.setdefault(topic.name, []).append(topic.topic_id)
        alive = {t.name for t in self.history.topics.values() if not t.deleted}
        answered = _pairs(r.topics if r is not None else () for r in self.rounds)
        for name in sorted(alive | answered.keys()):
            said = [t.topic_id if t is not None else None for t in answered.get(name, (None, None))]
            reason = NO_ANSWER if said == [None, None] else self._since_metadata()
            yield self._text("topic", *said, values=known.get(name, []), reason=reason, subject={"topic": name})

    def topic_configs(self) -> Iterator[ClusterAnswerRow]:
        """Each setting that was set on a topic."""
        for name, said in _pairs(r.topics if r is not None else () for r in self.rounds).items():
            state = self.history.topic_named(name)
            ids = {t.topic_id for t in said if t is not None}
            if state is not None and not state.deleted and ids == {state.topic_id}:
                configs = [t.configs if t is not None else None for t in said]
                yield from self._configs("topic_config", TOPIC_CONFIG, (2, name), configs, subject={"topic": name})

    def leaderships(self) -> Iterator[ClusterAnswerRow]:
        """Each partition's leader, replicas and ISR."""
        rounds = [
            {(topic, p.partition): p for topic, p in r.partitions()} if r is not None else {} for r in self.rounds
        ]
        for topic, partition in sorted(rounds[0].keys() | rounds[1].keys()):
            said = [r.get((topic, partition)) for r in rounds]
            state = self._partition(topic, partition)
            earlier = self._earlier_lives(topic, partition) if state is not None else []
            texts = [_leadership(a) for a in said]
            reason = self._since_metadata()
            if any(a is not None and a.leader_id is None for a in said):
                reason = NO_ANSWER
            elif state is None:
                reason = reason or CHANGED  # The topic's own row tells whether it should be there.
            yield self._text(
                "leadership",
                *texts,
                values=[
                    *(text for life in earlier for text in self._states(life.changes)),
                    *(self._states(state.changes) if state is not None else []),
                ],
                reason=reason,
                subject={
                    "topic": topic,
                    "partition": partition,
                    "answered_before": said[0].leader_epoch if said[0] is not None else None,
                    "answered_after": said[1].leader_epoch if said[1] is not None else None,
                    "recomputed_highest": max(
                        (s.leader_epoch for s in (*earlier, state) if s is not None), default=None
                    ),
                },
            )

    def committed_offsets(self) -> Iterator[ClusterAnswerRow]:
        """Each committed offset."""
        stored = {(c.group, c.topic, c.partition): c for of in self.files.commits.values() for c in of}
        rounds = [_commits(r.groups) if r is not None else None for r in self.rounds]
        keepers = {g.group: g.offsets_partition for r in self.rounds if r is not None for g in r.groups or ()}
        for group, topic, partition in sorted({key for r in rounds for key in r or ()}):
            said = [r.get((group, topic, partition)) if r is not None else None for r in rounds]
            commit = stored.get((group, topic, partition))
            reason = self._coordinated(CONSUMER_OFFSETS, keepers.get(group))
            if None in self.rounds:
                reason = reason or ASKED_ONCE
            elif None in said or (commit is not None and self.times.in_window(commit.commit_timestamp_ms)):
                reason = reason or CHANGED
            elif said[0] != said[1] and (group, topic, partition) in self.files.forgotten_commits:
                reason = reason or CHANGED  # A group was deleted, its log was copied, and it is there again.
            elif (group, topic, partition) in self.files.waiting_commits:
                reason = reason or _WAITING  # Nobody is answered what the ISR does not have yet.
            yield answer_row(
                self.times,
                "committed_offset",
                {
                    "group": group,
                    "topic": topic,
                    "partition": partition,
                    "answered_before": said[0],
                    "answered_after": said[1],
                    "recomputed_lowest": commit.offset if commit is not None else None,
                    "recomputed_highest": commit.offset if commit is not None else None,
                },
                reason=reason,
            )

    def transactions(self) -> Iterator[ClusterAnswerRow]:
        """Each transactional id's state at its coordinator."""
        stored = {t.transactional_id: t for t in self.files.transactions}
        for name, said in _pairs(r.transactions or () if r is not None else () for r in self.rounds).items():
            state = stored.get(name)
            keeper = next((t.state_partition for t in said if t is not None), None)
            reason = self._coordinated(TRANSACTION_STATE, keeper)
            texts = [_transaction(t) if t is not None else None for t in said]
            if any(t is not None and t.producer_epoch is None for t in said):
                reason = reason or NO_ANSWER
            elif None in self.rounds:
                reason = reason or ASKED_ONCE
            elif texts[0] != texts[1] or (state is not None and self.times.in_window(state.last_update_ms)):
                reason = reason or CHANGED
            elif state is not None and _one_step_ahead(state, self.files.replaced_transaction_states.get(name), said):
                reason = reason or self._why_ahead(state, keeper)
            unwritten = {_transaction(t) for t in said if t is not None and t.producer_epoch == _UNWRITTEN}
            known = [_transaction(state)] if state is not None else sorted(unwritten)
            yield self._text("transaction", *texts, values=known, reason=reason, subject={"transactional_id": name})

    def questions(self) -> Iterator[ClusterAnswerRow]:
        """What nobody answered at all: a row each, so that it is known as unknown."""
        kinds = {"groups": "committed_offset", "transactions": "transaction", "producers": "producer"}
        for question, kind in kinds.items():
            said = [r.unanswered.get(question) for r in self.rounds if r is not None]
            if any(said):
                reason = NOT_ASKED if any(s and s.startswith(NOT_ASKED) for s in said) else NO_ANSWER
                yield answer_row(self.times, kind, {"error": "; ".join(sorted({s for s in said if s}))}, reason=reason)

    def _configs(
        self,
        kind: str,
        source: str,
        resource: tuple[int, str],
        said: list[Mapping[str, ConfigAnswer] | None],
        *,
        subject: ClusterAnswerRow,
        hidden: Mapping[str, str] | None = None,
    ) -> Iterator[ClusterAnswerRow]:
        stored = self.history.configs.get(resource, {})
        answered = [c for c in said if c is not None]
        names = {n for c in answered for n, v in c.items() if v.source == source} | (
            stored.keys() - (hidden or {}).keys() if answered else set()
        )
        for name in sorted(names):
            entries = [c.get(name) if c is not None else None for c in said]
            if any(e is not None and e.sensitive for e in entries):
                continue
            listed = [e for e in entries if e is not None]
            texts = [None if e is None else _setting(e.value) if e.source == source else _NOT_SET for e in entries]
            changed = self.history.config_changed_at_ms(*resource, name)
            reason = self._since_metadata()
            if not listed:
                reason = "not listed"
            elif self.times.in_window(changed) or (None not in self.rounds and texts[0] != texts[1]):
                reason = reason or CHANGED
            yield self._text(
                kind,
                *texts,
                values=[_setting(stored[name]) if name in stored else _NOT_SET] if listed else None,
                reason=reason,
                subject={**subject, "name": name},
            )

    def _text(
        self,
        kind: str,
        before: str | None,
        after: str | None,
        *,
        values: list[str] | None,
        subject: ClusterAnswerRow,
        reason: str | None = None,
    ) -> ClusterAnswerRow:
        """A row whose answers are words. An answer that the metadata log may not reach is not held against it."""
        if before is None and after is None:
            reason = reason or NO_ANSWER
        elif reason is None and kind in ("broker", "topic", "leadership") and not self._reaches_after():
            last_only = before is None or before != after
            if last_only and values is not None and after not in values:
                reason = CHANGED if before is not None else _METADATA_ENDS
        return answer_row(
            self.times,
            kind,
            {
                **subject,
                "answered_before_text": before,
                "answered_after_text": after,
                "recomputed_values": values,
            },
            reason=reason,
        )

    def _since_metadata(self) -> str | None:
        """Why the metadata log of the copy says nothing about the first answer: it may end before it."""
        end, before = self.history.last_record_at_ms, self.times.before_finished_at_ms
        if before is None:
            return None if self._reaches_after() else _METADATA_ENDS
        return None if end is not None and end >= before else _METADATA_ENDS

    def _reaches_after(self) -> bool:
        end, after = self.history.last_record_at_ms, self.times.after_finished_at_ms
        return after is None or (end is not None and end >= after)

    def _partition(self, topic: str, partition: int) -> PartitionState | None:
        state = self.history.topic_named(topic)
        return state.partitions.get(partition) if state is not None and not state.deleted else None

    def _earlier_lives(self, topic: str, partition: int) -> list[PartitionState]:
        """The partition of deleted topics of this name that one of the answers may be about.

        Leaders are asked before topic ids: what they answered of the old topic may stand beside the new one's id.
        """
        answered = [t for r in self.rounds if r is not None for t in r.topics if t.topic == topic]
        ids = {t.topic_id for t in answered}
        return [
            t.partitions[partition]
            for t in self.history.lives(topic)
            if t.deleted
            and partition in t.partitions
            and (None in ids or t.topic_id in ids or self.times.in_window(t.deleted_at_ms))
        ]

    def _why_ahead(self, state: TransactionState, keeper: int | None) -> str | None:
        """Why a log may be a record ahead of its coordinator: that waits for the ISR to have it, or gave it up."""
        start, at = self.times.asked_from_ms, state.last_update_ms
        if start is None or at is None or start - at >= uncounted_after_ms(state):
            return _NEVER_COUNTED
        return None if (TRANSACTION_STATE, keeper) in self.files.replicated else _WAITING

    def _states(self, changes: list[PartitionChange]) -> list[str]:
        """The partition's states that may have been in force when the cluster was asked, the last one last."""
        start = self.times.window_start_ms
        kept = [
            change
            for change, following in zip(changes, [*changes[1:], None], strict=True)
            if following is None
            or following.at_ms is None
            or start is None
            or following.at_ms >= start - _REMEMBERED_MS
        ]
        texts = [_state(c.leader_id, c.replicas, c.isr) for c in kept]
        last_at = {text: at for at, text in enumerate(texts)}
        return sorted(last_at, key=lambda text: last_at[text])[-_STATES_KEPT:]

    def _coordinated(self, topic: str, partition: int | None) -> str | None:
        """Why a coordinator's log does not speak for it: the leader's copy is missing, or led elsewhere meanwhile."""
        if partition is None or (topic, partition) not in self.files.led_copies:
            return _NO_COORDINATOR
        state = self._partition(topic, partition)
        if state is not None and any(self.times.in_window(c.at_ms) for c in state.changes[1:]):
            return "leader or ISR changed"
        return "records unreadable" if topic in self.files.unreadable else None


def _one_step_ahead(
    state: TransactionState, replaced: TransactionState | None, said: Iterable[TransactionAnswer | None]
) -> bool:
    """Whether a coordinator that does not know of the log's last record would give this answer."""
    before = {replaced.state} if replaced is not None else _BEFORE.get(state.state, frozenset())

    def precedes(answer: TransactionAnswer) -> bool:
        if answer.producer_epoch == _UNWRITTEN:
            return (state.state, state.producer_id, state.producer_epoch) == ("Empty", answer.producer_id, 0)
        return answer.state != state.state and answer.state in before

    return any(answer is not None and precedes(answer) for answer in said)


def _pairs(rounds: Iterable[Iterable[Any]]) -> dict[Any, tuple[Any, Any]]:
    """Subject -> its answers before and after."""
    keys = ("broker_id", "topic", "transactional_id")
    before, after = ({getattr(a, next(k for k in keys if hasattr(a, k))): a for a in of} for of in rounds)
    return {key: (before.get(key), after.get(key)) for key in sorted(before.keys() | after.keys())}


def _commits(groups: tuple[GroupAnswer, ...] | None) -> dict[tuple[str, str, int], int] | None:
    if groups is None:
        return None
    return {(g.group, o.topic, o.partition): o.offset for g in groups for o in g.offsets or ()}


def _transaction(of: TransactionAnswer | TransactionState) -> str:
    epoch = of.producer_epoch if of.producer_epoch is not None else "unknown"
    return f"{of.state}, producer id {of.producer_id}, epoch {epoch}"


def _rack(rack: str | None) -> str:
    return f"rack {rack}" if rack else "no rack"


def _leadership(answer: PartitionAnswer | None) -> str | None:
    return _state(answer.leader_id, answer.replicas, answer.isr) if answer is not None else None


def _state(leader_id: int | None, replicas: Iterable[int], isr: Iterable[int]) -> str:
    leader = f"leader {leader_id}" if leader_id is not None else "no leader"
    return f"{leader}, replicas {sorted(replicas)}, ISR {sorted(isr)}"


def _setting(value: str | None) -> str:
    """A setting's value in one form: lists without spaces, numbers without zeros, as the broker answers it."""
    parts = [part.strip() for part in (value or "").split(",")]
    return ",".join(_number(p) if len(parts) == 1 else p for p in parts)


def _number(text: str) -> str:
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        return repr(float(text)) if "." in text or "e" in text.lower() else str(int(text))
    except ValueError:
        return text
