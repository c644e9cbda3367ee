"""Committed offsets that fall: one commit after another of a group for a partition, in a coordinator's log.

In: a group's commits for a partition as they come to count, one after the other. Out: `CommitCourse`, mergeable over
adjacent stretches of the log. A commit counts when its transaction does, and then only if none stands that was written
after it (OffsetMetadataManager#replay, #replayEndTransactionMarker); a tombstone, or another topic of that name, begins
a new course.
"""

from dataclasses import dataclass

from tidegauge.kafka_log.coordinator_records import OffsetCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A commit that counted, where its record stands, and the offset in the log from which on it did."""

    commit: OffsetCommit
    record_offset: int
    since_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStep:
    """A commit that followed another."""

    before: Counted
    after: Counted

    @property
    def ahead(self) -> int:
        """By how much it is above the one before; below 0 it fell."""
        return self.after.commit.offset - self.before.commit.offset


@dataclass(slots=True, kw_only=True)
class CommitCourse:
    """A group's commits for a partition in one stretch: the first that counts there, and the steps since.

    `lowest`: the step that fell most, or rose least; of equals the newest. `begun_anew`: a tombstone, or another topic
    of that name, stands behind the first commit; what is told is told since then.
    """

    first: Counted
    last: Counted
    steps: int = 0
    falls: int = 0
    lowest: CommitStep | None = None
    begun_anew: bool = False

    def take(self, counted: Counted) -> None:
        """The next commit that counts, unless one stands that was written after it."""
        if counted.record_offset < self.last.record_offset:
            return
        self._follow(self.last, counted)
        self.last = counted

    def join(self, right: "CommitCourse") -> None:
        """Takes in what stands behind. Nothing of it was written before what counts here."""
        self._follow(self.last, right.first)
        if right.begun_anew:
            self.steps, self.falls, self.lowest, self.begun_anew = right.steps, right.falls, right.lowest, True
        else:
            self.steps += right.steps
            self.falls += right.falls
            self.lowest = _lower(self.lowest, right.lowest)
        self.last = right.last

    def _follow(self, before: Counted, now: Counted) -> None:
        one, other = before.commit, now.commit
        renewed = bool(one.topic_id and other.topic_id and one.topic_id != other.topic_id)
        if one.tombstone or other.tombstone or renewed:
            self.steps, self.falls, self.lowest, self.begun_anew = 0, 0, None, True
            return
        self.steps += 1
        self.falls += other.offset < one.offset
        self.lowest = _lower(self.lowest, CommitStep(before=before, after=now))


def _lower(one: CommitStep | None, later: CommitStep | None) -> CommitStep | None:
    if one is None or later is None:
        return later if one is None else one
    return later if later.ahead <= one.ahead else one
