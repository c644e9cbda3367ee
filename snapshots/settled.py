"""A snapshot as an audit may take it: without log dirs that are not this cluster's.

In: where a snapshot lies, its manifest. Out: the manifest with what does not count taken out of `brokers`, kept in
`foreign`, and named in `left_out` with the reason. Where no file contradicts another, nothing is read but
meta.properties, and nothing changes.
"""

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import replace

from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.log_dir import META_PROPERTIES, is_live_log, parse_metadata_checkpoint
from tidegauge.kafka_log.properties import MetaProperties, parse_meta_properties
from tidegauge.snapshots.holes import HoledFile
from tidegauge.snapshots.identity import Claim, LogDirKey, Owners, Settled, settle
from tidegauge.snapshots.leaders import Leaders, read_leaders
from tidegauge.snapshots.location import Location, open_bytes
from tidegauge.snapshots.manifest import BrokerCapture, ForeignLogDir, LeftOut, LogDir, Manifest


def settled(root: Location, manifest: Manifest, *, names_are_fresh: bool = True) -> Manifest:
    """The manifest without foreign log dirs; one that is settled already stays as it is.

    Raises `SnapshotError` where nothing tells which they are, and for names that look like a slip.
    """
    if manifest.foreign:
        return manifest
    claims = tuple(_claims(root, manifest))
    found = settle(
        claims,
        lambda places: _owners(root, manifest, places),
        hint=manifest.cluster_id,
        names_are_fresh=names_are_fresh,
    )
    if not found.foreign:
        return replace(manifest, cluster_id=found.cluster_id or _undecided(manifest, claims))
    said = {claim.place: claim for claim in claims}
    foreign = [
        _foreign(said[broker.broker_id, log_dir.name], log_dir, found)
        for broker in manifest.brokers
        for log_dir in broker.log_dirs
        if (broker.broker_id, log_dir.name) in found.foreign
    ]
    own = (
        _without(broker, {f.name for f in foreign if f.broker_id == broker.broker_id}) for broker in manifest.brokers
    )
    return replace(
        manifest,
        cluster_id=found.cluster_id,
        brokers=tuple(broker for broker in own if broker.log_dirs),
        left_out=(*manifest.left_out, *(LeftOut(path=f.path, reason=f.reason) for f in foreign)),
        foreign=tuple(foreign),
    )


def folder(broker: BrokerCapture, log_dir: str) -> str:
    """A log dir's path below the snapshot's root."""
    return broker.directory if log_dir == "." else f"{broker.directory}/{log_dir}"


def _undecided(manifest: Manifest, claims: Collection[Claim]) -> str | None:
    """Without any meta.properties the cluster is the one that the manifest says it was."""
    return None if any(claim.cluster_id for claim in claims) else manifest.cluster_id


def _claims(root: Location, manifest: Manifest) -> Iterator[Claim]:
    for broker in manifest.brokers:
        paths = {log_dir.name: f"{folder(broker, log_dir.name)}/{META_PROPERTIES}" for log_dir in broker.log_dirs}
        wanted = frozenset(paths.values())
        listed = {file.path for file in broker.files if file.path in wanted}
        for log_dir in broker.log_dirs:
            path = paths[log_dir.name]
            said = _read(root, path) if path in listed else None
            yield Claim(node_id=broker.broker_id, log_dir=log_dir.name, path=path, said=said)


def _read(root: Location, path: str) -> MetaProperties | None:
    try:
        return parse_meta_properties((root / path).read_bytes())
    except OSError:
        return None  # Named as unread where the log dir's own files are.


def _owners(root: Location, manifest: Manifest, places: Collection[LogDirKey]) -> Owners:
    """By the furthest of the metadata logs in these log dirs."""
    found = [
        _leaders(root, broker, log_dir.name)
        for broker in manifest.brokers
        for log_dir in broker.log_dirs
        if (broker.broker_id, log_dir.name) in places
    ]
    return max(found, key=lambda leaders: leaders.reach, default=Leaders()).owners


def _leaders(root: Location, broker: BrokerCapture, log_dir: str) -> Leaders:
    prefix = f"{folder(broker, log_dir)}/{CLUSTER_METADATA}-0/"
    names = sorted(f.path[len(prefix) :] for f in broker.files if f.path.startswith(prefix))
    snapshots = [name for name in names if parse_metadata_checkpoint(name) is not None]
    logs = [name for name in names if is_live_log(name)]
    with ExitStack() as stack:
        try:
            files = [
                HoledFile(stack.enter_context(open_bytes(root / f"{prefix}{name}")))
                for name in (*snapshots[-1:], *logs)
            ]
            return read_leaders((file.readinto, file.pass_zeros) for file in files)
        except OSError:
            return Leaders()  # Named as unread where it is replayed.


def _foreign(claim: Claim, log_dir: LogDir, found: Settled) -> ForeignLogDir:
    said = claim.said
    return ForeignLogDir(
        broker_id=claim.node_id,
        name=claim.log_dir,
        directory_id=log_dir.directory_id,
        cluster_id=claim.cluster_id,
        node_id=said.node_id if said is not None else None,
        path=claim.path,
        reason=found.foreign[claim.place],
    )


def _without(broker: BrokerCapture, foreign: Collection[str]) -> BrokerCapture:
    if not foreign:
        return broker
    prefixes = tuple(f"{folder(broker, name)}/" for name in foreign)
    kept = tuple(d for d in broker.log_dirs if d.name not in foreign)
    inside = tuple(f"{folder(broker, d.name)}/" for d in kept if d.name != ".")
    return replace(
        broker,
        log_dirs=kept,
        files=tuple(f for f in broker.files if f.path.startswith(inside) or not f.path.startswith(prefixes)),
    )
