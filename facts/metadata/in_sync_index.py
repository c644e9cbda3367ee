"""Who is in an ISR and may not be: fenced, going down, gone, or with its replica in a directory that is no more.

In: what became of partitions and brokers, record by record, and where records come into force together. Out: fields of
the `PartitionChange` that left such a state, with how long it lasted. A state is judged where records come into force,
never between two of one batch; and how long is too long is for the catalogue to say. A member that goes may be in the
ISR for the batches that take it out of its partitions; nobody is taken into an ISR, or elected, who went in an earlier
batch, not for a moment.

Source: BrokersToIsrs, ReplicationControlManager#handleBrokerFenced, #validateAlterPartitionData,
#handleDirectoriesOffline, ClusterControlManager#isActive, DirectoryId; KIP-841.
"""

from dataclasses import dataclass, replace
from typing import Final

from tidegauge.facts.metadata.history import MetadataHistory, PartitionState

LOST_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAg"
"""Stands for a directory of the broker that went offline, whichever."""
RESERVED_DIRECTORIES: Final = frozenset({"AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", LOST_DIRECTORY})
"""Directory ids that name none: migrating, unassigned, lost."""

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """A state that should not be, since a record."""

    change: int
    offset: int
    at_ms: int | None
    inactive: tuple[int, ...]
    without_directory: tuple[int, ...]
    joined: tuple[int, ...]


class InSyncIndex:
    """The partitions that each broker is in sync for, kept while a metadata log is replayed."""

    def __init__(self, history: MetadataHistory) -> None:
        self._history = history
        self._isr: dict[_Key, tuple[int, ...]] = {}
        self._partitions: dict[int, set[_Key]] = {}
        self._touched: set[_Key] = set()
        self._standing: dict[_Key, _Standing] = {}
        self._settled: dict[_Key, tuple[tuple[int, ...], int]] = {}
        """ISR and leader epoch of each partition, as they were in force last."""
        self._brokers: set[int] = set()
        self._inactive_before: set[int] = set()
        """Brokers that were not active by what was in force last."""

    def partition_changed(self, topic_id: str, partition: int, isr: tuple[int, ...]) -> None:
        """A partition has this ISR now."""
        key = (topic_id, partition)
        self._touched.add(key)
        before = self._isr.get(key, ())
        if before == isr:
            return
        self._isr[key] = isr
        for broker_id in before:
            self._partitions[broker_id].discard(key)
        for broker_id in isr:
            self._partitions.setdefault(broker_id, set()).add(key)

    def broker_changed(self, broker_id: int) -> None:
        """A broker registered, was fenced, lost a directory, …"""
        self._brokers.add(broker_id)
        self._touched |= self._partitions.get(broker_id, set())

    def topic_removed(self, topic_id: str, at_ms: int | None) -> None:
        """A topic is gone, and its partitions with it."""
        topic = self._history.topics[topic_id]
        for partition in topic.partitions:
            self.partition_changed(topic_id, partition, ())
            self._end((topic_id, partition), at_ms)
            self._touched.discard((topic_id, partition))
            self._settled.pop((topic_id, partition), None)

    def settle(self, offset: int, at_ms: int | None) -> None:
        """What was told so far is in force."""
        for key in self._touched:
            state = self._history.topics[key[0]].partitions[key[1]]
            inactive, homeless = self._inactive(state), self._without_directory(state)
            joined = self._joined(key, state, inactive)
            self._settled[key] = (state.isr, state.leader_epoch)
            standing = self._standing.get(key)
            same = standing is not None and (inactive, homeless) == (standing.inactive, standing.without_directory)
            if same and not joined:
                continue
            self._end(key, at_ms)
            if inactive or homeless:
                self._standing[key] = _Standing(
                    change=len(state.changes) - 1,
                    offset=offset,
                    at_ms=at_ms,
                    inactive=inactive,
                    without_directory=homeless,
                    joined=joined,
                )
        self._touched.clear()
        for broker_id in self._brokers:
            alive = self._history.is_alive(broker_id)
            (self._inactive_before.discard if alive else self._inactive_before.add)(broker_id)
        self._brokers.clear()

    def close(self, at_ms: int | None) -> None:
        """The log ends."""
        for key in list(self._standing):
            self._end(key, at_ms)

    def _end(self, key: _Key, at_ms: int | None) -> None:
        standing = self._standing.pop(key, None)
        if standing is None:
            return
        lasted = at_ms - standing.at_ms if at_ms is not None and standing.at_ms is not None else None
        changes = self._history.topics[key[0]].partitions[key[1]].changes
        before = changes[standing.change]
        longer = before.out_of_place_ms is not None and lasted is not None and before.out_of_place_ms > lasted
        if before.isr_joined_inactive or (longer and not standing.joined):
            return  # Of several that one change left behind is told who should not have come, else the longest.
        changes[standing.change] = replace(
            before,
            out_of_place_offset=standing.offset,
            out_of_place_ms=lasted,
            isr_inactive=standing.inactive,
            isr_without_directory=standing.without_directory,
            isr_joined_inactive=standing.joined,
        )

    def _inactive(self, state: PartitionState) -> tuple[int, ...]:
        if state.leader_id is None and len(state.isr) == 1:
            return ()  # Without ELRs the last member stays when it goes, so that it is known who may lead next.
        told = self._history.registrations  # Of a broker whose registration was lost to damage nothing is known.
        return tuple(b for b in state.isr if b in told and not self._history.is_alive(b))

    def _joined(self, key: _Key, state: PartitionState, inactive: tuple[int, ...]) -> tuple[int, ...]:
        """Members that were taken into the ISR, or elected, while they were not active by what was in force already."""
        before, epoch = self._settled.get(key, ((), None))
        if epoch is None and self._history.migrated_from_zookeeper:
            return ()  # Its ISR comes from ZooKeeper, whose brokers may not have been unfenced by the quorum yet.
        elected = state.leader_id if epoch is not None and epoch != state.leader_epoch else None
        return tuple(b for b in inactive if b in self._inactive_before and (b not in before or b == elected))

    def _without_directory(self, state: PartitionState) -> tuple[int, ...]:
        if len(state.directories) != len(state.replicas):
            return ()
        found = []
        for broker_id, directory in zip(state.replicas, state.directories, strict=True):
            broker = self._history.brokers.get(broker_id)
            if broker_id not in state.isr or directory in RESERVED_DIRECTORIES or broker is None:
                continue
            if broker.directory_ids and directory not in broker.directory_ids:
                found.append(broker_id)
        return tuple(found)
