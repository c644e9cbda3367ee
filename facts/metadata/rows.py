"""Rows about the metadata log: `metadata_logs`, `metadata_snapshots`, `metadata_entries`, `broker_registrations`.

In: each node's copy as its segments' summaries tell it, its quorum-state, and what the replay of the furthest copy
gave. Out: dictionaries column -> value, as `relations` names them. Of a copy that was not replayed only the batch
headers are used; whether it says the same as the others is for `divergences`.

Source: KafkaRaftClient, FileQuorumStateStore, LeaderState; KIP-595.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from tidegauge.facts.metadata.history import LogFiles, MetadataHistory, MetadataRecordPlace, record_place
from tidegauge.facts.metadata.image import PRINCIPAL_KINDS, Difference, Entry, Key, MetadataImage
from tidegauge.facts.metadata.snapshot_check import SnapshotVerdict, nodes_otherwise
from tidegauge.facts.metadata.transactions import TransactionMarks
from tidegauge.facts.rows import json_list, json_text
from tidegauge.kafka_log.control import LeaderChange
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.properties import QuorumState
from tidegauge.relations import BrokerRegistrationRow, MetadataEntryRow, MetadataLogRow, MetadataSnapshotRow
from tidegauge.relations.metadata import OfMetadataLog

_PLACE: Final[OfMetadataLog] = {"topic": CLUSTER_METADATA, "partition": 0}
_OWN_RELATIONS: Final = frozenset({"topic", "partition"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRun:
    """Batches of one leader epoch in a row."""

    leader_epoch: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLeader:
    """A leader of the quorum, by its first record."""

    offset: int
    leader_epoch: int
    change: LeaderChange


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLog:
    """A node's copy of the metadata log. `unannounced` are starts of epochs without a LeaderChange."""

    node_id: int
    runs: tuple[EpochRun, ...]
    unannounced: tuple[int, ...]
    damaged: bool
    quorum_state: QuorumState | None
    broker_quiet: bool
    segments: tuple[tuple[int, str], ...] = ()
    """Base offset and path of each of its files."""


def metadata_log_rows(
    nodes: Sequence[NodeLog],
    leaders: Iterable[QuorumLeader],
    transactions: TransactionMarks,
    *,
    replayed: int | None,
    snapshot_quiet: bool,
) -> list[MetadataLogRow]:
    """Rows of `metadata_logs`."""
    by_epoch = {leader.leader_epoch: leader.change for leader in leaders}
    return [
        {
            **_PLACE,
            "broker_id": node.node_id,
            "replayed": node.node_id == replayed,
            **_log(node),
            **_quorum(node, nodes, by_epoch),
            **(_transactions(transactions) if node.node_id == replayed else {}),
            "path": _path(node, transactions if node.node_id == replayed else None),
            "broker_quiet": node.broker_quiet,
            "snapshot_quiet": snapshot_quiet,
        }
        for node in nodes
    ]


def _log(node: NodeLog) -> MetadataLogRow:
    fallen = [after for before, after in pairwise(node.runs) if _falls(before, after)]
    first, last = (node.runs[0], node.runs[-1]) if node.runs else (None, None)
    return {
        "log_start_offset": first.start_offset if first is not None else None,
        "log_end_offset": last.end_offset if last is not None else None,
        "first_leader_epoch": first.leader_epoch if first is not None else None,
        "last_leader_epoch": last.leader_epoch if last is not None else None,
        "epoch_order_errors": len(fallen),
        "epoch_order_offset": fallen[0].start_offset if fallen else None,
        "unannounced_epochs": len(node.unannounced),
        "unannounced_offset": min(node.unannounced, default=None),
        "damaged": node.damaged,
    }


def _path(node: NodeLog, transactions: TransactionMarks | None) -> str | None:
    """The copy's file in which the first record stands that breaks a rule; where none does, its newest."""
    fallen = next((after.start_offset for before, after in pairwise(node.runs) if _falls(before, after)), None)
    broken = fallen if fallen is not None else min(node.unannounced, default=None)
    if broken is None and transactions is not None and transactions.first_error is not None:
        broken = transactions.first_error[0]
    if broken is None:
        return node.segments[-1][1] if node.segments else None
    return LogFiles(node_id=node.node_id, segments=node.segments).path_of(broken)


def _falls(before: EpochRun, after: EpochRun) -> bool:
    return after.leader_epoch < before.leader_epoch


def epochs_to_announce(node: NodeLog) -> list[EpochRun]:
    """Where epochs begin that must begin with a LeaderChange: all but the first of a log whose head is gone."""
    known: set[int] = set()
    found = []
    for at, run in enumerate(node.runs):
        if run.leader_epoch not in known and (at > 0 or run.start_offset == 0):
            found.append(run)
        known.add(run.leader_epoch)
    return found


def _quorum(node: NodeLog, nodes: Sequence[NodeLog], by_epoch: Mapping[int, LeaderChange]) -> MetadataLogRow:
    state = node.quorum_state
    epoch = state.leader_epoch if state is not None else None
    if state is None or epoch is None:
        return {"quorum_state_present": state is not None}
    change = by_epoch.get(epoch)
    others = Counter(
        other.quorum_state.leader_id
        for other in nodes
        if other is not node
        and other.quorum_state is not None
        and other.quorum_state.leader_epoch == epoch
        and other.quorum_state.leader_id is not None
    )
    elected = change.leader_id if change is not None else None
    if elected is None and others:
        elected = min(others, key=lambda leader: (-others[leader], leader))
    return {
        "quorum_state_present": True,
        "quorum_leader_epoch": epoch,
        "quorum_leader_id": state.leader_id,
        "voted_id": state.voted_id,
        "elected_leader_id": elected,
        "vote_granted": node.node_id in change.granting_voters if change is not None else None,
    }


def _transactions(marks: TransactionMarks) -> MetadataLogRow:
    offset, what = marks.first_error or (None, None)
    return {
        "transactions": marks.count,
        "transaction_errors": marks.errors,
        "transaction_error_offset": offset,
        "transaction_error": what,
        "open_transaction_offset": marks.open_offset,
    }


def metadata_snapshot_rows(verdicts: Iterable[SnapshotVerdict]) -> list[MetadataSnapshotRow]:
    """Rows of `metadata_snapshots`."""
    return [
        {
            **_PLACE,
            "broker_id": v.file.node_id,
            "path": v.file.path,
            "end_offset": v.file.end_offset,
            "leader_epoch": v.file.leader_epoch,
            "newest": v.file.newest,
            "whole": v.whole,
            "entries": v.entries,
            "comparable": v.reason is None,
            "incomparable_reason": v.reason,
            "differing_entries": len(v.found) if v.reason is None else None,
            "differing_epochs": sum(map(_only_epochs, v.found)) if v.reason is None else None,
            "differing_principals": sum(1 for d in v.found if d.kind in PRINCIPAL_KINDS) if v.reason is None else None,
            "differences": json_list(_told(d) for d in v.found) if v.reason is None else None,
            "after_damage": v.after_damage,
        }
        for v in sorted(verdicts, key=lambda v: (v.file.node_id, v.file.end_offset))
    ]


def _only_epochs(difference: Difference) -> bool:
    """Whether a partition is told with other epochs, and otherwise the same."""
    ours, theirs = _value(difference.ours), _value(difference.theirs)
    if difference.kind != "partition" or ours is None or theirs is None:
        return False
    return all(ours[name] == theirs[name] for name in ours if name not in ("leader_epoch", "partition_epoch"))


def _told(difference: Difference) -> Mapping[str, object]:
    ours, theirs = _value(difference.ours), _value(difference.theirs)
    if ours is not None and theirs is not None:
        parts = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
        ours = {name: value for name, value in ours.items() if name in parts}
        theirs = {name: value for name, value in theirs.items() if name in parts}
    said = [json_text(v) if v is not None else "no such entry" for v in (ours, theirs)]
    return {
        "kind": difference.kind,
        "name": difference.name,
        "log": ours,
        "snapshot": theirs,
        "detail": f"{difference.name}: the log says {said[0]}, the snapshot {said[1]}",
    }


def _value(entry: Entry | None) -> Mapping[str, Any] | None:
    return entry.value if entry is not None else None


def metadata_entry_rows(
    history: MetadataHistory, image: MetadataImage, verdicts: Iterable[SnapshotVerdict]
) -> list[MetadataEntryRow]:
    """Rows of `metadata_entries`: what has no relation of its own, and what nodes have otherwise."""
    verdicts = tuple(verdicts)
    otherwise = nodes_otherwise(verdicts, image)
    newest = {v.file.node_id: v.file.path for v in verdicts if v.file.newest}
    keys: set[Key] = {key for key in image.entries if key[0] not in _OWN_RELATIONS} | otherwise.keys()
    rows: list[MetadataEntryRow] = []
    for kind, name in sorted(keys):
        entry = image.entries.get((kind, name))
        rows.append(
            {
                **_PLACE,
                "kind": kind,
                "name": name,
                "value": json_text(entry.value) if entry is not None else None,
                "metadata_offset": entry.metadata_offset if entry is not None else None,
                "at_ms": entry.at_ms if entry is not None else None,
                "nodes_otherwise": sorted(otherwise.get((kind, name), ())),
                "after_damage": bool(history.damaged_offsets),
                **_entry_place(history, entry),
                "paths_otherwise": [newest[node] for node in sorted(otherwise.get((kind, name), ()))],
            }
        )
    return rows


def _entry_place(history: MetadataHistory, entry: Entry | None) -> MetadataRecordPlace:
    offset = entry.metadata_offset if entry is not None else None
    # What stands in a metadata snapshot has no instant.
    return record_place(history.files, offset, from_snapshot=entry is not None and entry.at_ms is None)


def broker_registration_rows(history: MetadataHistory) -> list[BrokerRegistrationRow]:
    """Rows of `broker_registrations`."""
    return [
        {
            **_PLACE,
            "broker_id": one.broker_id,
            "metadata_offset": one.metadata_offset,
            "batch_offset": one.batch_offset,
            "from_snapshot": one.from_snapshot,
            "at_ms": one.at_ms,
            "broker_epoch": one.broker_epoch,
            "previous_broker_epoch": one.previous_broker_epoch,
            "same_incarnation": one.incarnation_id == one.previous_incarnation_id,
            "metadata_version": one.metadata_version,
            "release": ".".join(map(str, one.release)) if one.release is not None else None,
            "stale_records": one.stale_records,
            "stale_record_offset": one.first_stale_offset,
            "after_damage": one.after_damage,
            **record_place(history.files, one.metadata_offset, from_snapshot=one.from_snapshot),
        }
        for _, of_broker in sorted(history.registrations.items())
        for one in of_broker
    ]
