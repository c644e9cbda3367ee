"""The history of each share partition, as `__share_group_state` tells it: snapshots and the updates behind them.

In: the decoded records of one share group's partition in log order. Out: a `ShareHistory`, mergeable over adjacent
segments. What is said of the present state is known only from the newest snapshot on; what is said of a single record
needs no other.

A batch's delivery state is 0 (available), 2 (acknowledged) or 4 (archived); the last two are final, so the offsets of
all such batches since the newest snapshot are the completed ones, whatever the others say of the rest.

Sources: ShareCoordinatorShard#replay, #generateShareStateRecord; PersisterStateBatchCombiner; KIP-932, KIP-1226.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Required, TypedDict, cast

from tidegauge.kafka_log.coordinator_records import OtherCoordinatorRecord

FAULTS_KEPT: Final = 50
PERSISTED_STATES: Final = frozenset({0, 2, 4})
_COMPLETED: Final = frozenset({2, 4})
_SNAPSHOT: Final = 0

ShareKey = tuple[str, str, int]
"""Group, topic id, partition."""
Interval = tuple[int, int]
"""First and last offset."""


class _StateBatch(TypedDict):
    """Offsets of one delivery state, as a record lists them."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class _State(TypedDict, total=False):
    """What a record says: an update has no state epoch, and older versions count nothing."""

    snapshot_epoch: Required[int]
    state_epoch: int
    leader_epoch: Required[int]
    start_offset: Required[int]
    delivery_complete_count: int
    state_batches: Required[list[_StateBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFault:
    """Something that a record may not say."""

    kind: str
    offset: int
    detail: str


@dataclass(slots=True, kw_only=True)
class ShareHistory:
    """One share partition in one stretch of its log. Epochs are those of its last record that has them.

    `whole`: there is a snapshot record, and `completed` and what follows are counted from the newest one. `ended`: a
    tombstone stands somewhere in it.
    """

    first_offset: int
    last_offset: int
    records: int = 0
    whole: bool = False
    tombstone: bool = False
    ended: bool = False
    first_epochs: tuple[int, int | None, int] | None = None
    last_epochs: tuple[int, int | None, int] | None = None
    """Snapshot, state and leader epoch; updates carry no state epoch."""
    begins_anew: bool = False
    """A tombstone stands before the first record that has epochs."""
    state_epoch: int | None = None
    start_offset: int | None = None
    delivery_complete_count: int | None = None
    completed: list[Interval] = field(default_factory=list)
    largest_delivery_count: int = 0
    reached: dict[int, int] = field(default_factory=dict)
    """Leader epoch -> behind the furthest offset that was delivered under it, by any record of the stretch."""
    range_faults: int = 0
    epoch_faults: int = 0
    faults: list[ShareFault] = field(default_factory=list)

    def take(self, offset: int, record: OtherCoordinatorRecord) -> None:
        """One more record of the share partition."""
        self.records += 1
        self.last_offset = offset
        if record.value is None:
            self._end()
            return
        said = cast(_State, record.value)
        snapshot = record.key_type == _SNAPSHOT
        epochs = (said["snapshot_epoch"], said.get("state_epoch") if snapshot else None, said["leader_epoch"])
        if self.last_epochs is not None:
            self._compare(offset, epochs)
        self.first_epochs = self.first_epochs or epochs
        # An update has no state epoch of its own: it is of the snapshot's.
        self.last_epochs = (epochs[0], epochs[1] if snapshot else self.state_epoch, epochs[2])
        self.tombstone = False
        start = said["start_offset"]
        moved = self.start_offset is not None and start > self.start_offset and epochs[1] in (None, self.state_epoch)
        if snapshot:
            self.whole = True
            self.state_epoch = epochs[1]
            self.completed = []
            self.start_offset = None
            self.delivery_complete_count = None
        self.start_offset = start if start >= 0 else self.start_offset
        count = said.get("delivery_complete_count", -1)
        self.delivery_complete_count = count if count >= 0 else None
        batches = said["state_batches"]
        self._check(offset, batches, start if snapshot else None)
        self.completed += [(b["first_offset"], b["last_offset"]) for b in batches if b["delivery_state"] in _COMPLETED]
        self.largest_delivery_count = max([self.largest_delivery_count, *(b["delivery_count"] for b in batches)])
        delivered = [b["last_offset"] + 1 for b in batches if b["delivery_count"] > 0]
        delivered += [start] if moved else []  # Where a state begins may have been reset to; behind what was done, not.
        if delivered and said["leader_epoch"] >= 0:
            self._delivered(said["leader_epoch"], max(delivered))

    def _delivered(self, leader_epoch: int, end_offset: int) -> None:
        self.reached[leader_epoch] = max(self.reached.get(leader_epoch, 0), end_offset)

    def _end(self) -> None:
        self.begins_anew = self.begins_anew or self.first_epochs is None
        self.tombstone = self.ended = True
        self.last_epochs = self.state_epoch = self.start_offset = self.delivery_complete_count = None
        self.completed = []
        self.whole = False
        self.largest_delivery_count = 0

    def _check(self, offset: int, batches: list[_StateBatch], start: int | None) -> None:
        """What a record's batches may not be: a snapshot's lie in order, apart, and above the start."""
        ordered = sorted(batches, key=lambda b: b["first_offset"])
        end = -1
        for batch in ordered:
            first, last, state = batch["first_offset"], batch["last_offset"], batch["delivery_state"]
            where = f"batch [{first}, {last}]"
            if first < 0 or last < first:
                self._fault("range", offset, f"{where} ends before it begins")
            elif first <= end:
                self._fault("overlap", offset, f"{where} begins at or below {end}, where another ends")
            elif start is not None and start >= 0 and first < start:
                self._fault("below_start", offset, f"{where} begins below the start offset {start}")
            if state not in PERSISTED_STATES:
                self._fault("delivery_state", offset, f"{where} has delivery state {state}")
            if batch["delivery_count"] < 0:
                self._fault("delivery_count", offset, f"{where} was delivered {batch['delivery_count']} times")
            end = max(end, last)

    def _compare(self, offset: int, epochs: tuple[int, int | None, int]) -> None:
        assert self.last_epochs is not None
        for detail in _went_back(self.last_epochs, epochs):
            self._fault("epoch", offset, detail)

    def _fault(self, kind: str, offset: int, detail: str) -> None:
        if kind == "epoch":
            self.epoch_faults += 1
        else:
            self.range_faults += 1
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(ShareFault(kind=kind, offset=offset, detail=detail))

    def join(self, right: "ShareHistory") -> None:
        """Takes in the adjacent stretch behind this one."""
        if self.last_epochs is not None and right.first_epochs is not None and not right.begins_anew:
            self._compare(right.first_offset, right.first_epochs)
        self.faults = (self.faults + right.faults)[:FAULTS_KEPT]
        self.range_faults += right.range_faults
        self.epoch_faults += right.epoch_faults
        for leader_epoch, end_offset in right.reached.items():
            self._delivered(leader_epoch, end_offset)
        self.records += right.records
        self.last_offset = right.last_offset
        if self.first_epochs is None:
            self.first_epochs = right.first_epochs
            self.begins_anew = self.begins_anew or self.tombstone or right.begins_anew
        if right.whole or right.ended:
            self.whole = right.whole
            self.state_epoch, self.start_offset = right.state_epoch, right.start_offset
            self.completed = right.completed
            self.largest_delivery_count = right.largest_delivery_count
        else:
            self.completed += right.completed
            self.start_offset = right.start_offset if right.start_offset is not None else self.start_offset
            self.largest_delivery_count = max(self.largest_delivery_count, right.largest_delivery_count)
        self.delivery_complete_count = right.delivery_complete_count
        if right.last_epochs is not None:
            snapshot, state, leader = right.last_epochs
            self.last_epochs = (snapshot, state if state is not None else self.state_epoch, leader)
        elif right.tombstone:
            self.last_epochs = None
        self.tombstone = right.tombstone
        self.ended = self.ended or right.ended

    @property
    def completed_offsets(self) -> int | None:
        """Offsets at or above the start that are acknowledged or archived; None without a snapshot to begin from."""
        if not self.whole or self.start_offset is None:
            return None
        return _covered(self.completed, self.start_offset)


def _went_back(before: tuple[int, int | None, int], now: tuple[int, int | None, int]) -> Iterable[str]:
    if now[0] < before[0]:
        yield f"snapshot epoch {before[0]} became {now[0]}"
    if now[1] is not None and before[1] is not None and now[1] < before[1]:
        yield f"state epoch {before[1]} became {now[1]}"
    # A new state epoch is a new state, written before any leader of the partition has asked for it.
    same_state = now[1] is None or before[1] is None or now[1] == before[1]
    if same_state and 0 <= now[2] < before[2]:
        yield f"leader epoch {before[2]} became {now[2]}"


def _covered(intervals: Iterable[Interval], start: int) -> int:
    """How many offsets at or above `start` lie in at least one interval."""
    total, end = 0, start - 1
    for first, last in sorted(intervals):
        first = max(first, end + 1)
        if last >= first:
            total += last - first + 1
            end = last
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedShareState:
    """A share partition's history, and where in `__share_group_state` it was found.

    `read_committed`: the group reads, or has read, committed records only; None where the metadata log does not tell.
    """

    group: str
    topic_id: str
    partition: int
    state_partition: int
    expected_state_partition: int | None
    names_hashed: bool
    delivery_count_limit: int
    read_committed: bool | None
    broker_quiet: bool
    history: ShareHistory
