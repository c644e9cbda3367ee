"""What each node knew of a partition: its own copy of the metadata log, read as that node's evidence.

In: the history that all copies tell together, up to where each node's own copy reaches in it, and the histories of
copies that end before it begins. Out: an `OwnView` per broker, and what older copies still tell of a partition. A node
knew what its own copy holds, and nothing else; what the controller wrote afterwards it did not.

A broker applies what is committed of the metadata log, in order, before it acts on it (BrokerMetadataPublisher).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidegauge.facts.context import OwnView
from tidegauge.facts.metadata.history import MetadataHistory, PartitionState
from tidegauge.facts.metadata.partition_change import PartitionChange


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKnowledge:
    """`known_until`: node -> end of its own copy in `history`; `islands`: node -> a history that ended earlier."""

    history: MetadataHistory
    known_until: Mapping[int, int] = field(default_factory=dict)
    islands: Mapping[int, MetadataHistory] = field(default_factory=dict)

    def own_views(self, topic_id: str, partition: int, brokers: Collection[int]) -> dict[int, OwnView]:
        """What each of the brokers knew last, by its own copy; not there for whose copy is not at hand or lacks it."""
        changes = _changes(_state(self.history, topic_id, partition))
        found = {}
        for broker in brokers:
            if broker in self.known_until:
                known = _last_before(changes, self.known_until[broker])
            else:
                island = self.islands.get(broker)
                known = next(reversed(_changes(_state(island, topic_id, partition))), None) if island else None
            if known is not None:
                found[broker] = OwnView(
                    metadata_offset=known.metadata_offset,
                    leader_id=known.leader_id,
                    leader_epoch=known.leader_epoch,
                    isr=known.isr,
                    min_insync_replicas=known.min_insync_replicas,
                )
        return found

    def changes(self, topic_id: str, partition: int) -> tuple[PartitionChange, ...]:
        """The partition's history: what older copies alone still have of it, then that of all."""
        later = _changes(_state(self.history, topic_id, partition))
        older: dict[int, PartitionChange] = {}
        for island in self.islands.values():
            for change in _changes(_state(island, topic_id, partition)):
                known = older.get(change.metadata_offset)
                if change.metadata_offset < self.history.start_offset and (known is None or known.from_snapshot):
                    older[change.metadata_offset] = change
        if not older:
            return tuple(later)
        told = [older[offset] for offset in sorted(older)] + list(later)
        return tuple(replace(change, sequence_in_log=at) for at, change in enumerate(told))

    def epoch_leaders(self, topic_id: str, partition: int) -> dict[int, int]:
        """Leader epoch -> who led it, by any copy."""
        found: dict[int, int] = {}
        for history in (*self.islands.values(), self.history):
            state = _state(history, topic_id, partition)
            found |= state.epoch_leaders if state is not None else {}
        return found


def _state(history: MetadataHistory | None, topic_id: str, partition: int) -> PartitionState | None:
    topic = history.topics.get(topic_id) if history is not None else None
    return topic.partitions.get(partition) if topic is not None else None


def _changes(state: PartitionState | None) -> list[PartitionChange]:
    return state.changes if state is not None else []


def _last_before(changes: Iterable[PartitionChange], until: int) -> PartitionChange | None:
    """The last change below an offset; what a metadata snapshot states holds at its own end."""
    found = None
    for change in changes:
        if change.metadata_offset > until or (change.metadata_offset == until and not change.from_snapshot):
            break
        found = change
    return found
