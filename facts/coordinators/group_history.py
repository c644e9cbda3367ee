"""The history of each group, as `__consumer_offsets` tells it: its epochs, members, and how far it had read.

In: the decoded records of one group in log order. Out: a `GroupHistory`, mergeable over adjacent segments. An epoch is
compared with the one before it under the same key, and a tombstone of that key in between begins a new life, in which
epochs may begin low again.

    classic     generation                          type 2 of the records
    consumer    group, assignment, member epoch     3, 6, 8     (KIP-848)
    share       group, assignment, member epoch     11, 12, 14  (KIP-932)
    streams     group, assignment, member epoch     17, 20, 22  (KIP-1071)

Sources: GroupMetadataManager#replay, GroupCoordinatorRecordHelpers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidegauge.kafka_log.coordinator_records import OffsetCommit, OtherCoordinatorRecord

REGRESSIONS_KEPT: Final = 50

_EPOCHS: Final[Mapping[int, tuple[str, str]]] = {
    2: ("generation", "generation"),
    3: ("group epoch", "epoch"),
    6: ("assignment epoch", "assignment_epoch"),
    8: ("member epoch", "member_epoch"),
    11: ("group epoch", "epoch"),
    12: ("assignment epoch", "assignment_epoch"),
    14: ("member epoch", "member_epoch"),
    17: ("group epoch", "epoch"),
    20: ("assignment epoch", "assignment_epoch"),
    22: ("member epoch", "member_epoch"),
}
"""Record type -> which epoch it writes, and the field that holds it."""
_MEMBERS: Final = frozenset({5, 10, 19})
"""Record types that say that a member exists."""
_CLASSIC: Final = 2


def kind_of(record_type: int) -> str | None:
    """What kind of group writes a record type; None for offset commits, which any does."""
    if record_type == _CLASSIC:
        return "classic"
    if 3 <= record_type <= 8 or record_type == 16:
        return "consumer"
    if 10 <= record_type <= 15:
        return "share"
    return "streams" if record_type >= 17 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """An epoch that went back: which one, whose, from and to what, and where."""

    kind: str
    member_id: str | None
    offset: int
    previous_offset: int
    before: int
    found: int


@dataclass(slots=True)
class EpochTrack:
    """One epoch under one key in a stretch of the log: its first value there, its last, and what became of the key."""

    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    ended_before_first: bool = False
    """A tombstone stands before the first value."""
    ended: bool = False
    """A tombstone stands behind the last value."""


TrackKey = tuple[int, str]
"""Record type, and the member's id where it is a member's."""


@dataclass(slots=True, kw_only=True)
class GroupHistory:
    """One group in one stretch of its log."""

    first_offset: int
    last_offset: int
    records: int = 0
    kind: str | None = None
    tracks: dict[TrackKey, EpochTrack] = field(default_factory=dict)
    members: dict[TrackKey, bool] = field(default_factory=dict)
    """Member -> whether it is one at the end."""
    classic_members: int | None = None
    regressions: int = 0
    regressions_kept: list[Regression] = field(default_factory=list)

    def take(self, offset: int, record: OtherCoordinatorRecord | OffsetCommit) -> None:
        """One more record of the group."""
        self.records += 1
        self.last_offset = offset
        if isinstance(record, OffsetCommit):
            return
        key = (record.key_type, str(record.key.get("member_id", "")))
        if record.value is not None:
            self.kind = kind_of(record.key_type) or self.kind
        if record.key_type in _MEMBERS:
            self.members[key] = record.value is not None
        if record.key_type == _CLASSIC:
            members: Any = record.value.get("members") if record.value is not None else None
            self.classic_members = len(members) if members is not None else None
        if record.key_type in _EPOCHS:
            self._track(key, offset, record)

    def _track(self, key: TrackKey, offset: int, record: OtherCoordinatorRecord) -> None:
        track = self.tracks.setdefault(key, EpochTrack())
        if record.value is None:
            if track.first is None:
                track.ended_before_first = True
            track.ended = True
            return
        epoch: Any = record.value[_EPOCHS[key[0]][1]]
        if epoch < 0:
            return  # A static member that left for a while has a negative one (LEAVE_GROUP_STATIC_MEMBER_EPOCH).
        if track.last is not None and not track.ended:
            self._compare(key, track.last, (offset, epoch))
        track.first = track.first or (offset, epoch)
        track.last = (offset, epoch)
        track.ended = False

    def _compare(self, key: TrackKey, before: tuple[int, int], now: tuple[int, int]) -> None:
        if now[1] >= before[1]:
            return
        self.regressions += 1
        if len(self.regressions_kept) < REGRESSIONS_KEPT:
            self.regressions_kept.append(
                Regression(
                    kind=_EPOCHS[key[0]][0],
                    member_id=key[1] or None,
                    offset=now[0],
                    previous_offset=before[0],
                    before=before[1],
                    found=now[1],
                )
            )

    def join(self, right: "GroupHistory") -> None:
        """Takes in the adjacent stretch behind this one."""
        for key, track in right.tracks.items():
            own = self.tracks.get(key)
            if own is None:
                self.tracks[key] = track
                continue
            if own.last is not None and track.first is not None and not (own.ended or track.ended_before_first):
                self._compare(key, own.last, track.first)
            if own.first is None:
                own.first = track.first
                own.ended_before_first = own.ended_before_first or track.ended_before_first
            own.ended = track.ended if track.first is not None else own.ended or track.ended
            own.last = track.last or own.last
        self.regressions += right.regressions
        self.regressions_kept = (self.regressions_kept + right.regressions_kept)[:REGRESSIONS_KEPT]
        self.members |= right.members
        self.classic_members = right.classic_members if _touched(right, _CLASSIC) else self.classic_members
        self.kind = right.kind or self.kind
        self.records += right.records
        self.last_offset = right.last_offset

    def epoch(self, which: str) -> int | None:
        """The newest value of the group's own epoch of that name; None if it has none, or was deleted."""
        standing = [
            track.last
            for (record_type, member), track in self.tracks.items()
            if not member and track.last is not None and not track.ended and _EPOCHS[record_type][0] == which
        ]
        return max(standing)[1] if standing else None

    @property
    def largest_member_epoch(self) -> int | None:
        """Of the members that there are."""
        standing = [t.last[1] for (_, m), t in self.tracks.items() if m and t.last is not None and not t.ended]
        return max(standing, default=None)

    @property
    def member_count(self) -> int | None:
        """Members at the end of the history; None where no record tells."""
        if self.kind == "classic":
            return self.classic_members
        return sum(self.members.values()) if self.members else None


def _touched(group: GroupHistory, record_type: int) -> bool:
    return any(key[0] == record_type for key in group.tracks)
