"""What the small cluster answered of itself, one answer other than its files say, and the invariant that tells of it.

In: the files, and facts that were derived from them. Out: `cluster-answers.json` beside them. Family L. The answers as
they are made here are what the files say, and of a moment at which nothing moved.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from tests.derivation.pipeline import Derived
from tidegauge.snapshots.cluster_answers import (
    BrokerAnswer,
    CapturedAnswers,
    ClusterAnswers,
    CommittedAnswer,
    ConfigAnswer,
    GroupAnswer,
    PartitionAnswer,
    ProducerAnswer,
    TopicAnswer,
    TransactionAnswer,
)

Answer = Callable[[ClusterAnswers], ClusterAnswers]


def answers_of(facts: Derived, *, before_ms: int, after_ms: int) -> CapturedAnswers:
    """What a cluster would answer that stands still with these files."""
    topics = tuple(_topic(facts, row["topic"]) for row in facts.all("topics"))
    (commit,) = facts.all("committed_offsets", group="g", topic="orders", partition=0)
    (transaction,) = facts.all("transactional_ids")
    (of_broker, *_) = facts.all("brokers")
    groups = [
        GroupAnswer(
            group="g",
            type="classic",
            state="Stable",
            members=1,
            offsets=(
                CommittedAnswer(
                    topic="orders", partition=0, offset=commit["committed_offset"], leader_epoch=None, metadata=None
                ),
            ),
            offsets_partition=0,
        )
    ]
    first = ClusterAnswers(
        started_at_ms=before_ms,
        finished_at_ms=before_ms + 10,
        cluster_id=of_broker["cluster_id"],
        controller_id=1,
        brokers=tuple(
            BrokerAnswer(broker_id=row["broker_id"], host="h", port=1, rack=row["rack"], configs={})
            for row in facts.all("brokers")
        ),
        topics=topics,
        groups=tuple(groups),
        transactions=(
            TransactionAnswer(
                transactional_id="tx",
                state=transaction["state"],
                producer_id=transaction["producer_id"],
                producer_epoch=transaction["producer_epoch"],
                timeout_ms=60_000,
                started_at_ms=None,
                partitions=(),
                state_partition=0,
            ),
        ),
    )
    return CapturedAnswers(before=first, after=replace(first, started_at_ms=after_ms, finished_at_ms=after_ms + 10))


def _topic(facts: Derived, topic: str) -> TopicAnswer:
    (row,) = facts.all("topics", topic=topic)
    configs = {name: ConfigAnswer(value=value, source="topic") for name, value in _settings(row["configs"]).items()}
    partitions = tuple(_partition(facts, of) for of in facts.all("partitions", topic=topic))
    return TopicAnswer(topic=topic, topic_id=row["topic_id"], partitions=partitions, configs=configs)


def _settings(configs: str) -> Mapping[str, str]:
    return {each["name"]: each["value"] for each in json.loads(configs)}


def _partition(facts: Derived, row: Mapping[str, Any]) -> PartitionAnswer:
    states = facts.replicas_of(row["topic"], row["partition"])[row["leader_id"]].replay.states
    producers = tuple(
        ProducerAnswer(
            producer_id=producer_id,
            producer_epoch=state.producer_epoch,
            last_sequence=state.last_sequence if state.last_sequence >= 0 else None,
            last_timestamp_ms=state.timestamp,
            coordinator_epoch=state.coordinator_epoch if state.coordinator_epoch >= 0 else None,
            current_transaction_first_offset=state.current_transaction_first_offset,
        )
        for producer_id, state in states.items()
    )
    return PartitionAnswer(
        partition=row["partition"],
        leader_id=row["leader_id"],
        leader_epoch=row["leader_epoch"],
        replicas=tuple(row["replicas"]),
        isr=tuple(row["isr"]),
        log_start_offset=row["log_start_offset"],
        high_watermark=row["log_end_offset"],
        last_stable_offset=row["last_stable_offset"],
        producers=producers if not row["topic"].startswith("__") else (),
    )


# ----------------------------------------------------------------------------------------------- what is told otherwise


def _of(answers: ClusterAnswers, name: str, **fields: Any) -> ClusterAnswers:
    """Other words about a topic's first partition."""

    def changed(topic: TopicAnswer) -> TopicAnswer:
        first, *others = topic.partitions
        return replace(topic, partitions=(replace(first, **fields), *others))

    return replace(answers, topics=tuple(changed(t) if t.topic == name else t for t in answers.topics))


def records_that_no_log_has(answers: ClusterAnswers) -> ClusterAnswers:
    return _of(answers, "orders", high_watermark=110)


def high_watermark_below_the_checkpoints(answers: ClusterAnswers) -> ClusterAnswers:
    return _of(answers, "orders", high_watermark=90, last_stable_offset=90)


def log_that_starts_below(answers: ClusterAnswers) -> ClusterAnswers:
    """The log on disk begins behind what the cluster says."""
    return _of(answers, "plain", log_start_offset=5)


def transaction_that_no_log_has(answers: ClusterAnswers) -> ClusterAnswers:
    return _of(answers, "orders", last_stable_offset=60)


def another_leader(answers: ClusterAnswers) -> ClusterAnswers:
    return _of(answers, "orders", replicas=(1, 2, 7))


def another_topic_of_that_name(answers: ClusterAnswers) -> ClusterAnswers:
    found = tuple(replace(t, topic_id="u" * 22) if t.topic == "tidy" else t for t in answers.topics)
    return replace(answers, topics=found)


def another_setting(answers: ClusterAnswers) -> ClusterAnswers:
    other = {"cleanup.policy": ConfigAnswer(value="delete", source="topic")}
    return replace(answers, topics=tuple(replace(t, configs=other) if t.topic == "tidy" else t for t in answers.topics))


def another_commit(answers: ClusterAnswers) -> ClusterAnswers:
    assert answers.groups is not None
    (group,) = answers.groups
    assert group.offsets is not None
    (commit,) = group.offsets
    return replace(answers, groups=(replace(group, offsets=(replace(commit, offset=33),)),))


def another_sequence(answers: ClusterAnswers) -> ClusterAnswers:
    orders = next(t for t in answers.topics if t.topic == "orders")
    assert orders.partitions[0].producers is not None
    first, *others = orders.partitions[0].producers
    return _of(answers, "orders", producers=(replace(first, last_sequence=33), *others))


def another_transaction_state(answers: ClusterAnswers) -> ClusterAnswers:
    assert answers.transactions is not None
    (transaction,) = answers.transactions
    return replace(answers, transactions=(replace(transaction, state="CompleteAbort"),))


def another_rack(answers: ClusterAnswers) -> ClusterAnswers:
    return replace(answers, brokers=tuple(replace(b, rack="r9") for b in answers.brokers))


LONE_ANSWER_BREAKS: Final[Mapping[Answer, str]] = MappingProxyType(
    {
        records_that_no_log_has: "L01",
        high_watermark_below_the_checkpoints: "L02",
        log_that_starts_below: "L03",
        transaction_that_no_log_has: "L04",
        another_leader: "L05",
        another_topic_of_that_name: "L06",
        another_setting: "L07",
        another_commit: "L08",
        another_sequence: "L09",
        another_transaction_state: "L10",
        another_rack: "L11",
    }
)
