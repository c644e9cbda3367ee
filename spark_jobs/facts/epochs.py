"""Leader epochs: vectors, Kafka's truncation exchange, and where two logs part.

In: an epoch vector per replica (leader epoch -> start offset), log ends. Out: end offsets of epochs as a broker would
answer them, and the offset to which Kafka would make a follower truncate. The rule that must hold: what is computed
here is what `LeaderEpochFileCache#endOffsetFor`, `Partition#readRecords` and
`AbstractFetcherThread#getOffsetTruncationState` do (KIP-101, KIP-279, KIP-320), to the offset.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafka_log.checkpoints import EpochEntry
from kafka_log.types import LeaderEpoch, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """An answer to "where did this epoch end": the epoch it speaks of and the end offset, both None if undefined."""

    leader_epoch: LeaderEpoch | None
    end_offset: Offset | None


UNDEFINED = EpochEnd(leader_epoch=None, end_offset=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochVector:
    """A replica's leader epochs in order, with its log start and log end: what its epoch cache holds after loading."""

    entries: tuple[EpochEntry, ...]
    log_start_offset: Offset
    log_end_offset: Offset

    @property
    def latest_epoch(self) -> LeaderEpoch | None:
        """The newest epoch known, batches or not."""
        return LeaderEpoch(self.entries[-1].leader_epoch) if self.entries else None

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """`LeaderEpochFileCache#endOffsetFor`: the largest epoch at or below the asked one, and where it ends."""
        if epoch < 0 or not self.entries:
            return UNDEFINED
        latest = self.entries[-1].leader_epoch
        if epoch == latest:
            return EpochEnd(leader_epoch=LeaderEpoch(epoch), end_offset=self.log_end_offset)
        if epoch > latest:
            return UNDEFINED
        at = 0
        while self.entries[at].leader_epoch <= epoch:
            at += 1
        end_offset = Offset(self.entries[at].start_offset)
        if at == 0:
            return EpochEnd(leader_epoch=LeaderEpoch(epoch), end_offset=end_offset)
        return EpochEnd(leader_epoch=LeaderEpoch(self.entries[at - 1].leader_epoch), end_offset=end_offset)

    def epoch_at(self, offset: int) -> LeaderEpoch | None:
        """The epoch that an offset belongs to (`LeaderEpochFileCache#epochForOffset`)."""
        found = None
        for entry in self.entries:
            if entry.start_offset > offset:
                break
            found = LeaderEpoch(entry.leader_epoch)
        return found

    def start_of(self, epoch: int) -> Offset | None:
        """Where an epoch starts, if the vector has it."""
        for entry in self.entries:
            if entry.leader_epoch == epoch:
                return Offset(entry.start_offset)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """What the exchange comes to: the offset a follower is cut to (its log end if not), and in how many rounds."""

    offset: Offset
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
    or a missing file) are added behind it, as recovery would. Entries past the log end are dropped
    (`truncateFromEnd`), those below the log start are folded into one that starts there (`truncateFromStart`).
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
    for entry in batch_epochs:
        if not entries or (
            entry.leader_epoch > entries[-1].leader_epoch and entry.start_offset >= entries[-1].start_offset
        ):
            _assign(entries, entry)
    kept = [e for e in entries if e.start_offset <= log_end_offset]
    below = [e for e in kept if e.start_offset <= log_start_offset]
    if len(below) > 1 or (below and below[-1].start_offset < log_start_offset):
        kept = [EpochEntry(leader_epoch=below[-1].leader_epoch, start_offset=log_start_offset), *kept[len(below) :]]
    return EpochVector(
        entries=tuple(kept), log_start_offset=Offset(log_start_offset), log_end_offset=Offset(log_end_offset)
    )


def _assign(entries: list[EpochEntry], entry: EpochEntry) -> None:
    while entries and (
        entries[-1].leader_epoch >= entry.leader_epoch or entries[-1].start_offset >= entry.start_offset
    ):
        entries.pop()
    entries.append(entry)


def truncation(*, leader: EpochVector, follower: EpochVector, follower_high_watermark: int | None) -> Truncation:
    """Runs the exchange of KIP-279/320 between a follower that fetches at its log end and a leader.

    Each round the leader answers the end of the follower's last epoch; where it names a smaller epoch than asked, the
    follower cuts itself back to its own end of that epoch and asks again. A leader that knows nothing of the epoch
    makes the follower fall back to its high watermark.
    """
    end = int(follower.log_end_offset)
    asked = follower.latest_epoch
    rounds = 0
    if asked is None or end == follower.log_start_offset:
        return Truncation(offset=Offset(end), rounds=0)
    while True:
        rounds += 1
        answer = leader.end_offset_for(asked)
        if answer.leader_epoch is None or answer.end_offset is None:
            if asked > (leader.latest_epoch if leader.latest_epoch is not None else -1):
                # The leader's epochs end below the follower's: a fetch from it is fenced or out of range. Only the high
                # watermark is left to fall back to (AbstractFetcherThread#getOffsetTruncationState, undefined offset).
                fallback = end if follower_high_watermark is None else min(end, follower_high_watermark)
                return Truncation(offset=Offset(fallback), rounds=rounds)
            return Truncation(offset=Offset(end), rounds=rounds)
        diverging = answer.leader_epoch < asked or answer.end_offset < end
        if not diverging:
            return Truncation(offset=Offset(end), rounds=rounds)
        own_epoch, own_end = _own_end(follower, answer.leader_epoch, end)
        if own_epoch != answer.leader_epoch:
            end = min(own_end, end)
            asked = LeaderEpoch(own_epoch)
            continue
        return Truncation(offset=Offset(min(own_end, answer.end_offset, end)), rounds=rounds)


def _own_end(follower: EpochVector, epoch: int, end: int) -> tuple[int, int]:
    """The follower's own answer for an epoch, with its log end as far as it has been cut back already.

    Where it has no epoch that old, it answers as a leader would: the epoch asked for, up to where its first one starts.
    """
    at_or_below = [e for e in follower.entries if e.leader_epoch <= epoch and e.start_offset <= end]
    own = int(at_or_below[-1].leader_epoch) if at_or_below else epoch
    later = [int(e.start_offset) for e in follower.entries if e.leader_epoch > own]
    return own, min([*later, end])
