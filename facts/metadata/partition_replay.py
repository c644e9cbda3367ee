"""Partitions in the metadata log: what a record makes of a partition, and how a leader came to be.

In: partition records, in offset order. Out: `PartitionState`s in a `MetadataHistory`, each with its changes. A change
record carries only what it changes (PartitionRegistration#merge): leader -2 is "as before", a new leader raises the
leader epoch by one, every change raises the partition epoch by one.

Source: PartitionRegistration, PartitionChangeBuilder, TopicDelta; KIP-841, KIP-966.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tidegauge.facts.metadata.history import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    LoggedRecord,
    MetadataHistory,
    PartitionState,
    TopicState,
    effective_topic_config,
)
from tidegauge.facts.metadata.partition_change import PartitionChange

_NO_CHANGE: Final = -2
_RECOVERING: Final = 1
_NO_CONFIGS: Final[Mapping[str, str]] = {}

Fields = Mapping[str, Any]


def _leader(value: int) -> int | None:
    return value if value >= 0 else None


def apply_partition(
    history: MetadataHistory, logged: LoggedRecord, fields: Fields, *, from_snapshot: bool
) -> PartitionState | None:
    """A PartitionRecord; None where its topic's record was lost to damage, and there is nothing to hang it on."""
    topic = history.topics.get(fields["topic_id"])
    if topic is None:
        return None
    leader = _leader(fields["leader"])
    last_known = tuple(fields["last_known_elr"] or ())
    state = PartitionState(
        leader_id=leader,
        last_leader_id=leader if leader is not None else (last_known[0] if last_known else None),
        leader_epoch=fields["leader_epoch"],
        partition_epoch=fields["partition_epoch"],
        replicas=tuple(fields["replicas"]),
        isr=tuple(fields["isr"]),
        elr=tuple(fields["eligible_leader_replicas"] or ()),
        last_known_elr=last_known,
        adding_replicas=tuple(fields["adding_replicas"]),
        removing_replicas=tuple(fields["removing_replicas"]),
        recovering=fields["leader_recovery_state"] == _RECOVERING,
        directories=tuple(fields["directories"]),
    )
    before = topic.partitions.get(fields["partition_id"])
    if before is not None:
        state.changes, state.epoch_leaders = before.changes, before.epoch_leaders
    topic.partitions[fields["partition_id"]] = state
    if leader is not None:
        state.epoch_leaders[state.leader_epoch] = leader
    state.changes.append(
        _change(history, topic, state, logged, stated_before=before, stated=True, from_snapshot=from_snapshot)
    )
    return state


def apply_partition_change(history: MetadataHistory, logged: LoggedRecord, fields: Fields) -> PartitionState | None:
    """A PartitionChangeRecord; None where the record of its partition was lost to damage."""
    topic = history.topics.get(fields["topic_id"])
    state = topic.partitions.get(fields["partition_id"]) if topic is not None else None
    if topic is None or state is None:
        return None
    before = replace(state, changes=[], epoch_leaders={})
    for name, key in (
        ("isr", "isr"),
        ("replicas", "replicas"),
        ("adding_replicas", "adding_replicas"),
        ("removing_replicas", "removing_replicas"),
        ("elr", "eligible_leader_replicas"),
        ("last_known_elr", "last_known_elr"),
        ("directories", "directories"),
    ):
        if fields[key] is not None:
            setattr(state, name, tuple(fields[key]))
    if fields["leader_recovery_state"] >= 0:
        state.recovering = fields["leader_recovery_state"] == _RECOVERING
    state.partition_epoch += 1
    election = "none"
    if fields["leader"] != _NO_CHANGE:
        state.leader_epoch += 1
        state.leader_id = _leader(fields["leader"])
        if state.leader_id is not None:
            allowed = effective_topic_config(history, topic.name, "unclean.leader.election.enable").value == "true"
            election = _election(
                before, state, state.leader_id, fields["leader_recovery_state"], unclean_allowed=allowed
            )
            state.last_leader_id = state.leader_id
            state.epoch_leaders[state.leader_epoch] = state.leader_id
    state.changes.append(_change(history, topic, state, logged, before=before, election=election))
    return state


def apply_clear_elr(history: MetadataHistory, logged: LoggedRecord, topic_name: str) -> None:
    """An empty name is every topic. A change like any other where there was something to clear (TopicDelta#replay)."""
    for topic in history.topics.values():
        if topic.deleted or topic_name not in ("", topic.name):
            continue
        for state in topic.partitions.values():
            if state.elr or state.last_known_elr:
                before = replace(state, changes=[], epoch_leaders={})
                state.elr = state.last_known_elr = ()
                state.partition_epoch += 1
                state.changes.append(_change(history, topic, state, logged, before=before))


def _election(
    before: PartitionState, after: PartitionState, leader: int, recovery_state: int, *, unclean_allowed: bool
) -> str:
    """How a leader came to be (PartitionChangeBuilder#electAnyLeader, #completeReassignmentIfNeeded, KIP-966)."""
    if leader == before.leader_id:
        return "none"  # Its epoch was raised (an ISR member left, a move ended), nobody was elected.
    # The record that makes it leader is also the one that takes a member out of the ELR that came back uncleanly.
    elr_emptied = not before.elr or (not after.elr and not unclean_allowed)
    if not before.isr and elr_emptied and before.last_known_elr == (leader,):
        # After unclean shutdowns of all, who led last leads again (#canElectLastKnownLeader). Kafka marks it as
        # recovering, for its disk may have lost what was not flushed; the election itself gives no record up.
        return "last_known"
    if recovery_state == _RECOVERING:
        return "unclean"
    if leader in before.isr:
        return "clean"
    if leader in before.elr:
        return "elr"
    if _ends_move(before, after) and leader in after.isr and not after.recovering:
        # The old leader asked for it to join the ISR, and the same record gave it the lead: the ISR that it was elected
        # from was never written down.
        return "clean"
    return "unclean"


def _ends_move(before: PartitionState, after: PartitionState) -> bool:
    """Whether a change ended a reassignment."""
    was_moving = bool(before.adding_replicas or before.removing_replicas)
    return was_moving and not after.adding_replicas and not after.removing_replicas


def _change(
    history: MetadataHistory,
    topic: TopicState,
    state: PartitionState,
    logged: LoggedRecord,
    *,
    before: PartitionState | None = None,
    stated_before: PartitionState | None = None,
    stated: bool = False,
    from_snapshot: bool = False,
    election: str = "none",
) -> PartitionChange:
    """A change of `before`, or all anew (`stated`): that tells of no one that was elected or left."""
    epochs = before if before is not None else stated_before
    return PartitionChange(
        metadata_offset=logged.offset,
        sequence_in_log=len(state.changes),
        from_snapshot=from_snapshot,
        at_ms=logged.timestamp_ms,
        leader_id=state.leader_id,
        previous_leader_id=before.leader_id if before is not None else None,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        replicas=state.replicas,
        isr=state.isr,
        previous_isr=before.isr if before is not None else (),
        elr=state.elr,
        previous_elr=before.elr if before is not None else (),
        last_known_elr=state.last_known_elr,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
        recovering=state.recovering,
        election=election,
        created=stated and stated_before is None and not from_snapshot,
        restated=stated_before is not None,
        previous_leader_epoch=epochs.leader_epoch if epochs is not None else None,
        previous_partition_epoch=epochs.partition_epoch if epochs is not None else None,
        previous_recovering=before.recovering if before is not None else None,
        directories=state.directories,
        min_insync_replicas=_min_insync_replicas(history, topic.name),
        removed_by_controller=tuple(
            b
            for b in (before.isr if before is not None else ())
            if b not in state.isr and b in history.brokers_in_force
        ),
        after_damage=bool(history.damaged_offsets),
        migrated=history.migrated_from_zookeeper,
    )


def tell_min_insync_replicas(history: MetadataHistory) -> None:
    """In a metadata snapshot the settings come after the partitions: what was in force is told once all is read."""
    for topic in history.topics.values():
        min_isr = _min_insync_replicas(history, topic.name)
        for state in topic.partitions.values() if min_isr is not None else ():
            state.changes[:] = [replace(change, min_insync_replicas=min_isr) for change in state.changes]


def _min_insync_replicas(history: MetadataHistory, topic: str) -> int | None:
    """As the log has it; the default is in the controllers' properties files, which no log dir holds."""
    for resource in ((TOPIC_RESOURCE, topic), (BROKER_RESOURCE, "")):
        value = history.configs.get(resource, _NO_CONFIGS).get("min.insync.replicas")
        if value is not None:
            return int(value) if value.isdigit() else None
    return None
