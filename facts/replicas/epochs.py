"""Leader epochs: vectors, Kafka's truncation exchange, and where two logs part.

In: an epoch vector per replica (leader epoch -> start offset), log ends. Out: end offsets of epochs as a broker would
answer them, and the offset to which Kafka would make a follower truncate. What is computed here is what
`LeaderEpochFileCache#endOffsetFor`, `Partition#readRecords` and `AbstractFetcherThread#getOffsetTruncationState` do
(KIP-101, KIP-279, KIP-320), to the offset.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidegauge.kafka_log.checkpoints import EpochEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """An answer to "where did this epoch end": the epoch it speaks of and the end offset, both None if undefined."""

    leader_epoch: int | None
    end_offset: int | None


UNDEFINED = EpochEnd(leader_epoch=None, end_offset=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochVector:
    """A replica's leader epochs in order, with its log start and log end: what its epoch cache holds after loading."""

    entries: tuple[EpochEntry, ...]
    log_start_offset: int
    log_end_offset: int

    @property
    def latest_epoch(self) -> int | None:
        """The newest epoch known, batches or not."""
        return self.entries[-1].leader_epoch if self.entries else None

    def end_offset_for(self, leader_epoch: int) -> EpochEnd:
        """`LeaderEpochFileCache#endOffsetFor`: the largest epoch at or below the asked one, and where it ends."""
        if leader_epoch < 0 or not self.entries:
            return UNDEFINED
        latest = self.entries[-1].leader_epoch
        if leader_epoch == latest:
            return EpochEnd(leader_epoch=leader_epoch, end_offset=self.log_end_offset)
        if leader_epoch > latest:
            return UNDEFINED
        at = 0
        while self.entries[at].leader_epoch <= leader_epoch:
            at += 1
        end_offset = self.entries[at].start_offset
        if at == 0:
            return EpochEnd(leader_epoch=leader_epoch, end_offset=end_offset)
        return EpochEnd(leader_epoch=self.entries[at - 1].leader_epoch, end_offset=end_offset)

    def epoch_at(self, offset: int) -> int | None:
        """The epoch that an offset belongs to (`LeaderEpochFileCache#epochForOffset`)."""
        found = None
        for entry in self.entries:
            if entry.start_offset > offset:
                break
            found = entry.leader_epoch
        return found

    def led(self, leader_epoch: int) -> "EpochVector":
        """What the vector is once its broker has begun to lead an epoch (`Partition#makeLeader`): begun at its end."""
        if self.latest_epoch is not None and self.latest_epoch >= leader_epoch:
            return self
        begun = [e for e in self.entries if e.start_offset < self.log_end_offset]
        begun.append(EpochEntry(leader_epoch=leader_epoch, start_offset=self.log_end_offset))
        return replace(self, entries=tuple(begun))

    def start_of(self, leader_epoch: int) -> int | None:
        """Where an epoch starts, if the vector has it."""
        for entry in self.entries:
            if entry.leader_epoch == leader_epoch:
                return entry.start_offset
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """What the exchange comes to: the offset a follower is cut to (its log end if not), and in how many rounds."""

    offset: int
    rounds: int


def epoch_vector(
    *,
    checkpoint: Sequence[EpochEntry] | None,
    batch_epochs: Iterable[EpochEntry],
    log_start_offset: int,
    log_end_offset: int,
) -> EpochVector:
    """The epoch cache as a broker would have it after loading these files.

    The checkpoint rules: its entries are taken one by one, each in place of those that it contradicts
    (`LeaderEpochFileCache#assign`). Epochs that only the batches have (a copy whose checkpoint is older than its log,
    or a missing file) are added behind it, as `LogSegment#recover` does. Entries past the log end are dropped
    (`truncateFromEnd`), those below the log start are folded into one that starts there (`truncateFromStart`).
    One that begins at the log end is kept, though a broker that loads drops it: a leader that runs has it from its
    election to its first record, and it will have one there again when it leads.
    """
    entries: list[EpochEntry] = []
    for entry in checkpoint or ():
        if entry.leader_epoch < 0 or entry.start_offset < 0:
            continue
        if (
            entries
            and entry.leader_epoch == entries[-1].leader_epoch
            and entry.start_offset >= entries[-1].start_offset
        ):
            continue
        _assign(entries, entry)
    entries = [e for e in entries if e.start_offset <= log_end_offset]
    for entry in batch_epochs:
        # A batch's epoch is not under its checksum: one that begins below what the checkpoint knows is not believed.
        if not entries or (
            entry.leader_epoch > entries[-1].leader_epoch and entry.start_offset >= entries[-1].start_offset
        ):
            _assign(entries, entry)
    kept = [e for e in entries if e.start_offset <= log_end_offset]
    below = [e for e in kept if e.start_offset <= log_start_offset]
    if len(below) > 1 or (below and below[-1].start_offset < log_start_offset):
        kept = [EpochEntry(leader_epoch=below[-1].leader_epoch, start_offset=log_start_offset), *kept[len(below) :]]
    return EpochVector(entries=tuple(kept), log_start_offset=log_start_offset, log_end_offset=log_end_offset)


def _assign(entries: list[EpochEntry], entry: EpochEntry) -> None:
    while entries and (
        entries[-1].leader_epoch >= entry.leader_epoch or entries[-1].start_offset >= entry.start_offset
    ):
        entries.pop()
    entries.append(entry)


def truncation(*, leader: EpochVector, follower: EpochVector, follower_high_watermark: int | None) -> Truncation:
    """Runs the exchange of KIP-279/320 between a follower that fetches at its log end and a leader, until it settles.

    With each fetch the follower says its last epoch, and the leader answers where that one ended. Where the leader
    names a smaller epoch, or an end below the fetch, the follower cuts itself back and fetches again; a cut that ends
    in a place where both hold the same epoch is looked at again like any other. A leader that knows nothing of the
    epoch answers "out of range", which cuts the follower only where the leader's log is the shorter one. A follower
    without any epoch fetches from its high watermark.

    Where the leader's log starts above the follower's end, the follower drops its log and starts there; that is
    retention, and what is said here is still where the two histories part.
    """
    end = int(follower.log_end_offset)
    entries = list(follower.entries)
    if end == follower.log_start_offset:
        return Truncation(offset=end, rounds=0)
    if not entries and follower_high_watermark is not None:
        end = min(end, follower_high_watermark)  # ReplicaManager#initialFetchOffset
    cuts = 0
    while (cut := _answered(leader, entries, end)) is not None:
        cuts += 1
        end = cut
        # UnifiedLog#truncateTo: an epoch that begins at the end goes too, for another leader may have another there.
        entries = [e for e in entries if e.start_offset < end]
    return Truncation(offset=end, rounds=max(cuts, 1) if follower.entries else cuts)


def _answered(leader: EpochVector, entries: Sequence[EpochEntry], end: int) -> int | None:
    """Where one fetch of a follower with these epochs and this log end makes it cut its log; None if it may stay."""
    asked = int(entries[-1].leader_epoch) if entries else None
    answer = leader.end_offset_for(asked) if asked is not None else UNDEFINED
    if asked is None or answer.leader_epoch is None or answer.end_offset is None:
        # Partition#readRecords: out of range; AbstractFetcherThread#fetchOffsetAndTruncate.
        return int(leader.log_end_offset) if leader.log_end_offset < end else None
    if answer.leader_epoch == asked and answer.end_offset >= end:
        return None
    own = EpochVector(entries=tuple(entries), log_start_offset=0, log_end_offset=end)
    own_end = own.end_offset_for(answer.leader_epoch)
    assert own_end.end_offset is not None, "an epoch at or below one's own latest has an end"
    if own_end.leader_epoch != answer.leader_epoch:
        return min(own_end.end_offset, end)
    return min(own_end.end_offset, answer.end_offset, end)
