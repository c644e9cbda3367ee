"""Members of ISR and ELR against what is known to be committed: rows of `isr_members`.

In: a partition's replicas. Out: a row for each member that the metadata log names, its log in the copy or not. What any
replica of the member's own lineage knows to be committed is what it must hold; the reference is a member like any
other, and a member without a log holds nothing.
"""

from dataclasses import dataclass, replace
from typing import Final

from tidegauge.facts.replicas.epochs import truncation
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.facts.replicas.succession import elections_known
from tidegauge.facts.rows import known
from tidegauge.relations import IsrMemberRow

_ENDLESS: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A high watermark that counts for a member, and whose checkpoint it is."""

    high_watermark: int
    broker_id: int


def isr_member_rows(present: ReplicaSet) -> list[IsrMemberRow]:
    """Rows of `isr_members`; none where neither the metadata log nor an answer tells who is in sync."""
    context = present.context
    if context.assignment.topic_deleted:
        return []
    reference = present.reference
    live = {f.broker_id: f for f in present.live}
    unread = {f.broker_id for f in present.facts if not f.end_known and not f.given.place.is_future}
    differing = {d.follower.broker_id: d.difference.offset for d in present.divergences}
    rows: list[IsrMemberRow] = []
    for broker in sorted({*context.assignment.isr, *context.assignment.elr}):
        log = live.get(broker)
        committed = _committed_for(present, log)
        rows.append(
            {
                "topic": context.topic,
                "partition": context.partition,
                "leader_id": reference.broker_id if reference is not None else None,
                "follower_id": broker,
                "in_isr": broker in context.assignment.isr,
                "in_elr": broker in context.assignment.elr,
                "captured": broker in context.cluster.captured_brokers,
                "log_dir_missing": broker in context.cluster.brokers_without_log_dir,
                "present": log is not None or broker in unread,
                "follower_log_start_offset": log.log_start_offset if log is not None else None,
                "follower_log_end_offset": log.log_end_offset if log is not None else None,
                "follower_last_leader_epoch": known(log.summary.last_leader_epoch) if log is not None else None,
                "known_high_watermark": committed.high_watermark if committed is not None else None,
                "known_high_watermark_broker": committed.broker_id if committed is not None else None,
                "leader_log_end_offset": reference.log_end_offset if reference is not None else None,
                "leader_high_watermark": reference.checkpointed.high_watermark if reference is not None else None,
                "log_start_offset": reference.log_start_offset if reference is not None else None,
                "first_differing_offset": differing.get(broker),
                "follower_clean_shutdown": log.moment.clean_shutdown if log is not None else None,
                "follower_alive": broker in context.cluster.alive_brokers,
                "elections_on_record": elections_known(
                    context, since_epoch=known(log.summary.last_leader_epoch) if log is not None else None
                ),
                "broker_quiet": log.moment.broker_quiet if log is not None else context.cluster.snapshot_quiet,
                "snapshot_quiet": context.cluster.snapshot_quiet,
            }
        )
    return rows


def _committed_for(present: ReplicaSet, member: ReplicaFacts | None) -> _Known | None:
    """The largest checkpointed high watermark, each as far as the member's leader epochs go along with that replica's.

    What the reference declared counts for the others to the end, even behind what is left of its log. That a replica's
    own checkpoint lies behind its own end is HighWatermarkWithinLog's matter.
    """
    found: list[tuple[int, bool, int]] = []
    for replica in present.live:
        mark = replica.checkpointed.high_watermark
        if mark is None:
            continue
        is_reference = replica is present.reference
        if replica is member:
            mark = min(mark, replica.log_end_offset)
        elif member is not None and not is_reference:
            mark = min(mark, _goes_along(replica, member))
        elif member is None and not is_reference:
            mark = min(mark, present.shared_end_of(replica))
        found.append((mark, is_reference, replica.broker_id))
    if not found:
        return None
    mark, _, broker = max(found)
    return _Known(high_watermark=mark, broker_id=broker)


def _goes_along(replica: ReplicaFacts, member: ReplicaFacts) -> int:
    """Up to where a replica's log is one that the member's could still become: until a newer epoch of the member."""
    grown = replace(member.vector, log_end_offset=_ENDLESS)
    return int(truncation(leader=grown, follower=replica.vector, follower_high_watermark=None).offset)
