"""Rows of `brokers`: what a broker's registration, its log dirs' properties and its replicas say.

In: a snapshot's brokers, their log dirs, the metadata history. Out: a row for each broker that was captured or is
registered. The rule that must hold: a broker that was not captured has a row without a word about its disks.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from snapshots.listing import SnapshotListing
from snapshots.manifest import BrokerCapture
from spark_jobs.checkpoint_files import Checkpoints
from spark_jobs.facts.context import PartitionKey, Row
from spark_jobs.facts.metadata import MetadataHistory
from spark_jobs.facts.placement import HeldReplicas, placement


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFiles:
    """What the rows are made of. `checkpoints`: broker -> of each of its log dirs."""

    brokers: Sequence[BrokerCapture]
    files: SnapshotListing
    checkpoints: Mapping[int, Sequence[Checkpoints]]
    quiet: Collection[int]
    seen_until_ms: Mapping[int, int]
    """Broker -> the newest record in its own copy of the metadata log."""


def broker_rows(given: BrokerFiles, history: MetadataHistory) -> list[Row]:
    """A row for each broker, the captured ones first."""
    cluster_id = _expected(c.cluster_id for of_broker in given.checkpoints.values() for c in of_broker)
    directory_ids = Counter(d.directory_id for b in given.brokers for d in b.log_dirs if d.directory_id is not None)
    rows = []
    for broker in given.brokers:
        rows.append(
            {
                **_captured(broker, given, history),
                **_identity(broker, given, history, cluster_id, directory_ids),
                **_placed(broker, given, history),
            }
        )
    absent = sorted(history.brokers.keys() - {b.broker_id for b in given.brokers})
    return [*rows, *({**_registration(b, history), "captured": False} for b in absent)]


def _captured(broker: BrokerCapture, given: BrokerFiles, history: MetadataHistory) -> Row:
    state = history.brokers.get(broker.broker_id)
    log_dirs = given.files.of_broker(broker.broker_id)
    live = [r for d in log_dirs for r in d.replicas if r.state == "live"]
    checkpoints = given.checkpoints[broker.broker_id]
    return {
        **_registration(broker.broker_id, history),
        "rack": state.rack if state is not None else broker.rack,
        "cluster_id": next((c.cluster_id for c in checkpoints if c.cluster_id is not None), None),
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


def _registration(broker_id: int, history: MetadataHistory) -> Row:
    state = history.brokers.get(broker_id)
    return {
        "broker_id": broker_id,
        "rack": state.rack if state is not None else None,
        "broker_epoch": state.epoch if state is not None else None,
        "registered": state is not None,
        "fenced": state.fenced if state is not None else None,
        "alive": history.is_alive(broker_id),
    }


def _identity(
    broker: BrokerCapture,
    given: BrokerFiles,
    history: MetadataHistory,
    cluster_id: str | None,
    directory_ids: Mapping[str, int],
) -> Row:
    """What `meta.properties` says, beside the other brokers' and the registrations (MetaPropertiesEnsemble#verify)."""
    checkpoints = given.checkpoints[broker.broker_id]
    own = _directory_ids(broker)
    registered = {b: set(state.directory_ids) for b, state in history.brokers.items()}
    elsewhere = {d for b, ids in registered.items() if b != broker.broker_id for d in ids}
    here = registered.get(broker.broker_id, set())
    return {
        "cluster_ids": sorted({c.cluster_id for c in checkpoints if c.cluster_id is not None}),
        "expected_cluster_id": cluster_id,
        "node_ids": sorted({c.node_id for c in checkpoints if c.node_id is not None}),
        "shared_directory_ids": sorted(d for d in set(own) if directory_ids[d] > 1),
        "foreign_directory_ids": sorted(set(own) & elsewhere),
        "unregistered_directory_ids": (
            sorted(set(own) - elsewhere - here) if here and not history.damaged_offsets else None
        ),
        "uncaptured_directories": len(here - set(own)),
    }


def _placed(broker: BrokerCapture, given: BrokerFiles, history: MetadataHistory) -> Row:
    served: dict[PartitionKey, str | None] = {}
    future: set[PartitionKey] = set()
    directory_ids = {d.name: d.directory_id for d in broker.log_dirs}
    for log_dir in given.files.of_broker(broker.broker_id):
        for replica in log_dir.replicas:
            key = (replica.topic, replica.partition)
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
            quiet=broker.broker_id in given.quiet,
            seen_until_ms=seen_until_ms,
        ),
    )
    return {
        "seen_until_ms": seen_until_ms,
        "stray_replicas": _names(found.stray),
        "missing_replicas": _names(found.missing),
        "misplaced_replicas": _names(found.misplaced),
        "unsettled_replicas": found.unsettled,
    }


def _names(keys: Iterable[PartitionKey]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in keys]


def _directory_ids(broker: BrokerCapture) -> list[str]:
    return [d.directory_id for d in broker.log_dirs if d.directory_id is not None]


def _expected(cluster_ids: Iterable[str | None]) -> str | None:
    """The cluster id of most log dirs; None where two have as many."""
    ranked = Counter(c for c in cluster_ids if c is not None).most_common(2)
    ahead = len(ranked) == 1 or (len(ranked) == 2 and ranked[0][1] > ranked[1][1])
    return ranked[0][0] if ahead else None
