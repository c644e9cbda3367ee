"""What the metadata log names and the copy does not have: brokers, log dirs, and the replicas that lie there.

In: the metadata history, and of each captured node its log dirs' directory ids. Out: `Absences`. A directory id is one
directory's, so it is either here or not; but a captured log dir whose meta.properties are gone may be any of those that
its broker registered, and where one of them could be it, nothing is said to be absent.

Registered are the ids of log.dirs only (BrokerServer, LogManager#directoryIds). A directory that failed is taken out of
its broker's registration, while its replicas stay assigned to it (ReplicationControlManager#handleDirectoriesOffline).
Ids that stand for no directory (migrating, unassigned, lost: DirectoryId) name none here either.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from tidegauge.facts.metadata.history import MetadataHistory, PartitionState
from tidegauge.facts.metadata.in_sync_index import RESERVED_DIRECTORIES
from tidegauge.kafka_log.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedNode:
    """A node that was captured: what is known of its log dirs, its metadata log's own left out."""

    directory_ids: Collection[str]
    unidentified_directories: int = 0
    """Log dirs whose meta.properties say no directory.id."""
    held: Collection[TopicPartition] = ()
    """Partitions of which it has a replica in a captured log dir."""
    has_metadata_log: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentBroker:
    """A registered broker that was not captured, and the partitions whose replicas are assigned to it."""

    broker_id: int
    replicas: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentLogDir:
    """A log dir of a captured broker that was not: registered, or one that failed or was taken out."""

    broker_id: int
    directory_id: str
    registered: bool
    """The broker has it, as far as the controller knows. Else it failed, or was taken out of log.dirs."""
    replicas: tuple[TopicPartition, ...]
    """Assigned to this directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absences:
    """All of it. `unplaced`: by broker, replicas that are in no captured log dir, of a directory that nobody names."""

    brokers: tuple[AbsentBroker, ...] = ()
    controllers: tuple[int, ...] = ()
    """Registered ones that are no brokers, and were not captured."""
    log_dirs: tuple[AbsentLogDir, ...] = ()
    metadata_logs: tuple[int, ...] = ()
    """Captured nodes without their own copy of the metadata log."""
    unplaced: Mapping[int, tuple[TopicPartition, ...]] = field(default_factory=dict)

    def replicas_in_absent_log_dirs(self) -> frozenset[tuple[int, TopicPartition]]:
        """(broker id, partition) of every replica that lies in a log dir which was not captured."""
        return frozenset((d.broker_id, key) for d in self.log_dirs for key in d.replicas)


def absences(history: MetadataHistory, captured: Mapping[int, CapturedNode]) -> Absences:
    """What is missing of the brokers that the metadata log knows. Without one nothing is known to be missing."""
    assigned = _by_broker(history)
    log_dirs = tuple(
        absent
        for broker_id, node in sorted(captured.items())
        for absent in _absent_log_dirs(history, broker_id, node, assigned.get(broker_id, {}))
    )
    return Absences(
        brokers=tuple(
            AbsentBroker(broker_id=broker_id, replicas=tuple(sorted(assigned.get(broker_id, {}))))
            for broker_id in sorted(history.brokers.keys() - captured.keys())
        ),
        controllers=tuple(sorted(history.controllers - history.brokers.keys() - captured.keys())),
        log_dirs=log_dirs,
        metadata_logs=tuple(sorted(i for i, node in captured.items() if not node.has_metadata_log)),
        unplaced={
            broker_id: found
            for broker_id in sorted({d.broker_id for d in log_dirs})
            if (found := tuple(sorted(_unplaced(assigned.get(broker_id, {}), captured[broker_id]))))
        },
    )


def directory_of(state: PartitionState, broker_id: int) -> str | None:
    """The directory id that the metadata log has for a replica; None where it names none."""
    if broker_id not in state.replicas or len(state.directories) != len(state.replicas):
        return None
    directory_id = state.directories[state.replicas.index(broker_id)]
    return directory_id if directory_id not in RESERVED_DIRECTORIES else None


def _by_broker(history: MetadataHistory) -> dict[int, dict[TopicPartition, str | None]]:
    """Broker -> the replicas assigned to it, each with its directory id."""
    found: dict[int, dict[TopicPartition, str | None]] = {}
    for topic in history.topics.values():
        for number, state in () if topic.deleted else topic.partitions.items():
            for broker_id in state.replicas:
                found.setdefault(broker_id, {})[TopicPartition(topic.name, number)] = directory_of(state, broker_id)
    return found


def _absent_log_dirs(
    history: MetadataHistory, broker_id: int, node: CapturedNode, assigned: Mapping[TopicPartition, str | None]
) -> Iterator[AbsentLogDir]:
    state = history.brokers.get(broker_id)
    if state is None or not state.directory_ids:
        return  # Its directories are nobody's business before metadata version 3.7.
    # A replica that moved stays assigned to its old directory until the broker has said so (AssignmentsManager).
    used = {d for key, d in assigned.items() if d is not None and key not in node.held}
    here = set(node.directory_ids)
    registered = set(state.directory_ids) - RESERVED_DIRECTORIES
    missing = sorted((registered | used) - here)
    if len(missing) <= node.unidentified_directories:
        return
    for directory_id in missing:
        yield AbsentLogDir(
            broker_id=broker_id,
            directory_id=directory_id,
            registered=directory_id in registered,
            replicas=tuple(sorted(key for key, d in assigned.items() if d == directory_id)),
        )


def _unplaced(assigned: Mapping[TopicPartition, str | None], node: CapturedNode) -> Iterator[TopicPartition]:
    return (key for key, directory_id in assigned.items() if directory_id is None and key not in node.held)
