"""What the cluster answered while it was captured, against what its files say (family L).

In: rows of `cluster_answers`. The rule that must hold here: a live cluster moves on, so an offset by the files must lie
between the answers before and after the copy; a value must be one that was in force between them. What changed in
between is unknown, unless the files agree with the answers all the same.
"""

from typing import Final

from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_OUTSIDE: Final = "(answered_before > recomputed_highest OR answered_after < recomputed_lowest)"
_OTHER_VALUE: Final = (
    "CASE WHEN coalesce(answered_before_text, answered_after_text) IS NULL THEN NULL ELSE "
    "(answered_before_text IS NOT NULL AND NOT answered_before_text = ANY(recomputed_values)) "
    "OR (answered_after_text IS NOT NULL AND NOT answered_after_text = ANY(recomputed_values)) END"
)
Reasons = dict[str, Evidence | None]
"""Reason -> the piece of evidence that would decide, if any would."""
_LEADERSHIP: Final[Reasons] = {
    "leader or ISR changed": None,
    "topic re-created": None,
    "leader not captured": Evidence.BROKER,
    "copy older than answer": Evidence.ONE_MOMENT,
    "answered before the copy ended": Evidence.ONE_MOMENT,
    "no answer": Evidence.ANSWERS,
}
_NO_COORDINATOR: Final[Reasons] = {
    "coordinator not captured": Evidence.COORDINATOR_LOG,
    "leader or ISR changed": None,
    "records unreadable": None,
    "asked once": Evidence.ANSWERS,
}


def _unless_sound(breach_when: str, reasons: Reasons) -> tuple[Unknown, ...]:
    """Each reason, for the rows that would or might be breached but for it."""
    return tuple(
        Unknown(
            reason=reason, evidence=evidence, when=f"incomparable_reason = '{reason}' AND ({breach_when}) IS NOT FALSE"
        )
        for reason, evidence in reasons.items()
    )


_WATERMARK_ABOVE_LOG: Final = "answered_before > recomputed_highest"

HIGH_WATERMARK_ON_DISK = Invariant(
    code="L01",
    key="ANSWERED_HIGH_WATERMARK_ON_DISK",
    name="AnsweredHighWatermarkOnDisk",
    severity=Severity.CRITICAL,
    relation="cluster_answers",
    statement=(
        "The log of every in-sync replica, copied after the leader was asked, reaches the high watermark that it "
        "answered."
    ),
    because=(
        "Everything below the high watermark is on every in-sync replica. A log on disk that ends below it lacks "
        "records that producers were told are safe and that consumers may have read."
    ),
    applies_when="kind = 'high_watermark'",
    unknown=(
        Unknown(reason="not asked before the copy", evidence=Evidence.ANSWERS, when="asked_before_at_ms IS NULL"),
        *_unless_sound(_WATERMARK_ABOVE_LOG, _LEADERSHIP),
    ),
    breach_when=_WATERMARK_ABOVE_LOG,
    subject=("broker_id", "topic", "partition"),
    derived=(("missing", "answered_before - recomputed_highest"),),
    evidence=("answered_before", "answered_after", "recomputed_highest", "asked_before_at_ms"),
    explanation=(
        "The leader of {topic}-{partition} answered a high watermark of {answered_before} at {asked_before_at_ms}.",
        "Broker {broker_id} was in the ISR before and after, and its log, copied later, ends at {recomputed_highest}.",
        "{missing} offsets that count as committed are not on its disk.",
    ),
    start_offset="recomputed_highest",
    end_offset="answered_before",
    records="answered_before - recomputed_highest",
    next="bin/kafka-get-offsets.sh --bootstrap-server <host:port> --topic-partitions {topic}:{partition} --time latest",
    points_to="answered_otherwise",
    reference="Partition#maybeIncrementLeaderHW, KIP-101",
)

_CHECKPOINT_ABOVE_WATERMARK: Final = "recomputed_lowest > answered_after"

CHECKPOINT_WITHIN_ANSWER = Invariant(
    code="L02",
    key="CHECKPOINT_WITHIN_ANSWERED_HIGH_WATERMARK",
    name="CheckpointWithinAnsweredHighWatermark",
    severity=Severity.WARNING,
    relation="cluster_answers",
    statement="No in-sync replica has checkpointed a high watermark above the one that the leader answers later.",
    because=(
        "A high watermark only grows while nobody else is elected, and a follower learns it from the leader. One on "
        "disk above the answer was edited, or the leader went back behind what it had declared committed."
    ),
    applies_when="kind = 'high_watermark' AND recomputed_lowest IS NOT NULL",
    unknown=(
        Unknown(reason="not asked after the copy", evidence=Evidence.ANSWERS, when="asked_after_at_ms IS NULL"),
        *_unless_sound(_CHECKPOINT_ABOVE_WATERMARK, _LEADERSHIP),
    ),
    breach_when=_CHECKPOINT_ABOVE_WATERMARK,
    subject=("broker_id", "topic", "partition"),
    evidence=("recomputed_lowest", "answered_before", "answered_after", "asked_after_at_ms"),
    explanation=(
        "Broker {broker_id} has checkpointed a high watermark of {recomputed_lowest} for {topic}-{partition}.",
        "The leader, asked at {asked_after_at_ms}, answered {answered_after}: a high watermark went back.",
    ),
    start_offset="answered_after",
    end_offset="recomputed_lowest",
    next="grep '^{topic} {partition} ' <log.dir of broker {broker_id}>/replication-offset-checkpoint",
    points_to="answered_otherwise",
    reference="ReplicaManager#checkpointHighWatermarks, UnifiedLog#updateHighWatermark",
)

LOG_START = Invariant(
    code="L03",
    key="ANSWERED_LOG_START",
    name="AnsweredLogStartOnDisk",
    severity=Severity.WARNING,
    relation="cluster_answers",
    statement="The leader's log on disk starts where the leader answers that its first readable record is.",
    because=(
        "A consumer that starts at the earliest offset is sent there. If the disk starts later, the segments between "
        "are gone, and the leader will fail to read them."
    ),
    applies_when="kind = 'log_start_offset'",
    unknown=_unless_sound(_OUTSIDE, _LEADERSHIP | {"log start not yet checkpointed": None, "tiered": None}),
    breach_when=_OUTSIDE,
    subject=("broker_id", "topic", "partition"),
    derived=(
        (
            "gone_from",
            "CASE WHEN answered_after < recomputed_lowest THEN answered_after END",
        ),
        ("kept_from", "CASE WHEN answered_before > recomputed_highest THEN recomputed_highest END"),
    ),
    evidence=("answered_before", "answered_after", "recomputed_lowest", "asked_after_at_ms"),
    explanation=(
        "Leader {broker_id} answered {answered_before} as the log start of {topic}-{partition} before the copy.",
        "It answered {answered_after} after the copy.",
        "Its log on disk starts at {recomputed_lowest}.",
        "What the leader offers from {gone_from} on is not on its disk.",
        "The disk still counts as readable, from {kept_from} on, what the leader had deleted.",
    ),
    start_offset="least(answered_after, recomputed_lowest)",
    end_offset="greatest(answered_before, recomputed_lowest)",
    next="bin/kafka-get-offsets.sh --bootstrap-server <host:port> --topic-partitions {topic}:{partition} "
    "--time earliest",
    points_to="answered_otherwise",
    reference="UnifiedLog#maybeIncrementLogStartOffset, UnifiedLog#fetchOffsetByTimestamp",
)

LAST_STABLE_OFFSET = Invariant(
    code="L04",
    key="ANSWERED_LAST_STABLE_OFFSET",
    name="AnsweredLastStableOffset",
    severity=Severity.WARNING,
    relation="cluster_answers",
    statement=(
        "The last stable offset that replaying the leader's log gives lies between what the leader answered before and "
        "after the copy."
    ),
    because=(
        "Readers of committed data stop there. Above the truth they are given records of undecided transactions; below "
        "it they wait for a transaction that is over."
    ),
    applies_when="kind = 'last_stable_offset'",
    unknown=_unless_sound(_OUTSIDE, _LEADERSHIP | {"log damaged": None, "head of the log is gone": None}),
    breach_when=_OUTSIDE,
    subject=("broker_id", "topic", "partition"),
    derived=(
        ("served_beyond", "CASE WHEN answered_before > recomputed_highest THEN recomputed_highest END"),
        ("held_back", "CASE WHEN answered_after < recomputed_lowest THEN recomputed_lowest END"),
    ),
    evidence=("answered_before", "answered_after", "recomputed_lowest", "recomputed_highest", "asked_before_at_ms"),
    explanation=(
        "Leader {broker_id} of {topic}-{partition} let readers of committed data read up to {answered_before} before "
        "the copy.",
        "It let them read up to {answered_after} after the copy.",
        "Its log says that a transaction is undecided from {served_beyond} on, so they were given too much.",
        "Its log says that every transaction below {held_back} was decided by then, so they are held back.",
    ),
    start_offset="least(answered_after, recomputed_highest)",
    end_offset="greatest(answered_before, recomputed_lowest)",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} "
    "--partition {partition}",
    points_to="answered_otherwise",
    reference="UnifiedLog#lastStableOffset, UnifiedLog#fetchLastStableOffsetMetadata, KIP-98",
)

_ELECTED_LATER: Final = f"{_OTHER_VALUE} OR answered_before > recomputed_highest"

LEADERSHIP = Invariant(
    code="L05",
    key="ANSWERED_LEADERSHIP",
    name="AnsweredLeadershipInMetadataLog",
    severity=Severity.WARNING,
    relation="cluster_answers",
    statement="The leader, replicas and ISR that the brokers answer are those of some state in the metadata log.",
    because=(
        "Every broker takes them from that log. One that tells clients something else sends them to the wrong leader, "
        "or the captured metadata log is of another cluster or not whole."
    ),
    applies_when="kind = 'leadership'",
    unknown=_unless_sound(
        _ELECTED_LATER,
        {
            "changed while copying": Evidence.ONE_MOMENT,
            "metadata log ends before the answer": Evidence.METADATA_LOG,
            "no answer": Evidence.ANSWERS,
        },
    ),
    breach_when=_ELECTED_LATER,
    subject=("topic", "partition"),
    derived=(
        ("other_before", "CASE WHEN NOT answered_before_text = ANY(recomputed_values) THEN answered_before_text END"),
        ("other_after", "CASE WHEN NOT answered_after_text = ANY(recomputed_values) THEN answered_after_text END"),
        ("epoch_ahead", "CASE WHEN answered_before > recomputed_highest THEN answered_before END"),
    ),
    evidence=("answered_before_text", "answered_after_text", "recomputed_values", "answered_before"),
    explanation=(
        "The metadata log knows of {topic}-{partition}, around the answers: {recomputed_values}.",
        "Before the copy the cluster answered: {other_before}.",
        "After the copy the cluster answered: {other_after}.",
        "Its leader answered leader epoch {epoch_ahead}; the metadata log ends at {recomputed_highest}.",
    ),
    next="bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}",
    points_to="answered_otherwise",
    reference="KRaftMetadataCache#getTopicMetadata",
)

TOPIC_ID = Invariant(
    code="L06",
    key="ANSWERED_TOPIC_ID",
    name="AnsweredTopicInMetadataLog",
    severity=Severity.WARNING,
    relation="cluster_answers",
    statement="Every topic that the cluster answers is in the metadata log, under the same id.",
    because="A topic that the metadata log lacks, or has under another id, was created somewhere else.",
    applies_when="kind = 'topic'",
    unknown=_unless_sound(
        _OTHER_VALUE,
        {
            "changed while copying": Evidence.ONE_MOMENT,
            "metadata log ends before the answer": Evidence.METADATA_LOG,
            "no answer": Evidence.ANSWERS,
        },
    ),
    breach_when=_OTHER_VALUE,
    subject=("topic",),
    derived=(("unknown_topic", "CASE WHEN cardinality(recomputed_values) = 0 THEN topic END"),),
    evidence=("answered_before_text", "answered_after_text", "recomputed_values"),
    explanation=(
        "The cluster answered topic {topic} with id {answered_before_text} before the copy.",
        "The cluster answered topic {topic} with id {answered_after_text} after the copy.",
        "The metadata log knows that name under the ids {recomputed_values}.",
        "The metadata log knows no topic {unknown_topic}.",
    ),
    next="bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}",
    points_to="answered_otherwise",
    reference="KIP-516",
)

CONFIG = Invariant(
    code="L07",
    key="ANSWERED_CONFIG",
    name="AnsweredConfigInMetadataLog",
    severity=Severity.WARNING,
    relation="cluster_answers",
    statement="A setting that the cluster answers as set on a topic or a broker has that value in the metadata log.",
    because=(
        "Brokers take these settings from the metadata log. One that runs with another value keeps, deletes or accepts "
        "records by rules that nobody set."
    ),
    applies_when="kind IN ('topic_config', 'broker_config')",
    unknown=_unless_sound(
        _OTHER_VALUE,
        {
            "changed while copying": Evidence.ONE_MOMENT,
            "metadata log ends before the answer": Evidence.METADATA_LOG,
            "not listed": Evidence.ANSWERS,
        },
    ),
    breach_when=_OTHER_VALUE,
    subject=("broker_id", "topic", "name"),
    derived=(
        ("of_topic", "CASE WHEN kind = 'topic_config' THEN topic END"),
        ("of_broker", "CASE WHEN kind = 'broker_config' THEN broker_id END"),
    ),
    evidence=("name", "answered_before_text", "answered_after_text", "recomputed_values"),
    explanation=(
        "Topic {of_topic} runs with {name} = {answered_before_text} by the answer before the copy.",
        "Topic {of_topic} runs with {name} = {answered_after_text} by the answer after the copy.",
        "Broker {of_broker} runs with {name} = {answered_before_text} by the answer before the copy.",
        "Broker {of_broker} runs with {name} = {answered_after_text} by the answer after the copy.",
        "The metadata log has {recomputed_values}.",
    ),
    next="bin/kafka-configs.sh --bootstrap-server <host:port> --describe --all --entity-type <topics|brokers>",
    points_to="answered_otherwise",
    reference="ConfigHelper#describeConfigs, ConfigurationControlManager",
)

_COMMIT_OUTSIDE: Final = (
    "CASE WHEN recomputed_lowest IS NULL THEN answered_before IS NOT NULL AND answered_after IS NOT NULL "
    "ELSE recomputed_lowest < least(answered_before, answered_after) "
    "OR recomputed_lowest > greatest(answered_before, answered_after) END"
)

COMMITTED_OFFSET = Invariant(
    code="L08",
    key="ANSWERED_COMMITTED_OFFSET",
    name="AnsweredCommittedOffset",
    severity=Severity.WARNING,
    relation="cluster_answers",
    statement="A group's committed offset in its coordinator's log is the one that the coordinator answers.",
    because=(
        "The coordinator answers from memory, and loads its memory from that log when it moves. If they differ, the "
        "group will go on somewhere else after the next election: it repeats records, or skips them."
    ),
    applies_when="kind = 'committed_offset'",
    unknown=(
        Unknown(reason="not asked", evidence=Evidence.ANSWERS, when="incomparable_reason = 'not asked'"),
        *_unless_sound(
            _COMMIT_OUTSIDE,
            _NO_COORDINATOR
            | {
                "changed while copying": Evidence.ONE_MOMENT,
                "no answer": Evidence.ANSWERS,
                "last record may not be replicated": None,
            },
        ),
    ),
    breach_when=_COMMIT_OUTSIDE,
    subject=("group", "topic", "partition"),
    derived=(("nothing", "CASE WHEN recomputed_lowest IS NULL THEN 'no committed offset' END"),),
    evidence=("answered_before", "answered_after", "recomputed_lowest"),
    explanation=(
        "The coordinator of group {group} answered offset {answered_before} for {topic}-{partition} before the copy.",
        "It answered {answered_after} after the copy.",
        "Its log has {recomputed_lowest}.",
        "Its log has {nothing} of the group there.",
    ),
    start_offset="least(answered_before, answered_after, recomputed_lowest)",
    end_offset="greatest(answered_before, answered_after, recomputed_lowest)",
    next="bin/kafka-consumer-groups.sh --bootstrap-server <host:port> --describe --group {group}",
    points_to="answered_otherwise",
    reference="OffsetMetadataManager#fetchAllOffsets, GroupCoordinatorService#onElection",
)

_PRODUCER_OUTSIDE: Final = (
    "CASE WHEN cardinality(recomputed_values) = 0 THEN answered_before IS NOT NULL "
    f"ELSE coalesce({_OUTSIDE}, false) OR (answered_before_text = answered_after_text "
    "AND NOT answered_before_text = ANY(recomputed_values)) END"
)

PRODUCER = Invariant(
    code="L09",
    key="ANSWERED_PRODUCER",
    name="AnsweredProducerState",
    severity=Severity.WARNING,
    relation="cluster_answers",
    statement=(
        "A producer's epoch, last sequence and open transaction by the leader's log are those that the leader "
        "remembers."
    ),
    because=(
        "By what it remembers the leader takes a batch for new, for a repetition or for a gap. If the log says "
        "otherwise, records are doubled or refused after the next restart."
    ),
    applies_when="kind = 'producer'",
    unknown=(
        Unknown(reason="not asked", evidence=Evidence.ANSWERS, when="incomparable_reason = 'not asked'"),
        *_unless_sound(
            _PRODUCER_OUTSIDE,
            _LEADERSHIP
            | {"log damaged": None, "head of the log is gone": None, "changed while copying": Evidence.ONE_MOMENT},
        ),
    ),
    breach_when=_PRODUCER_OUTSIDE,
    subject=("broker_id", "topic", "partition", "producer_id"),
    derived=(("unknown_producer", "CASE WHEN cardinality(recomputed_values) = 0 THEN producer_id END"),),
    evidence=("answered_before_text", "answered_after_text", "recomputed_values"),
    explanation=(
        "Leader {broker_id} of {topic}-{partition} remembers producer {producer_id} before the copy: "
        "{answered_before_text}.",
        "It remembers it after the copy: {answered_after_text}.",
        "Its log gives: {recomputed_values}.",
        "Neither its newest producer snapshot nor the log behind it knows producer {unknown_producer}.",
    ),
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} "
    "--partition {partition}",
    points_to="answered_otherwise",
    reference="ProducerStateManager#activeProducers, KIP-664",
)

TRANSACTION = Invariant(
    code="L10",
    key="ANSWERED_TRANSACTION",
    name="AnsweredTransactionState",
    severity=Severity.WARNING,
    relation="cluster_answers",
    statement="A transactional id's state in its coordinator's log is the one that the coordinator answers.",
    because=(
        "The coordinator loads its memory from that log when it moves. If they differ, a transaction that was "
        "committed may be aborted, or one stays open for ever."
    ),
    applies_when="kind = 'transaction'",
    unknown=(
        Unknown(reason="not asked", evidence=Evidence.ANSWERS, when="incomparable_reason = 'not asked'"),
        *_unless_sound(
            _OTHER_VALUE,
            _NO_COORDINATOR
            | {
                "changed while copying": Evidence.ONE_MOMENT,
                "last record may not be replicated": None,
                "last record may never have counted": None,
                "no answer": Evidence.ANSWERS,
            },
        ),
    ),
    breach_when=_OTHER_VALUE,
    subject=("transactional_id",),
    derived=(("nothing", "CASE WHEN cardinality(recomputed_values) = 0 THEN 'nothing' END"),),
    evidence=("answered_before_text", "answered_after_text", "recomputed_values"),
    explanation=(
        "The coordinator of {transactional_id} answered before the copy: {answered_before_text}.",
        "It answered after the copy: {answered_after_text}.",
        "Its log says: {recomputed_values}.",
        "Its log says {nothing} of it.",
    ),
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}",
    points_to="answered_otherwise",
    reference="TransactionCoordinator#handleDescribeTransactions, KIP-664",
)

BROKER = Invariant(
    code="L11",
    key="ANSWERED_BROKER",
    name="AnsweredBrokerRegistered",
    severity=Severity.WARNING,
    relation="cluster_answers",
    statement=(
        "Every broker that takes part is registered in the metadata log with its rack, and every captured broker is of "
        "the cluster that answered."
    ),
    because="Otherwise log directories of one cluster were captured with the answers of another.",
    applies_when="kind IN ('broker', 'cluster_id')",
    unknown=_unless_sound(
        _OTHER_VALUE,
        {
            "changed while copying": Evidence.ONE_MOMENT,
            "metadata log ends before the answer": Evidence.METADATA_LOG,
            "no answer": Evidence.ANSWERS,
        },
    ),
    breach_when=_OTHER_VALUE,
    subject=("kind", "broker_id"),
    derived=(
        (
            "cluster_before",
            "CASE WHEN kind = 'cluster_id' THEN coalesce(answered_before_text, answered_after_text) END",
        ),
        ("rack_answered", "CASE WHEN kind = 'broker' THEN coalesce(answered_after_text, answered_before_text) END"),
        ("not_registered", "CASE WHEN cardinality(recomputed_values) = 0 THEN broker_id END"),
    ),
    evidence=("kind", "answered_before_text", "answered_after_text", "recomputed_values"),
    explanation=(
        "The cluster that answered has the id {cluster_before}; meta.properties of broker {broker_id} says "
        "{recomputed_values}.",
        "Broker {broker_id} takes part, with {rack_answered}; the metadata log says {recomputed_values}.",
        "The metadata log has no registration of broker {not_registered}.",
    ),
    next="bin/kafka-cluster.sh cluster-id --bootstrap-server <host:port>",
    points_to="answered_otherwise",
    reference="ClusterControlManager#registerBroker, MetaPropertiesEnsemble#verify",
)
