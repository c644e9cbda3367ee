"""Rows of `brokers`: what a broker's registration, its log dirs' properties and its replicas say.

In: a snapshot's nodes, their log dirs, the metadata history. Out: a row for each broker that was captured or is
registered, and for each other node one of whose meta.properties is wrong, so that somebody says it. A broker that was
not captured has a row without a word about its disks; a controller that is no broker has none.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegauge.derivation.files.checkpoint_files import Checkpoints
from tidegauge.derivation.metadata.captured_nodes import CapturedNodes, own_log_dirs
from tidegauge.facts.metadata.absences import directory_of
from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.facts.metadata.placement import HeldReplicas, placement
from tidegauge.kafka_log.properties import MetaProperties
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import BrokerRow
from tidegauge.snapshots.listing import SnapshotListing
from tidegauge.snapshots.manifest import BrokerCapture, ForeignLogDir


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFiles:
    """What the rows are made of. `checkpoints`: node -> of each of its log dirs."""

    nodes: CapturedNodes
    files: SnapshotListing
    foreign: Sequence[ForeignLogDir]
    """Log dirs that lie in the snapshot and are no evidence of its cluster."""
    cluster_id: str | None
    """The cluster's, as most nodes have it; None where that is not decided."""
    checkpoints: Mapping[int, Sequence[Checkpoints]]
    seen_until_ms: Mapping[int, int]
    """Broker -> the newest record in its own copy of the metadata log."""
    metadata_ends_early: bool
    """Some replica is ahead of it, so that a broker may have registered anew since."""


def broker_rows(given: BrokerFiles, history: MetadataHistory) -> list[BrokerRow]:
    """A row for each broker, the captured ones first."""
    nodes = given.nodes
    shared = Counter(d for b in (*nodes.brokers, *nodes.controllers) for d in _directory_ids(b))
    rows: list[BrokerRow] = [
        {
            **_captured(broker, given, history),
            **_identity(broker.broker_id, broker, given, history, shared),
            **_placed(broker, given, history),
        }
        for broker in nodes.brokers
    ]
    own = {b.broker_id for b in nodes.brokers}
    others: dict[int, BrokerCapture | None] = {f.broker_id: None for f in given.foreign if f.broker_id not in own}
    others |= {c.broker_id: c for c in nodes.controllers}
    said = {i: _identity(i, captured, given, history, shared) for i, captured in others.items()}
    wrong = {i: row for i, row in said.items() if row["wrong_properties"]}
    absent = sorted((history.brokers.keys() | wrong.keys()) - own)
    for broker_id in absent:
        rows.append({**_registration(broker_id, history), "captured": False, **wrong.get(broker_id, {})})
    return rows


def _captured(broker: BrokerCapture, given: BrokerFiles, history: MetadataHistory) -> BrokerRow:
    state = history.brokers.get(broker.broker_id)
    log_dirs = own_log_dirs(given.files, broker.broker_id)
    live = [r for d in given.files.of_broker(broker.broker_id) for r in d.replicas if r.state == "live"]
    checkpoints = given.checkpoints[broker.broker_id]
    return {
        **_registration(broker.broker_id, history),
        "rack": state.rack if state is not None else broker.rack,
        "cluster_id": next((c.meta.cluster_id for c in checkpoints if c.meta is not None and c.meta.cluster_id), None),
        "clean_shutdown_broker_epoch": next(
            (c.clean_shutdown_broker_epoch for c in checkpoints if c.clean_shutdown_broker_epoch is not None), None
        ),
        "directory_ids": _directory_ids(broker),
        "log_dirs": [d.name for d in broker.log_dirs],
        "clean_shutdown": bool(log_dirs) and all(d.clean_shutdown for d in log_dirs),
        "captured": True,
        "replica_count": len(live),
        "size_bytes": sum(s.log.log_size_bytes for r in live for s in r.segments),
        "read_started_at_ms": broker.read_started_at_ms,
        "read_finished_at_ms": broker.read_finished_at_ms,
    }


def _registration(broker_id: int, history: MetadataHistory) -> BrokerRow:
    state = history.brokers.get(broker_id)
    return {
        "broker_id": broker_id,
        "rack": state.rack if state is not None else None,
        "broker_epoch": state.broker_epoch if state is not None else None,
        "registered": state is not None,
        "fenced": state.fenced if state is not None else None,
        "alive": history.is_alive(broker_id),
    }


def _identity(
    broker_id: int,
    captured: BrokerCapture | None,
    given: BrokerFiles,
    history: MetadataHistory,
    shared: Mapping[str, int],
) -> BrokerRow:
    """What `meta.properties` says, beside the other nodes' and the registrations (MetaPropertiesEnsemble#verify)."""
    said = [c.meta for c in given.checkpoints.get(broker_id, ()) if c.meta is not None]
    foreign = [f for f in given.foreign if f.broker_id == broker_id]
    own = _directory_ids(captured) if captured is not None else []
    # What holds the metadata log alone is no log dir, and nobody registers it (BrokerServer: LogManager#directoryIds).
    metadata = {d.name for d in given.files.of_broker(broker_id) if d.only_metadata or d.unused}
    used = {d.directory_id for d in captured.log_dirs if d.name not in metadata} if captured is not None else set()
    registered = {b: set(state.directory_ids) for b, state in history.brokers.items()}
    elsewhere = {d for b, ids in registered.items() if b != broker_id for d in ids}
    here = registered.get(broker_id, set())
    known = here | elsewhere | _assigned(history, broker_id)
    return {
        "cluster_ids": sorted({i for i in (*(m.cluster_id for m in said), *(f.cluster_id for f in foreign)) if i}),
        "expected_cluster_id": given.cluster_id,
        "node_ids": sorted({i for i in (*(m.node_id for m in said), *(f.node_id for f in foreign)) if i is not None}),
        # Of a directory and a copy of it under another node's name, only the copy is wrong.
        "shared_directory_ids": sorted(
            {d for d in own if shared[d] > 1}
            | {d for f in foreign if (d := f.directory_id) is not None and d in shared}
        ),
        "foreign_directory_ids": sorted(set(own) & elsewhere),
        "unregistered_directory_ids": (
            sorted(d for d in used if d is not None and d not in known)
            if here and not history.damaged_offsets and not given.metadata_ends_early
            else None
        ),
        "uncaptured_directories": len(here - set(own)),
        "metadata_log_captured": history.captured,
        "wrong_properties": [*_wrong(broker_id, given), *(f"{f.path}: {f.reason}" for f in foreign)],
    }


def _wrong(broker_id: int, given: BrokerFiles) -> Iterator[str]:
    """Each file that says something else than the snapshot, and what; or that cannot be made out."""
    for checkpoints in given.checkpoints.get(broker_id, ()):
        said = checkpoints.meta
        if said is None:
            continue
        if given.cluster_id is not None and said.cluster_id not in (None, given.cluster_id):
            yield f"{checkpoints.meta_path}: cluster.id={said.cluster_id}"
        if said.node_id not in (None, broker_id):
            yield f"{checkpoints.meta_path}: node.id={said.node_id}"
        if problem := _unreadable(said):
            yield f"{checkpoints.meta_path}: {problem}"


def _unreadable(said: MetaProperties) -> str | None:
    """Why a broker would not start with such a file. Without a version it is of version 0, where all may be missing."""
    if said.cluster_id is None and said.node_id is None:
        return "names neither a cluster nor a node"
    if said.version == 1 and None in (said.cluster_id, said.node_id):
        return "has no cluster.id" if said.cluster_id is None else "has no node.id"
    return next((c.detail for c in said.corruptions if not c.detail.endswith("is missing")), None)


def _assigned(history: MetadataHistory, broker_id: int) -> set[str | None]:
    """Directories in which the broker has or had a replica: one that failed is registered no longer."""
    states = (s for t in history.topics.values() for s in t.partitions.values())
    return {directory_of(state, broker_id) for state in states}


def _placed(broker: BrokerCapture, given: BrokerFiles, history: MetadataHistory) -> BrokerRow:
    served: dict[TopicPartition, str | None] = {}
    future: set[TopicPartition] = set()
    directory_ids = {d.name: d.directory_id for d in broker.log_dirs}
    for log_dir in given.files.of_broker(broker.broker_id):
        for replica in log_dir.replicas:
            key = replica.topic_partition
            if replica.state == "live":
                served[key] = directory_ids.get(log_dir.name)
            elif replica.state == "future":
                future.add(key)
    state = history.brokers.get(broker.broker_id)
    seen_until_ms = given.seen_until_ms.get(broker.broker_id)
    found = placement(
        history,
        broker.broker_id,
        HeldReplicas(
            served=served,
            future=future,
            listed={key for c in given.checkpoints[broker.broker_id] for key in c.high_watermarks},
            whole=state is not None and not set(state.directory_ids) - set(_directory_ids(broker)),
            quiet=broker.broker_id in given.nodes.quiet,
            seen_until_ms=seen_until_ms,
        ),
    )
    return {
        "seen_until_ms": seen_until_ms,
        "stray_replicas": _names(found.stray),
        "missing_replicas": _names(found.missing),
        "misplaced_replicas": _names(found.misplaced),
        "offline_replicas": _names(found.offline),
        "unsettled_replicas": found.unsettled,
    }


def _names(keys: Iterable[TopicPartition]) -> list[str]:
    return [str(key) for key in keys]


def _directory_ids(broker: BrokerCapture) -> list[str]:
    return [d.directory_id for d in broker.log_dirs if d.directory_id is not None]
