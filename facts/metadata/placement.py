"""Where replicas lie beside where the metadata log places them, broker by broker (D17).

In: the metadata history, and which partitions a broker's log dirs hold. Out: `Placement`. What a broker may be about to
put right is not called wrong. It follows the metadata log with a delay, so only what its own copy of that log has known
for a minute counts; a copy of log dirs may leave out what the broker has, which its checkpoint lists; and where records
of the metadata log are damaged, nothing is certain.

Source: ReplicaManager#applyDelta, LogManager (stray replicas), AssignmentsManager; KIP-858.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tidegauge.facts.metadata.absences import directory_of
from tidegauge.facts.metadata.history import MetadataHistory, PartitionState
from tidegauge.facts.metadata.in_sync_index import LOST_DIRECTORY
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.types import TopicPartition

SETTLED_MS: Final = 60_000
"""After so long a broker has done what the metadata log asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldReplicas:
    """What a broker's log dirs hold: served replicas with their log dir's directory id, and copies under way."""

    served: Mapping[TopicPartition, str | None]
    future: Collection[TopicPartition]
    listed: Collection[TopicPartition]
    """Partitions that its replication-offset-checkpoint lists."""
    whole: bool
    """Every log dir that the broker registered is in the copy."""
    quiet: bool
    """The broker had stopped, so that no replica came or went while it was copied."""
    seen_until_ms: int | None
    """The newest record in its own copy of the metadata log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What lies where it should not, and what does not lie where it should."""

    stray: tuple[TopicPartition, ...] = ()
    missing: tuple[TopicPartition, ...] = ()
    misplaced: tuple[TopicPartition, ...] = ()
    offline: tuple[TopicPartition, ...] = ()
    """In a directory that the broker does not have any more, and out of the ISR: everybody knows."""
    unsettled: int = 0


def placement(history: MetadataHistory, broker_id: int, held: HeldReplicas) -> Placement:
    """Compares one broker's replicas with the metadata log."""
    if not history.topics:
        return Placement()
    stray: list[TopicPartition] = []
    misplaced: list[TopicPartition] = []
    missing: list[TopicPartition] = []
    offline: list[TopicPartition] = []
    unsettled = 0
    for key, directory_id in sorted(held.served.items()):
        state = _living(history, key)
        if key[0] == CLUSTER_METADATA:
            continue
        if state is None or broker_id not in state.replicas:
            wrong, since = stray, _left_at_ms(history, key, broker_id, quiet=held.quiet)
        elif _is_elsewhere(state, broker_id, directory_id):
            wrong, since = misplaced, state.changes[-1].at_ms
        else:
            continue
        if _settled(since, held) and not history.damaged_offsets:
            wrong.append(key)
        else:
            unsettled += 1
    for key, state in _assigned(history, broker_id):
        if key in held.served or key in held.future or not _settled(_in_sync_at_ms(state, broker_id), held):
            continue
        if _went_with_its_directory(history, state, broker_id):
            offline.append(key)
        elif held.whole and held.listed and key not in held.listed and not history.damaged_offsets:
            missing.append(key)
        else:
            unsettled += 1
    return Placement(
        stray=tuple(stray),
        missing=tuple(sorted(missing)),
        misplaced=tuple(misplaced),
        offline=tuple(sorted(offline)),
        unsettled=unsettled,
    )


_NEVER: Final = 1 << 62


def _settled(since_ms: int | None, held: HeldReplicas) -> bool:
    """Whether the broker had known it for long enough. No instant: it stands in a metadata snapshot, or long ago."""
    return held.seen_until_ms is not None and (since_ms or 0) + SETTLED_MS < held.seen_until_ms


def _living(history: MetadataHistory, key: TopicPartition) -> PartitionState | None:
    topic = history.topic_named(key[0])
    return topic.partitions.get(key[1]) if topic is not None and not topic.deleted else None


def _assigned(history: MetadataHistory, broker_id: int) -> list[tuple[TopicPartition, PartitionState]]:
    return [
        (TopicPartition(topic.name, number), state)
        for topic in history.topics.values()
        if not topic.deleted
        for number, state in topic.partitions.items()
        if broker_id in state.replicas
    ]


def _left_at_ms(history: MetadataHistory, key: TopicPartition, broker_id: int, *, quiet: bool) -> int | None:
    """Since when the broker has been no replica of it; of a topic that nobody knows, never while it runs."""
    topic = history.topic_named(key[0])
    if topic is None:
        return 0 if quiet else _NEVER  # It may have been created while it was copied.
    if topic.deleted:
        return topic.deleted_at_ms
    state = topic.partitions.get(key[1])
    since: int | None = _NEVER
    for change in reversed(state.changes if state is not None else ()):
        if broker_id in change.replicas:
            break
        since = change.at_ms
    return since


def _is_elsewhere(state: PartitionState, broker_id: int, directory_id: str | None) -> bool:
    assigned = directory_of(state, broker_id)
    return directory_id is not None and assigned is not None and assigned != directory_id


def _went_with_its_directory(history: MetadataHistory, state: PartitionState, broker_id: int) -> bool:
    """The replica's directory failed or was taken out of log.dirs: its broker does not make the log anew elsewhere.

    The controller takes the directory from the broker's registration, and the replica out of the ISR
    (ReplicationControlManager#handleDirectoriesOffline); the broker makes no log while a log dir of its is offline
    (Partition#createLogInAssignedDirectoryId).
    """
    broker, assigned = history.brokers.get(broker_id), directory_of(state, broker_id)
    if broker is None or not broker.directory_ids or broker_id in state.isr:
        return False
    return assigned not in broker.directory_ids if assigned is not None else _is_lost(state, broker_id)


def _is_lost(state: PartitionState, broker_id: int) -> bool:
    """The broker has told the controller that the replica is in one of its directories that failed."""
    known = len(state.directories) == len(state.replicas)
    return known and state.directories[state.replicas.index(broker_id)] == LOST_DIRECTORY


def _in_sync_at_ms(state: PartitionState, broker_id: int) -> int | None:
    """When the broker was first in the ISR since it became a replica: from then on it had the log."""
    first: int | None = _NEVER
    for change in reversed(state.changes):
        if broker_id not in change.replicas:
            break
        if broker_id in change.isr:
            first = change.at_ms
    return first
