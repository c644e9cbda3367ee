"""What the whole snapshot says of one partition, and of one topic.

In: `Known`, what holds for a snapshot. Out: `PartitionContext`, and rows of `topics`. The rule that must hold: what
nothing tells is None or empty here, never a default that looks like an answer.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from tidegauge.derivation.files.truth_file import Ledger
from tidegauge.derivation.gathering.coordinator_logs import Coordinators
from tidegauge.derivation.metadata.captured_nodes import CapturedNodes
from tidegauge.facts.answers.asked import PartitionAnswers
from tidegauge.facts.context import (
    Assignment,
    ClusterCopy,
    CoordinatorKnowledge,
    MetadataLogCopy,
    OwnView,
    PartitionContext,
    PartitionHistory,
    PartitionSettings,
)
from tidegauge.facts.metadata.history import COMPACT, MetadataHistory, PartitionState, TopicState, record_place
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.metadata.releases import Release
from tidegauge.facts.metadata.settings import Settings
from tidegauge.facts.metadata.upkeep_context import POLICY, UpkeepContext, log_settings
from tidegauge.facts.replicas.node_knowledge import NodeKnowledge
from tidegauge.facts.rows import json_list
from tidegauge.kafka_log.coordinator_records import OffsetCommit, RemoteSegment, TransactionState
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA, REMOTE_LOG_METADATA
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import TopicRow
from tidegauge.snapshots.cluster_answers import PartitionAnswer

MAX_TRANSACTION_TIMEOUT_MS: Final = 900_000
"""transaction.max.timeout.ms, Kafka's default."""


_MISSING_TOLD: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What holds for the whole snapshot."""

    history: MetadataHistory
    nodes: NodeKnowledge
    brokers_of: Mapping[TopicPartition, Collection[int]]
    confluent_tier: frozenset[TopicPartition]
    captured: CapturedNodes
    untold: Collection[TopicPartition]
    """Partitions of which the metadata log at hand ends too early to tell."""
    metadata_committed_end_offset: int | None
    coordinators: Coordinators
    transactions: Mapping[int, TransactionState]
    transactions_known: bool
    commits: Mapping[TopicPartition, tuple[OffsetCommit, ...]]
    remote: Mapping[TopicPartition, tuple[RemoteSegment, ...]]
    captured_at_ms: int | None
    answers: Mapping[TopicPartition, PartitionAnswers]
    settings: Settings
    names_hashed: bool
    remote_records_whole: bool
    oldest_releases: Mapping[int, Release]
    ledger: Ledger | None


def partition_context(key: TopicPartition, known: Known) -> PartitionContext:
    """What the metadata log, the coordinators and the answers say of a partition, whether it is captured or not."""
    history, captured, told_of = known.history, known.captured, key not in known.untold
    topic = history.topic_named(key.topic) if told_of else None
    state = topic.partitions.get(key.partition) if topic is not None else None
    # Where the metadata log does not have the partition, the cluster's own last answer tells who leads it.
    answers = known.answers.get(key)
    answered = _leadership(answers) if state is None and topic is None else None
    topic_id = topic.topic_id if topic is not None else None
    views: Mapping[int, OwnView] = {}
    changes: tuple[PartitionChange, ...] = ()
    leaders: Mapping[int, int] = {}
    if state is not None and topic_id is not None:
        brokers = frozenset(known.brokers_of.get(key, ())) | frozenset(state.replicas)
        views = known.nodes.own_views(topic_id, key.partition, brokers)
        changes = known.nodes.changes(topic_id, key.partition)
        leaders = known.nodes.epoch_leaders(topic_id, key.partition)
    return PartitionContext(
        topic=key.topic,
        partition=key.partition,
        topic_id=topic_id,
        assignment=_assignment(topic, state, answered),
        history=PartitionHistory(
            topic_ids_deleted={t.topic_id: t.deleted for t in history.lives(key.topic)},
            names_whole=names_whole(history),
            changes=changes,
            epoch_leaders=leaders,
            own_views=views,
        ),
        metadata=MetadataLogCopy(
            captured=history.captured and told_of,
            files=history.files,
            damaged=bool(history.damaged_offsets),
            committed_end_offset=known.metadata_committed_end_offset if key.topic == CLUSTER_METADATA else None,
        ),
        settings=_settings(key, known, topic_told=topic is not None),
        cluster=ClusterCopy(
            captured_at_ms=known.captured_at_ms,
            snapshot_quiet=captured.metadata_one_moment if key.topic == CLUSTER_METADATA else captured.one_moment,
            stopped=captured.stopped,
            alive_brokers=history.alive_brokers,
            captured_brokers=captured.broker_ids,
            brokers_without_log_dir=captured.without_log_dir,
            names_hashed=known.names_hashed,
            next_producer_id=history.next_producer_id,
        ),
        coordinators=_coordinators(key, known),
        remote_log_start_offset=min(
            (s.start_offset for s in known.remote.get(key, ()) if s.start_offset is not None and _readable(s)),
            default=None,
        ),
        answers=answers,
        acknowledged=known.ledger.get(key, ()) if known.ledger is not None else None,
        upkeep=_upkeep_context(key, known),
    )


def _assignment(topic: TopicState | None, state: PartitionState | None, answered: PartitionAnswer | None) -> Assignment:
    """By the metadata log, else by the cluster's answer."""
    if state is None:
        return Assignment(
            known=False,
            answered=answered is not None,
            topic_deleted=topic is not None and topic.deleted,
            leader_id=answered.leader_id if answered is not None else None,
            leader_epoch=answered.leader_epoch if answered is not None else None,
            replicas=answered.replicas if answered is not None else (),
            isr=answered.isr if answered is not None else (),
        )
    return Assignment(
        known=True,
        topic_deleted=topic is not None and topic.deleted,
        leader_id=state.leader_id,
        last_leader_id=state.last_leader_id,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        replicas=state.replicas,
        isr=state.isr,
        elr=state.elr,
        last_known_elr=state.last_known_elr,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
    )


def _settings(key: TopicPartition, known: Known, *, topic_told: bool) -> PartitionSettings:
    topic, settings = key.topic, known.settings
    policy: str | None = settings.of_topic(topic, POLICY)
    if not topic_told and topic != CLUSTER_METADATA and settings.sourced(topic, POLICY).source == "default":
        policy = None  # What Kafka takes where nobody set it is no evidence of a topic that no metadata log tells of.
    tiered = settings.of_topic(topic, "remote.storage.enable") == "true"
    return PartitionSettings(
        min_insync_replicas=settings.min_insync_replicas(topic),
        min_insync_course=settings.course(topic, "min.insync.replicas"),
        cleanup_policy=policy,
        ever_compacted=settings.course(topic, POLICY).ever(COMPACT),
        unclean_leader_election_enable=settings.of_topic(topic, "unclean.leader.election.enable") == "true",
        remote_storage_enable=tiered or key in known.confluent_tier,
        preallocate=settings.of_topic(topic, "preallocate") == "true",
        producer_expiration=settings.producer_expiration(),
        max_transaction_timeout_ms=settings.of_brokers("transaction.max.timeout.ms", MAX_TRANSACTION_TIMEOUT_MS),
        transaction_levels=settings.levels("transaction.version") if known.history.captured else None,
    )


def _coordinators(key: TopicPartition, known: Known) -> CoordinatorKnowledge:
    share_states = known.coordinators.share_states.get(key, ())
    return CoordinatorKnowledge(
        transactions_by_producer=known.transactions,
        transaction_states_known=known.transactions_known,
        commits=known.commits.get(key, ()),
        decisions=known.coordinators.decisions.get(key, ()),
        share_states=share_states,
        reached={**known.coordinators.reached.get(key, {}), **{s.group: s.history.reached for s in share_states}},
        courses=known.coordinators.courses.get(key, {}),
    )


def _leadership(answers: PartitionAnswers | None) -> PartitionAnswer | None:
    """The last answer that tells a leader and its ISR."""
    told = (answers.after, answers.before) if answers is not None else ()
    return next((a for a in told if a is not None and a.leader_id is not None), None)


def names_whole(history: MetadataHistory) -> bool:
    """It tells of every topic there ever was. What ZooKeeper knew before, nobody does."""
    return history.start_offset == 0 and not history.damaged_offsets and not history.migrated_from_zookeeper


def _upkeep_context(key: TopicPartition, known: Known) -> UpkeepContext:
    history, topic = known.history, known.history.topic_named(key.topic)
    topic_id = topic.topic_id if topic is not None else None
    settings = log_settings(history, known.settings, key.topic)
    return UpkeepContext(
        settings=settings,
        oldest_releases=known.oldest_releases,
        history_whole=settings.reaches(POLICY),
        metadata_end_offset=history.end_offset or None,
        remote=tuple(s for s in known.remote.get(key, ()) if topic_id is None or s.topic_id == topic_id),
        remote_known=bool(known.coordinators.tables(REMOTE_LOG_METADATA)),
        remote_records_whole=known.remote_records_whole,
    )


def _readable(segment: RemoteSegment) -> bool:
    return segment.state == "COPY_SEGMENT_FINISHED"


def _missing(partitions: Collection[int]) -> list[int]:
    """The first numbers that are none of a topic's partitions, below its last one: a record may name any number."""
    last = max(partitions, default=-1)
    return list(islice((n for n in range(last + 1) if n not in partitions), _MISSING_TOLD))


def topic_row(topic: TopicState, known: Known) -> TopicRow:
    """A row of `topics`, without the columns of the capture."""
    history = known.history

    def config(name: str) -> str:
        return known.settings.of_topic(topic.name, name)

    policy = config("cleanup.policy")
    first = topic.partitions.get(0)
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partition_count": len(topic.partitions),
        "replication_factor": len(first.replicas) if first is not None else None,
        "cleanup_policy": policy,
        "min_insync_replicas": known.settings.min_insync_replicas(topic.name),
        "unclean_leader_election_enable": config("unclean.leader.election.enable") == "true",
        "remote_storage_enable": config("remote.storage.enable") == "true",
        "ever_compacted": known.settings.course(topic.name, POLICY).ever(COMPACT),
        "missing_partitions": _missing(topic.partitions.keys()),
        "namesakes": sum(1 for t in history.lives(topic.name) if not t.deleted and t is not topic),
        "metadata_damaged": bool(history.damaged_offsets),
        **record_place(history.files, topic.metadata_offset, from_snapshot=topic.from_snapshot),
        "configs": json_list(
            {"name": name, "value": value} for name, value in sorted(history.configs.get((2, topic.name), {}).items())
        ),
    }
