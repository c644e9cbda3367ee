"""The command `capture`: options in, a snapshot out.

In: what the command line says. Out: a `Capture` carried out, a bar or lines on standard error, and the result as a
mapping. What is decided here is only what the options mean; the capture itself is `snapshots.capture`.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tidegauge.endings import NO_SUCH_PLACE
from tidegauge.kafka_log.log_dir import parse_partition_dir
from tidegauge.progress import working
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.capture import Ask, Capture, Captured, capture, default_id, finish, unfinished
from tidegauge.snapshots.catalogue import newest, passed_over
from tidegauge.snapshots.copying import Meter
from tidegauge.snapshots.errors import AuditError, SnapshotError
from tidegauge.snapshots.file_taking import Way
from tidegauge.snapshots.listing import only_metadata
from tidegauge.snapshots.location import Location, location
from tidegauge.snapshots.manifest import Consistency, Mode
from tidegauge.snapshots.reuse import Earlier, earlier
from tidegauge.snapshots.signing import Signer
from tidegauge.snapshots.sources import NODE_ID, BrokerSource, broker_sources, check_name, must_not_hold
from tidegauge.snapshots.throttle import Throttle
from tidegauge.snapshots.topic_names import TopicNames
from tidegauge.snapshots.tree import directories, is_directory

_NONE: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line's options, as they were written."""

    cluster: str
    out: str
    brokers: tuple[str, ...] = ()
    snapshot_id: str | None = None
    mode: str = Mode.FULL.value
    consistency: str = Consistency.FUZZY.value
    hash_topics: bool = False
    hash_key: Path | None = None
    bootstrap: str | None = None
    client_config: Path | None = None
    max_mb_per_s: float | None = None
    previous: str | None = None
    reread: bool = False
    sign: Path | None = None
    part: bool = False
    finish: bool = False
    expect: str | None = None
    copied: bool = False


def run(options: Options, *, say: Callable[[str], None], warn: Callable[[str], None]) -> dict[str, Any]:
    """Captures; what came of it, as `--json` prints it. `warn` is heard by who wants quiet, too."""
    _must_make_sense(options)
    check_name(options.cluster, "--cluster")
    snapshot_id = options.snapshot_id or default_id(datetime.now(UTC))
    check_name(snapshot_id, "--id")
    root = location(options.out)
    out = root / options.cluster / snapshot_id
    wanted = Capture(
        cluster=options.cluster,
        snapshot_id=snapshot_id,
        out=out,
        way=Way(mode=Mode(options.mode), names=_names(options)),
        consistency=Consistency(options.consistency),
        part=options.part,
        expected=_expected(options),
        copied=options.copied,
        reread=options.reread,
        ask=_ask(options),
        signer=Signer.of_key_file(options.sign) if options.sign is not None else None,
    )
    if options.finish:
        return _told(wanted, finish(wanted))
    warnings: list[str] = []
    sources, cluster_id = broker_sources(options.brokers, part=options.part, warn=warnings.append)
    must_not_hold(sources, out)
    wanted = replace(wanted, sources=sources, cluster_id=cluster_id or None)
    wanted = replace(wanted, earlier=_earlier(options, root, wanted, say))
    for warning in warnings:
        warn(f"Warning: {warning}")
    for other in unfinished(root / options.cluster):
        if other != snapshot_id:
            say(f"{root / options.cluster / other} is unfinished: go on with it by --id {other}, or remove it.")
    partitions, total = to_read(sources)
    say(f"Capturing about {total / 1e6:.0f} MB of {len(sources)} nodes as --id {snapshot_id} into {out}")
    throttle = Throttle(options.max_mb_per_s * 1e6 if options.max_mb_per_s is not None else None)
    with working("capture", "partitions", parts=partitions, size_bytes=total) as advance:
        try:
            captured = capture(wanted, Meter(throttle=throttle, tick=advance))
        except KeyboardInterrupt:
            raise AuditError(
                f"Interrupted. Go on with the same command and --id {snapshot_id}, or remove {out}."
            ) from None
        except OSError as error:
            if error.errno in NO_SUCH_PLACE:
                raise
            raise AuditError(
                f"The capture stopped{f' at {error.filename}' if error.filename else ''}: {error.strerror or error}. "
                f"Check permissions and free space there, then run the same command with --id {snapshot_id}: it goes "
                f"on where it stopped. {out} holds no snapshot until then."
            ) from error
    for path in captured.rotten:
        warn(f"{path}: other bytes than the earlier snapshot's, though nobody has written to the file since; copied.")
    return _told(wanted, captured, warnings)


def summary(result: dict[str, Any]) -> str:
    """What came of it, in words."""
    words = (
        f"{result['cluster']}/{result['snapshot_id']}: {_counted(result)}, {result['files']} files, "
        f"{result['bytes'] / 1e6:.1f} MB; {result['bytes_read'] / 1e6:.1f} MB read, "
        f"{result['linked_bytes'] / 1e6:.1f} MB linked, {len(result['left_out'])} left out."
    )
    if not result["finished"]:
        return f"{words} Next, when every broker's share is there: the same command with --finish and no --broker"
    return f"{words} Next: tidegauge audit {result['snapshot']} --out OUT"


def _counted(result: dict[str, Any]) -> str:
    words = f"{len(result['brokers'])} brokers"
    return f"{words} and {len(result['controllers'])} controllers" if result["controllers"] else words


def to_read(sources: Sequence[BrokerSource]) -> tuple[int, int]:
    """Directories of partitions, and bytes to read at most, holes not counted: for how far it is only."""
    partitions = total = 0
    for source in sources:
        for log_dir in source.log_dirs:
            top = Path(log_dir.path)
            for path, entries in directories(top):
                partitions += path.parent == top and parse_partition_dir(path.name) is not None
                for entry in entries:
                    if is_directory(entry):
                        continue
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue  # Gone, or not ours to see: the capture names it.
                    total += min(status.st_size, status.st_blocks * 512)
    return partitions, total


def _told(wanted: Capture, captured: Captured, warnings: Sequence[str] = ()) -> dict[str, Any]:
    controllers = [b.broker_id for b in captured.brokers if only_metadata(b)]
    return {
        "snapshot": str(wanted.out),
        "cluster": wanted.cluster,
        "snapshot_id": wanted.snapshot_id,
        "finished": captured.manifest is not None,
        "brokers": [b.broker_id for b in captured.brokers if b.broker_id not in controllers],
        "controllers": controllers,
        "warnings": list(warnings),
        "mode": str((captured.manifest or wanted.way).mode),
        "files": captured.files,
        "bytes": captured.size_bytes,
        "source_bytes": captured.source_bytes,
        "bytes_read": captured.bytes_read,
        "linked_files": captured.linked_files,
        "linked_bytes": captured.linked_bytes,
        "previous": wanted.earlier.snapshot_id if wanted.earlier is not None else None,
        "answers": captured.manifest.answers if captured.manifest is not None else None,
        "changed_without_a_write": captured.rotten,
        "left_out": [{"path": x.path, "reason": x.reason} for x in captured.left_out],
    }


def _must_make_sense(options: Options) -> None:
    wrong = (
        (options.part and options.finish, "--part writes one broker's share and --finish joins the shares: give one."),
        (options.finish and options.brokers, "--finish joins shares that are there: it takes no --broker."),
        (not options.finish and not options.brokers, "Name the brokers: --broker ID=LOG_DIR[,LOG_DIR]"),
        ((options.part or options.finish) and options.snapshot_id is None, "The brokers' shares meet under one --id."),
        (options.copied and options.finish, "--copied is said where log dirs are read: --finish reads none."),
        (
            options.copied and options.bootstrap,
            "--copied says that the log dirs are copies, and the cluster has gone on since: leave out --bootstrap.",
        ),
        (options.expect and not options.finish, "--expect goes with --finish: it names the nodes to wait for."),
        (options.part and options.bootstrap, "Where shares are joined, the cluster is asked by --finish --bootstrap."),
        (options.hash_key and not options.hash_topics, "--hash-key goes with --hash-topics."),
        (
            options.hash_topics and options.mode != Mode.HEADERS.value,
            "--hash-topics goes with --mode headers: a full copy holds the records, which may name topics too.",
        ),
        (
            options.hash_topics and options.hash_key is None and (options.part or options.finish),
            "Shares that are joined need the same names: give each the same --hash-key FILE.",
        ),
        (options.client_config and not options.bootstrap, "--client-config goes with --bootstrap."),
    )
    for is_wrong, why in wrong:
        if is_wrong:
            raise SnapshotError(why)


def _names(options: Options) -> TopicNames | None:
    if not options.hash_topics:
        return None
    return TopicNames.of_key_file(options.hash_key) if options.hash_key is not None else TopicNames.of_random_key()


def _expected(options: Options) -> frozenset[int]:
    if options.expect is None:
        return frozenset()
    words = options.expect.split(",")
    if not all(NODE_ID.fullmatch(word) for word in words):
        raise SnapshotError(f"--expect {options.expect} names no nodes. Write their ids with commas, such as 1,2,3.")
    return frozenset(map(int, words))


def _ask(options: Options) -> Ask | None:
    if options.bootstrap is None:
        return None
    from tidegauge.snapshots.ask_apart import ask_apart
    from tidegauge.snapshots.client_config import read_client_config

    return functools.partial(ask_apart, options.bootstrap, read_client_config(options.client_config))


def _earlier(options: Options, root: Location, wanted: Capture, say: Callable[[str], None]) -> Earlier | None:
    """The snapshot whose files may be linked: the one that is named, else the cluster's newest below --out."""
    if options.previous == _NONE:
        return None
    where = (
        location(options.previous)
        if options.previous is not None
        else newest(root / options.cluster, now=datetime.now(UTC), pass_over=lambda claim: say(passed_over(claim)))
    )
    if where is None:
        return None
    try:
        # What it says of its files would be signed anew, unread.
        trusted = wanted.signer.trusted if wanted.signer is not None else None
        manifest = open_snapshot(where, settle=False, trusted=trusted).manifest
    except SnapshotError as error:
        if options.previous is not None:
            raise
        say(f"Nothing is linked, since the newest snapshot cannot be used: {error}")
        return None
    if manifest.cluster_id and wanted.cluster_id and manifest.cluster_id != wanted.cluster_id:
        raise SnapshotError(
            f"The log dirs are of cluster {wanted.cluster_id}, but {where}, the cluster's earlier snapshot, is of "
            f"{manifest.cluster_id}. Check the paths; if {options.cluster} was set up anew, give --previous none."
        )
    if getattr(where, "protocol", None) != getattr(root, "protocol", None) or where == wanted.out:
        return None  # Nothing can be linked from a store into another, or into a directory.
    return earlier(where, manifest)
