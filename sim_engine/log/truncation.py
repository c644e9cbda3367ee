"""Where a follower cuts its log, by what it learned from its leader.

In: a follower's log and the leader's answer. Out: where to cut, and whether that is the last word. What is kept is what
both hold, as far as the protocol's generation can tell; the high watermark knows less about that than the epochs do,
which is what KIP-101 was for.

Source: Kafka AbstractFetcherThread#getOffsetTruncationState, Partition#lastOffsetForLeaderEpoch; KIP-101, KIP-279,
KIP-320, KIP-595.
"""

from dataclasses import dataclass

from tidegauge.sim_engine.log.replica_log import ReplicaLog

UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Cut the log to end at `offset`; if it is not `complete`, ask again from there."""

    offset: int
    complete: bool


def epoch_end(leader: ReplicaLog, leader_epoch: int, *, tells_epoch: bool) -> tuple[int, int]:
    """A leader's answer: the largest epoch it knows at or below the asked one, and where that ends.

    Before KIP-279 it answered with the end alone. (-1, -1) where it knows nothing.
    """
    found = leader.epoch_end_offset(leader_epoch)
    if found is None:
        return UNKNOWN, UNKNOWN
    return (found[0] if tells_epoch else UNKNOWN), found[1]


def cut_for(follower: ReplicaLog, *, epoch: int, end_offset: int) -> Cut:
    """Where a follower cuts after its leader's answer about the follower's newest epoch."""
    if end_offset == UNKNOWN:
        return Cut(offset=follower.high_watermark, complete=True)
    end = follower.log_end_offset
    if epoch == UNKNOWN:
        return Cut(offset=min(end_offset, end), complete=True)
    own = follower.epoch_end_offset(epoch)
    if own is None:
        return Cut(offset=min(end_offset, end), complete=True)
    if own[0] != epoch:
        return Cut(offset=min(own[1], end), complete=False)
    return Cut(offset=min(own[1], end_offset, end), complete=True)


def diverges(leader: ReplicaLog, *, fetch_offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
    """The epoch and end that a leader sends instead of records to a follower that is on another path."""
    if last_fetched_epoch == UNKNOWN:
        return None
    epoch, end = epoch_end(leader, last_fetched_epoch, tells_epoch=True)
    return (epoch, end) if epoch < last_fetched_epoch or end < fetch_offset else None
