"""What the coordinators' logs tell beside their newest values: each key's history, folded.

In: the records of `__consumer_offsets`, `__transaction_state` and `__share_group_state` in log order. Out: a
`CoordinatorHistory`, mergeable over adjacent segments. The rule that must hold: `merge(history(a), history(b))` equals
`history(a + b)`, and where records are missing (a cleaner, damage) that is counted as a hole, so that nobody takes two
records for neighbours that are not.
"""

from dataclasses import dataclass, field
from typing import Final

from tidegauge.facts.coordinators.group_history import GroupHistory
from tidegauge.facts.coordinators.share_history import ShareHistory, ShareKey
from tidegauge.facts.coordinators.transactional_ids import TransactionalIdHistory, begun, joined
from tidegauge.kafka_log.coordinator_records import OffsetCommit, OtherCoordinatorRecord, TransactionState

CommitKey = tuple[str, str, int]
"""Group, topic, partition."""

NO_EPOCH: Final = -1
"""The leader epoch of a commit without one, in `Reached.offsets`."""


@dataclass(slots=True)
class Reached:
    """How far a group had committed in a partition, under each leader epoch that its commits name.

    Of the topic that the newest commit is of. `forgotten`: a tombstone, or another topic of that name, stands before.
    """

    offsets: dict[int, int] = field(default_factory=dict)
    topic_id: str | None = None
    forgotten: bool = False

    def take(self, commit: OffsetCommit) -> None:
        """One more commit, or its end."""
        if commit.tombstone or (commit.topic_id and self.topic_id and commit.topic_id != self.topic_id):
            self.offsets, self.topic_id, self.forgotten = {}, None, True
        if not commit.tombstone:
            epoch = NO_EPOCH if commit.leader_epoch is None else commit.leader_epoch
            self.offsets[epoch] = max(commit.offset, self.offsets.get(epoch, -1))
            self.topic_id = commit.topic_id or self.topic_id

    def join(self, right: "Reached") -> None:
        """Takes in what stands behind."""
        other_topic = bool(right.topic_id and self.topic_id and right.topic_id != self.topic_id)
        if right.forgotten or other_topic:
            self.offsets, self.topic_id, self.forgotten = {}, None, True
        for epoch, offset in right.offsets.items():
            self.offsets[epoch] = max(offset, self.offsets.get(epoch, -1))
        self.topic_id = right.topic_id or self.topic_id


@dataclass(slots=True)
class CoordinatorHistory:
    """Every key's history in one stretch of a coordinator's log. Offsets are None where it has no record."""

    first_offset: int | None = None
    last_offset: int | None = None
    holes: int = 0
    transactional_ids: dict[str, TransactionalIdHistory] = field(default_factory=dict)
    groups: dict[str, GroupHistory] = field(default_factory=dict)
    share_states: dict[ShareKey, ShareHistory] = field(default_factory=dict)
    reached: dict[CommitKey, Reached] = field(default_factory=dict)

    def passed(self, first: int, last: int) -> None:
        """Offsets that were read: a record's own, or a control batch's."""
        if self.last_offset is not None and first > self.last_offset + 1:
            self.holes += 1
        self.first_offset = first if self.first_offset is None else self.first_offset
        self.last_offset = last

    def take(self, offset: int, record: object) -> None:
        """One more record, decoded; of what it is not about nothing is kept."""
        if isinstance(record, TransactionState):
            now = begun(offset, self.holes, record)
            before = self.transactional_ids.get(record.transactional_id)
            # Both count holes from the start of this stretch.
            self.transactional_ids[record.transactional_id] = joined(before, now, 0) if before is not None else now
        elif isinstance(record, OffsetCommit):
            self._group(record.group, offset, record)
            self.reached.setdefault((record.group, record.topic, record.partition), Reached()).take(record)
        elif isinstance(record, OtherCoordinatorRecord):
            if "topic_id" in record.key:
                self._share(offset, record)
            else:
                self._group(str(record.key.get("group_id", record.key.get("group", ""))), offset, record)

    def _group(self, group: str, offset: int, record: OtherCoordinatorRecord | OffsetCommit) -> None:
        if group not in self.groups:
            self.groups[group] = GroupHistory(first_offset=offset, last_offset=offset)
        self.groups[group].take(offset, record)

    def _share(self, offset: int, record: OtherCoordinatorRecord) -> None:
        named: dict[str, object] = dict(record.key)
        partition = named["partition"]
        assert isinstance(partition, int)
        key = (str(named["group_id"]), str(named["topic_id"]), partition)
        if key not in self.share_states:
            self.share_states[key] = ShareHistory(first_offset=offset, last_offset=offset)
        self.share_states[key].take(offset, record)

    def join(self, right: "CoordinatorHistory") -> None:
        """Takes in the adjacent stretch behind this one."""
        if right.first_offset is not None and self.last_offset is not None:
            self.holes += right.first_offset > self.last_offset + 1
        for transactional_id, ours in right.transactional_ids.items():
            before = self.transactional_ids.get(transactional_id)
            self.transactional_ids[transactional_id] = (
                joined(before, ours, self.holes) if before is not None else ours.moved(self.holes)
            )
        for group, of_group in right.groups.items():
            if group in self.groups:
                self.groups[group].join(of_group)
            else:
                self.groups[group] = of_group
        for key, share in right.share_states.items():
            if key in self.share_states:
                self.share_states[key].join(share)
            else:
                self.share_states[key] = share
        for commit, reached in right.reached.items():
            if commit in self.reached:
                self.reached[commit].join(reached)
            else:
                self.reached[commit] = reached
        self.holes += right.holes
        self.first_offset = right.first_offset if self.first_offset is None else self.first_offset
        self.last_offset = right.last_offset if right.last_offset is not None else self.last_offset
