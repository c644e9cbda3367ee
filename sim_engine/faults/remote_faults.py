"""What goes wrong in the remote tier.

In: actions of `disk_actions`. Out: a store that lacks an object, a deletion that nobody should have begun, notes in the
ledger. A store that loses an object tells nobody, and only a look into it shows; a deletion is told in the metadata
topic, as every one is.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.brokers import remote_log_manager
from tidegauge.sim_engine.brokers.remote_metadata_topic import view_of
from tidegauge.sim_engine.disks.disk_actions import DeleteRemoteSegment, LoseRemoteObject
from tidegauge.sim_engine.disks.disk_faults import FaultKind
from tidegauge.sim_engine.log.tiering import wrong_remote_deletion
from tidegauge.sim_engine.truth import Fault
from tidegauge.sim_engine.turn import Turn

_STORE: Final = "remote store"


def lose(turn: Turn, action: LoseRemoteObject) -> None:
    """Objects are gone; nothing happens if none holds the offset."""
    gone = [
        o.about
        for o in turn.remote.objects.values()
        if o.about.partition == action.partition and o.about.start_offset <= action.offset < o.about.end_offset
    ]
    for about in gone:
        turn.remote = turn.remote.without(about.segment_id)
        detail = f"[{about.start_offset}, {about.end_offset}): object {about.segment_id} is gone"
        _note(turn, FaultKind.LOST_REMOTE_SEGMENT, action.partition, detail, on_disk=True)
    ledger.tier_checked(turn, action.partition, FaultKind.LOST_REMOTE_SEGMENT.value)


def delete(turn: Turn, action: DeleteRemoteSegment) -> None:
    """The leader deletes what it should keep; nothing happens if the tier holds nothing alone, or nobody leads."""
    leader = turn.truth.lineage(action.partition).leader
    running = turn.running(leader) if leader >= 0 else None
    if running is None or turn.leadership(leader, action.partition) is None:
        return
    log = turn.log(leader, action.partition)
    view = view_of(turn, leader, action.partition)
    made = wrong_remote_deletion(log, view, action.partition, broker_id=leader, now_ms=turn.now_ms)
    if made is None or action.partition in running.remote.tasks:
        return
    about = made[0]
    detail = f"[{about.start_offset}, {about.end_offset}): segment {about.segment_id}"
    _note(turn, FaultKind.WRONG_REMOTE_DELETION, action.partition, detail, on_disk=True)
    remote_log_manager.delete_segments(turn, leader, action.partition, (view.segments[about.segment_id],))


def _note(turn: Turn, kind: FaultKind, partition: TopicPartition, detail: str, *, on_disk: bool) -> None:
    fault = Fault(at_ms=turn.now_ms, kind=kind.value, where=_STORE, detail=detail, partition=partition, on_disk=on_disk)
    turn.truth = replace(turn.truth, faults=turn.truth.faults.appended(fault))


ACTIONS: Final[dict[type, Callable[[Turn, Any], None]]] = {LoseRemoteObject: lose, DeleteRemoteSegment: delete}
