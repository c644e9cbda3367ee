"""Who led after whom: the elections between two leader epochs, and whether all of them are on record.

In: a partition's changes by the metadata log. Out: `Succession`. An election that is not on record is not taken for a
clean one. A record with a leader raises the leader epoch by one (PartitionRegistration#merge), so an epoch without a
record is an election that nobody can tell of. And a replica of a lineage that was given up does not tell what the new
one holds.
"""

from dataclasses import dataclass
from typing import Final

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.replicas.replica import ReplicaFacts

GIVES_RECORDS_UP: Final = frozenset({"unclean", "last_known"})
"""Elections of a replica that need not hold what was committed: from outside of ISR and ELR, or the last known leader
after its own unclean stop, which the controller marks as recovering (PartitionChangeBuilder#electAnyLeader)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """The changes that began leader epochs behind one, in order; `on_record`: none of them is missing."""

    changes: tuple[PartitionChange, ...]
    on_record: bool

    @property
    def unclean(self) -> PartitionChange | None:
        """The first election that may have given up what was committed."""
        return next((c for c in self.changes if c.election in GIVES_RECORDS_UP), None)


def succession(context: PartitionContext, *, after_epoch: int, until_epoch: int | None) -> Succession:
    """The elections of the epochs in (after, until]; None: up to the newest that the metadata log has."""
    newest = context.assignment.leader_epoch if until_epoch is None else until_epoch
    found: dict[int, PartitionChange] = {}
    for change in context.history.changes:
        before = change.previous_leader_epoch
        began = change.created or (not change.restated and before is not None and before < change.leader_epoch)
        if began and change.leader_epoch > after_epoch:
            found.setdefault(change.leader_epoch, change)
    until = newest if newest is not None else after_epoch
    told = tuple(found[epoch] for epoch in sorted(found) if epoch <= until)
    on_record = newest is not None and all(epoch in found for epoch in range(after_epoch + 1, until + 1))
    return Succession(changes=told, on_record=on_record and context.assignment.known)


def elections_known(context: PartitionContext, *, since_epoch: int | None) -> bool:
    """Every election from a leader epoch on is on record; None: from the first one on."""
    return succession(context, after_epoch=(since_epoch or 0) - 1, until_epoch=None).on_record


def tells_what_was_elected(context: PartitionContext, reference: ReplicaFacts | None, change: PartitionChange) -> bool:
    """Whether the reference's log shows what who was elected lacked: it is that one's, or of its lineage."""
    if reference is None:
        return False
    epoch = reference.vector.latest_epoch
    of_its_lineage = epoch is not None and epoch >= change.leader_epoch
    return of_its_lineage or reference.broker_id == change.leader_id or _vouched_for(context, reference)


def lineage_captured(context: PartitionContext, reference: ReplicaFacts | None) -> bool | None:
    """Whether the reference's log is the one that the cluster has now, as far as it reaches; None: nothing tells.

    It is not where an election since its last leader epoch may have given up what it has, and nobody's log who was
    elected then is in the copy.
    """
    if reference is None:
        return None
    if _vouched_for(context, reference):
        return True
    if not context.assignment.known:
        return None
    epoch = reference.vector.latest_epoch
    since = succession(context, after_epoch=-1 if epoch is None else epoch, until_epoch=None)
    return since.on_record and since.unclean is None


def of_an_earlier_moment(context: PartitionContext, replica: ReplicaFacts) -> bool:
    """Whether a replica's copy is older than the last epoch that its broker led: neither its log nor its own copy of
    the metadata log knows of that epoch. What it lacks is no proof that its broker has not got it.

    A leader writes where its epoch begins as it takes over (UnifiedLog#assignEpochStartOffset), and takes over when its
    own copy of the metadata log tells it to. One that died before that looks the same.
    """
    view, newest = context.history.own_views.get(replica.broker_id), replica.vector.latest_epoch
    if view is None:
        return False
    known = max(view.leader_epoch, -1 if newest is None else newest)
    return any(leader == replica.broker_id and epoch > known for epoch, leader in context.history.epoch_leaders.items())


def _vouched_for(context: PartitionContext, reference: ReplicaFacts) -> bool:
    """It leads, or led last, or is in sync with who leads."""
    assignment = context.assignment
    leader = assignment.leader_id if assignment.leader_id is not None else assignment.last_leader_id
    return reference.broker_id == leader or reference.broker_id in assignment.isr
