"""Shares: where each broker's machine captures its own broker, what they write until the manifest joins them.

In: a broker's `BrokerCapture`. Out: `.part-broker-<id>.json` beside its folder, which names the broker's part of the
manifest; and all of them together. Shares are joined only if they are of one cluster, one mode and one kind of names,
and none is missing that has been begun.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from tidegauge.snapshots.errors import AuditError, SnapshotError
from tidegauge.snapshots.fields import Fields
from tidegauge.snapshots.manifest import (
    BrokerCapture,
    Consistency,
    LeftOut,
    Manifest,
    Mode,
    Source,
    broker_from,
    broker_value,
    left_out_from,
)
from tidegauge.snapshots.settled import settled
from tidegauge.snapshots.signing import Signer, signature_name
from tidegauge.snapshots.target import Target

_SHARE: Final = re.compile(r"\.part-broker-([0-9]+)\.json")
_BEGUN: Final = re.compile(r"\.capture-broker-([0-9]+)\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One or more brokers of a snapshot, and what must be the same for all of them."""

    cluster: str
    cluster_id: str | None
    snapshot_id: str
    mode: Mode
    hashed_topics: bool
    consistency: Consistency
    brokers: tuple[BrokerCapture, ...]
    left_out: tuple[LeftOut, ...]


def share_name(broker_id: int) -> str:
    """The file of a broker's share."""
    return f".part-broker-{broker_id}.json"


def put_signed(target: Target, name: str, text: str, signer: Signer | None) -> None:
    """A file that tells others that something is there: its signature is there before it."""
    if signer is not None:
        target.put(signature_name(name), signer.signature(text))
    else:
        target.remove(signature_name(name))  # Of a try that was to be signed: it would not be this text's.
    target.put(name, text)


def must_be_signed(target: Target, name: str, text: str, signer: Signer | None) -> None:
    """What is there has to be by who signs here, before it is signed. Raises `SnapshotError`."""
    if signer is not None:
        beside = target.root / signature_name(name)
        signer.trusted.check(text.encode("utf-8"), beside.read_bytes, where=str(target.root / name))


def write_share(target: Target, share: Share, *, signer: Signer | None = None) -> None:
    """Writes one file a broker, last of all that is the broker's."""
    for broker in share.brokers:
        own = {
            "cluster": share.cluster,
            "cluster_id": share.cluster_id,
            "snapshot_id": share.snapshot_id,
            "mode": share.mode,
            "hashed_topics": share.hashed_topics,
            "consistency": share.consistency,
            "brokers": [broker_value(broker, target.root)],
            "left_out": [asdict(x) for x in share.left_out if x.path.startswith(broker.directory + "/")],
        }
        put_signed(target, share_name(broker.broker_id), json.dumps(own, indent=1, sort_keys=True) + "\n", signer)


def join(
    target: Target,
    cluster: str,
    snapshot_id: str,
    *,
    expected: frozenset[int] = frozenset(),
    signer: Signer | None = None,
) -> Share:
    """All shares of a snapshot as one. Raises `SnapshotError` if they do not belong together, or one is not signed by
    who signs the snapshot; `AuditError` as long as one of those nodes has none.
    """
    names = target.names()
    _must_be_there(target, names, expected)
    shares = [_read(target, name, signer) for name in sorted(names) if _SHARE.fullmatch(name)]
    if not shares:
        raise SnapshotError(
            f"{target.root} holds no broker's share. Capture each broker there first: tidegauge capture "
            f"--cluster {cluster} --id {snapshot_id} --out ROOT --broker ID=LOG_DIR --part"
        )
    done = {b.broker_id for share in shares for b in share.brokers}
    begun = {int(m[1]) for name in names if (m := _BEGUN.fullmatch(name)) is not None} - done
    if begun:
        raise SnapshotError(
            f"The capture of broker {', '.join(map(str, sorted(begun)))} at {target.root} has been begun and is not "
            "finished. Let it finish, or run it again with the same --id, then join the shares."
        )
    for field in ("cluster", "mode", "hashed_topics", "consistency"):
        said = {str(getattr(share, field)): share.brokers[0].broker_id for share in shares}
        if len(said) > 1:
            told = ", ".join(f"broker {broker}'s says {value}" for value, broker in said.items())
            raise SnapshotError(
                f"The shares at {target.root} do not belong together: by {field}, {told}. Capture them in the same way."
            )
    if (shares[0].cluster, {share.snapshot_id for share in shares}) != (cluster, {snapshot_id}):
        theirs = ", ".join(sorted({f"{share.cluster}/{share.snapshot_id}" for share in shares}))
        raise SnapshotError(
            f"The shares at {target.root} are of {theirs}, and {cluster}/{snapshot_id} is to be made of them. Give "
            "their --cluster and --id, and the --out below which they were written."
        )
    brokers = sorted((b for s in shares for b in s.brokers), key=lambda b: b.broker_id)
    manifest = settled(target.root, _provisional(shares[0], brokers), names_are_fresh=False)
    _must_differ(manifest.brokers)
    return Share(
        cluster=shares[0].cluster,
        cluster_id=manifest.cluster_id,
        snapshot_id=shares[0].snapshot_id,
        mode=shares[0].mode,
        hashed_topics=shares[0].hashed_topics,
        consistency=shares[0].consistency,
        brokers=tuple(brokers),
        left_out=tuple(x for s in shares for x in s.left_out),
    )


def _must_be_there(target: Target, names: Iterable[str], expected: frozenset[int]) -> None:
    waited_for = expected - {int(m[1]) for name in names if (m := _SHARE.fullmatch(name)) is not None}
    if waited_for:
        raise AuditError(
            f"{target.root} holds no share yet of {', '.join(map(str, sorted(waited_for)))}, which --expect names. "
            "Nothing was joined. Run the same command again when their captures have ended."
        )


def _provisional(share: Share, brokers: Iterable[BrokerCapture]) -> Manifest:
    """What the manifest will say of brokers, to see whose disks they are."""
    return Manifest(
        cluster=share.cluster,
        cluster_id=None,
        snapshot_id=share.snapshot_id,
        source=Source.CAPTURED,
        mode=share.mode,
        consistency=share.consistency,
        brokers=tuple(brokers),
        left_out=(),
    )


def brokers_in(names: Iterable[str]) -> set[int]:
    """The brokers whose shares have been begun or finished, by the names of files in an unfinished snapshot."""
    return {int(m[1]) for name in names if (m := _SHARE.fullmatch(name) or _BEGUN.fullmatch(name)) is not None}


def remove_shares(target: Target, brokers: Iterable[BrokerCapture]) -> None:
    """Once the manifest is there they are of no use."""
    for broker in brokers:
        target.remove(share_name(broker.broker_id))
        target.remove(signature_name(share_name(broker.broker_id)))


def finished_share(target: Target, broker_id: int, *, signer: Signer | None = None) -> Share | None:
    """One broker's share, if it is there. Raises `SnapshotError` if it cannot be read, or is not signed by `signer`."""
    name = share_name(broker_id)
    return _read(target, name, signer) if target.size(name) is not None else None


def _must_differ(brokers: Iterable[BrokerCapture]) -> None:
    seen: dict[str, int] = {}
    for broker in brokers:
        for log_dir in broker.log_dirs:
            if log_dir.directory_id is None:
                continue
            if log_dir.directory_id in seen:
                raise SnapshotError(
                    f"The shares of broker {seen[log_dir.directory_id]} and of broker {broker.broker_id} have the same "
                    f"directory.id, {log_dir.directory_id}: one log dir is a copy of the other. Capture the right ones."
                )
            seen[log_dir.directory_id] = broker.broker_id


def _read(target: Target, name: str, signer: Signer | None) -> Share:
    try:
        text = target.text(name) or ""
        must_be_signed(target, name, text, signer)
        value = Fields.of(json.loads(text), "a share")
        share = Share(
            cluster=value.text("cluster"),
            cluster_id=value.text_or_none("cluster_id"),
            snapshot_id=value.text("snapshot_id"),
            mode=Mode(value.text("mode")),
            hashed_topics=value.flag("hashed_topics"),
            consistency=Consistency(value.text("consistency")),
            brokers=tuple(broker_from(b, target.root) for b in value.objects("brokers")),
            left_out=tuple(left_out_from(x) for x in value.objects("left_out")),
        )
        if [share_name(broker.broker_id) for broker in share.brokers] != [name]:
            raise ValueError(f"it is of broker {', '.join(str(b.broker_id) for b in share.brokers)}")
        return share
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SnapshotError(
            f"{target.root / name} is not a broker's share ({type(error).__name__}: {error}). Remove it, and capture "
            "that broker again with the same --id."
        ) from error
