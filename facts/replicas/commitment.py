"""Commitment: how much of what a follower holds beyond the reference was committed, and what keeps the rest open.

In: a divergence, the partition's replicas and context. Out: a `Commitment`. Committed is what is proven to have been,
lost tails of a clean election are what is proven not to have been, and everything between is open, with the evidence
that would decide it.

What proves a record committed:

    checkpoint   it lies below a checkpointed high watermark of a replica that holds it: none is written above what was
                 committed in its lineage
    sole_isr     its leader was the only member of the ISR, knew it, and min.insync.replicas allowed that: each append
                 was committed at once (Partition#maybeIncrementLeaderHW has no one to wait for). That it knew it is
                 what its own copy of the metadata log tells: a leader that the controller cannot reach goes on under
                 its old ISR, and its high watermark waits for members that will never fetch again
                 (Partition#maximalIsr)
    read         a consumer group had read up to there under its leader epoch: nobody reads above the high watermark

What proves it uncommitted: every election since is on record and was clean; or the leader's last view of the ISR has a
member whose log ends before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegauge.facts.context import OwnView, PartitionContext
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.replicas.comparison import records_between
from tidegauge.facts.replicas.divergence import Divergence
from tidegauge.facts.replicas.epochs import truncation
from tidegauge.facts.replicas.readers import read_to
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.succession import Succession, succession
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """Of a follower's records from `stake_offset` on: those below `proven_end_offset` were committed, those from there
    up to `open_end_offset` (never below it) may have been, those beyond were not. `lacks`: the evidence that would
    decide what is open.
    """

    proven_end_offset: int
    open_end_offset: int
    records: int
    possible_records: int
    by: str | None
    lacks: str | None
    unclean: PartitionChange | None
    elections_on_record: bool

    @property
    def open(self) -> bool:
        """Some of it may have been committed, and nothing tells."""
        return self.possible_records > 0


def commitment(context: PartitionContext, divergence: Divergence, live: Sequence[ReplicaFacts]) -> Commitment:
    """How much of what would be cut off was committed."""
    leader_epoch, stake, end = (
        divergence.truncated_leader_epoch,
        divergence.stake_offset,
        divergence.follower.log_end_offset,
    )
    if divergence.records_at_stake == 0 or leader_epoch is None or context.topic == CLUSTER_METADATA:
        return _told(divergence, stake, stake, None, None, Succession(changes=(), on_record=False))
    since = succession(context, after_epoch=leader_epoch, until_epoch=_newest_epoch(context, divergence.leader))
    # Within one leader epoch only copies of one moment compare: a leader copied earlier looks shorter than its
    # follower. Of two that hold other records, neither will ever become the other.
    ordered = divergence.newer_epoch is not None or context.cluster.snapshot_quiet or divergence.parted_without_epochs
    proven, by = _checkpointed(divergence, live) if ordered else (stake, None)
    lone_end = _lone_leaders_end(context, divergence, leader_epoch, since, live)
    if lone_end is not None and lone_end >= proven:
        proven, by = lone_end, "sole_isr"
    read_end = _read_end(context, divergence) if ordered else proven
    if read_end > proven:
        proven, by = read_end, "read"
    bound = _uncommitted_from(context, divergence, leader_epoch, live)
    open_end = end
    if not ordered or not _of_this_cluster(context):
        open_end = proven
    elif bound is not None and bound >= proven:
        open_end = bound
    elif proven == stake and _settled(divergence, since):
        open_end = proven
    lacks = _lacks(context, divergence, leader_epoch, since, live) if open_end > proven else None
    return _told(divergence, proven, open_end, by, lacks, since)


def _settled(divergence: Divergence, since: Succession) -> bool:
    """Leadership passed on cleanly, so who leads has all that was committed; or the reference, which knows no newer
    epoch, stopped cleanly, so that its log is whole.
    """
    if divergence.newer_epoch is None and not since.changes and divergence.leader.moment.clean_shutdown:
        return True
    return since.on_record and since.unclean is None and bool(since.changes)


def _told(
    divergence: Divergence, proven: int, open_end: int, by: str | None, lacks: str | None, since: Succession
) -> Commitment:
    stake = divergence.stake_offset
    committed = records_between(divergence.suffix, stake, proven) if proven > stake else 0
    possible = records_between(divergence.suffix, proven, open_end) if open_end > proven else 0
    return Commitment(
        proven_end_offset=proven,
        open_end_offset=open_end,
        records=committed,
        possible_records=possible,
        by=by if committed else None,
        lacks=lacks,
        unclean=since.unclean,
        elections_on_record=since.on_record,
    )


def shared_end(one: ReplicaFacts, other: ReplicaFacts) -> int:
    """Up to where two replicas hold one log, by their leader epochs: where the one would be cut to follow the other.

    Who has the newer epoch is asked: of an epoch that it has not reached a log knows no end (LeaderEpochFileCache).
    """
    if one is other:
        return one.log_end_offset
    older, newer = sorted((one, other), key=lambda f: -1 if f.vector.latest_epoch is None else f.vector.latest_epoch)
    cut = truncation(
        leader=newer.vector, follower=older.vector, follower_high_watermark=older.checkpointed.high_watermark
    )
    return min(int(cut.offset), newer.log_end_offset)


def _newest_epoch(context: PartitionContext, reference: ReplicaFacts) -> int | None:
    """The newest leader epoch that the reference has begun or is elected for."""
    elected = context.assignment.leader_epoch if context.assignment.leader_id == reference.broker_id else None
    return max((e for e in (reference.vector.latest_epoch, elected) if e is not None), default=None)


def _of_this_cluster(context: PartitionContext) -> bool:
    """A partition that the metadata log does not have is a stray, and nobody's records are at stake in it."""
    return context.assignment.known or not context.metadata.captured


def _checkpointed(divergence: Divergence, live: Sequence[ReplicaFacts]) -> tuple[int, str | None]:
    """Up to where checkpointed high watermarks prove the follower's records: its own, and steady ones of its kin."""
    follower, proven = divergence.follower, divergence.stake_offset
    for replica in live:
        mark = replica.checkpointed.high_watermark
        steady = replica.moment.broker_quiet or bool(replica.moment.checkpoint_older_than_log)
        if mark is None or mark <= proven or not (replica is follower or steady):
            continue
        proven = max(proven, min(mark, follower.log_end_offset, shared_end(follower, replica)))
    return proven, "checkpoint" if proven > divergence.stake_offset else None


def _read_end(context: PartitionContext, divergence: Divergence) -> int:
    """Up to where groups had read what the follower holds, by the leader epochs that their commits name (KIP-320)."""
    vector, end = divergence.follower.vector, divergence.stake_offset
    for leader_epoch, offset in read_to(context).items():
        until = min(offset, divergence.follower.log_end_offset)
        if until > end and vector.epoch_at(until - 1) == leader_epoch:
            end = until
    return end


def _led(context: PartitionContext, leader_epoch: int) -> tuple[int | None, OwnView | None]:
    """Who led a leader epoch, and what it knew while it believed that it leads."""
    leader = context.history.epoch_leaders.get(leader_epoch)
    view = context.history.own_views.get(leader) if leader is not None else None
    if view is None or view.leader_id != leader or view.leader_epoch != leader_epoch:
        return leader, None
    return leader, view


def _asked(context: PartitionContext, view: OwnView | None, leader_epoch: int) -> int | None:
    """min.insync.replicas while an epoch was led; what its leader's own copy said where no history reaches back."""
    known = context.min_insync_replicas_in(leader_epoch)
    return known if known is not None or view is None else view.min_insync_replicas


def _lone_leaders_end(
    context: PartitionContext,
    divergence: Divergence,
    leader_epoch: int,
    since: Succession,
    live: Sequence[ReplicaFacts],
) -> int | None:
    """Up to where the follower holds what a leader wrote that was all of the ISR and knew it."""
    leader, view = _led(context, leader_epoch)
    alone = view is not None and view.isr == (leader,)
    asked = _asked(context, view, leader_epoch)
    if not alone or asked is None or asked > 1:
        return None
    successor = since.changes[0] if since.changes and since.changes[0].leader_epoch == leader_epoch + 1 else None
    if successor is not None and successor.previous_isr != (leader,):
        return None
    log = next((f for f in live if f.broker_id == leader), None)
    return shared_end(divergence.follower, log) if log is not None else None


def _uncommitted_from(
    context: PartitionContext, divergence: Divergence, leader_epoch: int, live: Sequence[ReplicaFacts]
) -> int | None:
    """Where the log ends of an in-sync member, as the leader last knew the ISR: nothing beyond was ever committed.

    Told by members alone whose logs still end where they ended in that epoch.
    """
    leader, view = _led(context, leader_epoch)
    log = next((f for f in live if f.broker_id == leader), None)
    if view is None or log is None:
        return None
    # Whom the leader itself asked to take out it may have known to be out before its own copy had the record of it.
    asked = {
        broker
        for c in context.history.changes
        if c.leader_epoch == leader_epoch and c.metadata_offset > view.metadata_offset
        for broker in set(c.previous_isr) - set(c.isr) - set(c.removed_by_controller)
    }
    members = [
        f
        for f in live
        if f.broker_id in set(view.isr) - asked and f is not log and _kept_its_end(context, f, leader_epoch)
    ]
    ends = [shared_end(log, member) for member in members]
    return min((*ends, shared_end(divergence.follower, log))) if ends else None


def _kept_its_end(context: PartitionContext, replica: ReplicaFacts, leader_epoch: int) -> bool:
    """It has followed no newer epoch, which may have cut it; the leader of the next one is cut by nobody."""
    newer = next((e.leader_epoch for e in replica.vector.entries if e.leader_epoch > leader_epoch), None)
    return newer is None or context.history.epoch_leaders.get(newer) == replica.broker_id


def _lacks(
    context: PartitionContext,
    divergence: Divergence,
    leader_epoch: int,
    since: Succession,
    live: Sequence[ReplicaFacts],
) -> str:
    """Which evidence would decide what is open: the first that is missing."""
    leader, view = _led(context, leader_epoch)
    if not context.assignment.known:
        return "metadata_log"
    if not since.on_record or leader is None:
        return "metadata_log_start"
    if all(f.broker_id != leader for f in live):
        return "broker"
    if leader not in context.history.own_views:
        return "metadata_log"
    if view is not None and view.isr == (leader,) and _asked(context, view, leader_epoch) is None:
        return "settings"
    return "checkpoint" if divergence.follower.checkpointed.high_watermark is None else "ledger"
