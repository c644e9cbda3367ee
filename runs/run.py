"""A run directory: what the steps of one audit hand to each other.

In: the options of an audit. Out: `Run`, kept in `run.json`, and the paths of what each step reads and writes. The
rule that must hold: a step reads only what the steps before it wrote here, so that each can be a process of its own
(an Airflow task, a spark-submit) and can be repeated.

    RUN/run.json            options and snapshots, written by the snapshot step: of each what its MANIFEST.json says,
                            its parts' digests too, and files themselves where no part tells of them
    RUN/work/               what the steps hand on, facts judged on Spark, parts that are not to be seen yet; removed in
                            the end
    RUN/failed/<step>/      a note for each snapshot that could not be audited
    RUN/[<cluster>/<snapshot id>/]facts/<relation>/*.parquet, coverage.json, report.json, data_docs/
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.runs.capture_time import DatedAheadError, check_clock
from tidegauge.runs.failures import Failures
from tidegauge.runs.pairs import check_pair
from tidegauge.runs.restriction import EVERYTHING, Restriction, check_there, restriction_of
from tidegauge.runs.run_places import COVERAGE_FILE, RUN_FILE, check_own, folders, place_below
from tidegauge.snapshots.adopt import Snapshot
from tidegauge.snapshots.catalogue import DatedAhead, finished_at_ms
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.fields import Fields
from tidegauge.snapshots.listing import has_replicas, listing
from tidegauge.snapshots.location import Location, is_url, location
from tidegauge.snapshots.manifest import (
    LAST_INSTANT_MS,
    Manifest,
    as_text,
    check_words,
    from_json,
    is_text,
    to_json,
)
from tidegauge.snapshots.other_directories import log_dirs_below, what_it_holds
from tidegauge.snapshots.places import absolute, made
from tidegauge.snapshots.signing import Trusted
from tidegauge.snapshots.verification import open_verified
from tidegauge.snapshots.whole_files import write_whole

FAILED: Final = "failed"
"""Below a run directory: notes of the snapshots that could not be audited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSnapshot:
    """One snapshot that a run reads: where it lies, what it holds."""

    root: Location
    manifest: Manifest

    @property
    def key(self) -> str:
        """Names it among the snapshots read together."""
        return f"{self.manifest.cluster}/{self.manifest.snapshot_id}"

    @property
    def ids(self) -> dict[str, str]:
        """What lines of a log say that are about it."""
        return {"cluster": self.manifest.cluster, "snapshot_id": self.manifest.snapshot_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedSnapshot(ReadSnapshot):
    """One snapshot of a run: where its results go, and the earlier snapshot that it is compared with, if any."""

    target: Location
    previous: ReadSnapshot | None = None

    @property
    def reads(self) -> tuple[ReadSnapshot, ...]:
        """What is read to audit it: itself, and the one that it is compared with."""
        return (self,) if self.previous is None else (self, self.previous)


NO_STORE: Final = "none"
"""Instead of a store's URL: publish nothing."""


NO_SUMMARIES: Final = "none"
"""Instead of a place for summaries: keep none, and read everything."""


MANY_ROWS: Final = 1_000_000
"""Rows of a relation that travel to the store and are judged there in a quarter of a minute, as they are on Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One audit. `store_url` None: the embedded Postgres; "none": publish nothing. `data_docs`: write pages too.

    `restriction`: what it leaves out; a restricted audit publishes nothing either. `kept_summaries`: where summaries of
    segments are found and kept, so that the next audit need not read these; None: beside large snapshots. `many_rows`:
    a relation of more, derived on Spark, is judged there, and what holds in it does not go to the store.
    """

    directory: Location
    snapshots: tuple[AuditedSnapshot, ...]
    store_url: str | None
    fail_on: str
    started_at_ms: int
    data_docs: bool = True
    restriction: Restriction = EVERYTHING
    kept_summaries: str | None = NO_SUMMARIES
    many_rows: int = MANY_ROWS

    @property
    def work(self) -> Location:
        """Where the steps keep what is not a result."""
        return self.directory / "work"

    @property
    def ids(self) -> dict[str, str]:
        """What lines of a log say that are about all of it: what its snapshots have in common."""
        first, *others = (snapshot.ids for snapshot in self.snapshots)
        return {name: value for name, value in first.items() if all(other[name] == value for other in others)}

    @property
    def asks_object_stores(self) -> bool:
        """Whether anything that it reads or writes lies in one."""
        read = [each.root for snapshot in self.snapshots for each in snapshot.reads]
        kept = self.kept_summaries
        return (kept is not None and is_url(kept)) or any(not isinstance(at, Path) for at in (self.directory, *read))

    @property
    def failures(self) -> Failures:
        """Which snapshots could not be audited, beside the results: they tell why one is missing."""
        return Failures(directory=absolute(self.directory / FAILED))

    @property
    def staged(self) -> Location:
        """Parts that tasks write, until their job commits them."""
        return self.work / "staged"

    @property
    def summaries(self) -> Location:
        """Segment summaries, Parquet."""
        return self.work / "summaries"

    @property
    def known(self) -> Location:
        """What is known of partitions beside their logs, Parquet."""
        return self.work / "known"

    @property
    def whole(self) -> Location:
        """The snapshots that a task each takes whole, Parquet."""
        return self.work / "whole"


def new_run(
    directory: Location,
    inputs: tuple[str, ...],
    *,
    store_url: str | None,
    fail_on: str,
    started_at_ms: int,
    cluster: str | None = None,
    previous: str | Mapping[str, str] | None = None,
    data_docs: bool = True,
    restriction: Restriction = EVERYTHING,
    trusted: Trusted | None = None,
    met: Callable[[DatedAhead], None] = lambda _: None,
    kept_summaries: str | None = NO_SUMMARIES,
    many_rows: int = MANY_ROWS,
) -> Run:
    """Opens the snapshots and writes `run.json`. Raises `SnapshotError` for what cannot be audited.

    Of several, one that cannot be used is noted as a failure of its own, and the others make the run; so is one of the
    cluster and the id of another before it, since a run keeps and publishes by these. `cluster` names the cluster of a
    plain copy; a snapshot whose manifest names another one cannot be used. `previous` is an earlier snapshot of
    the same cluster, for a run of one snapshot; or one for each of the inputs that it names. `trusted`: by whose keys
    each of them has to be signed; then every file of them is read here, against its digest. `met` hears of each that
    is refused since it is dated in the future. Where signatures are asked for, summaries come only from a place that
    somebody named: nothing signs those beside the snapshots.
    """
    if isinstance(previous, str) and len(inputs) != 1:
        raise SnapshotError(
            f"--previous compares one snapshot with an earlier one, and {len(inputs)} are to be audited. "
            "Name one SNAPSHOT with it, or audit them one after the other."
        )
    check_own(directory)
    named = {inputs[0]: previous} if isinstance(previous, str) else previous or {}
    opening = _Opening(cluster, trusted, now_ms=started_at_ms, met=met)
    pairs = _opened(inputs, named, opening, Failures(directory=absolute(directory / FAILED)))
    if restriction.partitions:
        check_there(restriction, _held(pairs))
    targets = [directory] if len(inputs) == 1 else _targets(directory, [snapshot for snapshot, _ in pairs])
    run = Run(
        directory=directory,
        snapshots=tuple(
            _audited(target, snapshot, earlier) for target, (snapshot, earlier) in zip(targets, pairs, strict=True)
        ),
        store_url=store_url,
        fail_on=fail_on,
        started_at_ms=started_at_ms,
        data_docs=data_docs,
        restriction=restriction,
        kept_summaries=NO_SUMMARIES if trusted is not None and kept_summaries is None else kept_summaries,
        many_rows=many_rows,
    )
    for snapshot in run.snapshots:  # What another audit derived there must not be judged as this one's.
        (snapshot.target / COVERAGE_FILE).unlink(missing_ok=True)
    save(run)
    return run


def _must_hold_replicas(snapshot: Snapshot) -> None:
    """Without one replica every verdict would be "not known", which says nothing about a cluster."""
    nodes = snapshot.manifest.brokers
    if any(has_replicas(node) for node in nodes):
        return
    there = [snapshot.root / node.directory for node in nodes]
    held = "; ".join(f"{path.name} {what_it_holds(path)}" for path in there if isinstance(path, Path))
    likely = [below for path in there if isinstance(path, Path) for below in log_dirs_below(path)]
    raise SnapshotError(
        f"{snapshot.root} holds no replica of Kafka, so there is nothing to audit{f': {held}' if held else ''}. "
        + (f"Log dirs lie at {', '.join(map(str, likely[:3]))}: adopt these." if likely else "")
        + ("" if likely else "Copy what log.dirs of the brokers hold, and adopt that.")
    )


class _Opening:
    """Opens snapshots: each once, since one that has to be signed is read whole."""

    def __init__(
        self, cluster: str | None, trusted: Trusted | None, *, now_ms: int, met: Callable[[DatedAhead], None]
    ) -> None:
        self._cluster, self._trusted, self._now_ms, self._met = cluster, trusted, now_ms, met
        self._found: dict[str, Snapshot] = {}

    def of(self, given: str) -> Snapshot:
        """One by its directory or URL. Raises `SnapshotError`."""
        if given not in self._found:
            self._found[given] = open_verified(location(given), cluster=self._cluster, trusted=self._trusted)
        return self._found[given]

    def audited(self, given: str) -> Snapshot:
        """One that is to be audited. Raises `SnapshotError`, where it is dated in the future too: before it is read, as
        far as a manifest tells; the derive step knows the instant of a plain copy.
        """
        snapshot = self.of(given)
        at_ms = finished_at_ms(snapshot.manifest)
        try:
            check_clock(snapshot.manifest, str(snapshot.root), at_ms, now_ms=self._now_ms)
        except DatedAheadError as error:
            self._met(error.claim)
            raise
        return snapshot


def _opened(
    inputs: tuple[str, ...], previous: Mapping[str, str], opening: "_Opening", failures: Failures
) -> list[tuple[Snapshot, Snapshot | None]]:
    """Every snapshot that can be used, with its earlier one. Raises `SnapshotError` where there is none."""
    failures.begin("snapshot")
    pairs: list[tuple[Snapshot, Snapshot | None]] = []
    refused: Exception | None = None
    for given in inputs:
        try:
            pair = _opened_pair(opening, given, previous.get(given))
            _check_names(pair, pairs)
            pairs.append(pair)
        except Exception as error:
            if len(inputs) == 1:
                raise
            failures.take("snapshot", given, error, root=given)
            refused = refused or error
    if refused is not None and not pairs:
        raise refused
    return pairs


def _opened_pair(opening: "_Opening", given: str, before: str | None) -> tuple[Snapshot, Snapshot | None]:
    """A snapshot, and the earlier one that it is to be compared with, if any. Raises `SnapshotError`."""
    snapshot = opening.audited(given)
    _must_hold_replicas(snapshot)
    earlier = opening.of(before) if before is not None else None
    if earlier is not None:
        check_pair(snapshot.manifest, earlier.manifest)
    for each in (snapshot, earlier):
        if each is not None:
            _must_be_kept(each)
    return snapshot, earlier


def _must_be_kept(snapshot: Snapshot) -> None:
    """`run.json` holds every snapshot of the run: one that it cannot hold would take the others along."""
    if not is_text(str(snapshot.root)):
        raise SnapshotError(f"{as_text(str(snapshot.root))} is a path that is no UTF-8. Name the snapshot by another.")
    check_words(snapshot.manifest, where=str(snapshot.root))


def _check_names(pair: tuple[Snapshot, Snapshot | None], taken: list[tuple[Snapshot, Snapshot | None]]) -> None:
    """A name stands for one snapshot of a run, which is audited once, and for one directory, which is read once.

    Raises `SnapshotError` for a pair that would not leave that so; those that were taken before it stay.
    """
    snapshot, earlier = pair
    for other, _ in taken:
        if _key(other) == _key(snapshot):
            raise SnapshotError(
                f"{other.root} and {snapshot.root} are both {_key(snapshot)}, and the first of them is audited. "
                "Name each once, or adopt them with different --id."
            )
    if earlier is not None and earlier.root != snapshot.root and _key(earlier) == _key(snapshot):
        raise SnapshotError(_two_places(earlier, snapshot))
    read = [each for before in taken for each in before if each is not None]
    for own in (snapshot, earlier):
        for other in read:
            if own is not None and _key(own) == _key(other) and own.root != other.root:
                raise SnapshotError(_two_places(own, other))


def _key(snapshot: Snapshot) -> str:
    return f"{snapshot.manifest.cluster}/{snapshot.manifest.snapshot_id}"


def _two_places(one: Snapshot, other: Snapshot) -> str:
    return (
        f"{one.root} and {other.root} are both {_key(one)}. Compare with the one that is audited, or adopt one of them "
        "with another --id."
    )


def _held(pairs: list[tuple[Snapshot, Snapshot | None]]) -> frozenset[TopicPartition]:
    """The partitions of which any of the snapshots holds a replica."""
    opened = [snapshot for pair in pairs for snapshot in pair if snapshot is not None]
    log_dirs = [log_dir for snapshot in opened for log_dir in listing(snapshot.manifest).log_dirs]
    return frozenset(replica.topic_partition for log_dir in log_dirs for replica in log_dir.replicas)


def _targets(directory: Location, snapshots: list[Snapshot]) -> list[Location]:
    """Where each snapshot's results go, where there are several."""
    ids: dict[str, list[str]] = {}
    for snapshot in snapshots:
        ids.setdefault(snapshot.manifest.cluster, []).append(snapshot.manifest.snapshot_id)
    clusters = folders(ids)
    below = {cluster: folders(of_cluster) for cluster, of_cluster in ids.items()}
    return [directory / clusters[m.cluster] / below[m.cluster][m.snapshot_id] for m in (s.manifest for s in snapshots)]


def _audited(target: Location, snapshot: Snapshot, earlier: Snapshot | None) -> AuditedSnapshot:
    previous = ReadSnapshot(root=earlier.root, manifest=earlier.manifest) if earlier is not None else None
    return AuditedSnapshot(root=snapshot.root, target=target, manifest=snapshot.manifest, previous=previous)


def save(run: Run) -> None:
    """Writes `run.json`, whole or not at all, and without the store's password: who may read runs need not have it."""
    value = {
        "store_url": _address(run.store_url),
        "fail_on": run.fail_on,
        "started_at_ms": run.started_at_ms,
        "data_docs": run.data_docs,
        "kept_summaries": run.kept_summaries,
        "many_rows": run.many_rows,
        "partitions": sorted(run.restriction.partitions),
        "invariants": run.restriction.invariants,
        "snapshots": [
            {
                "root": str(s.root),
                "target": _below(run.directory, s.target),
                "manifest": json.loads(to_json(s.manifest, s.root)),
                "previous": _saved_previous(s.previous),
            }
            for s in run.snapshots
        ],
    }
    made(run.work)
    check_own(run.directory)  # Where it was not there, somebody else may have made it since.
    write_whole(run.directory / RUN_FILE, json.dumps(value))


def _below(directory: Location, place: Location) -> str:
    """The way from a run directory to one of its own places."""
    return PurePosixPath(str(place)).relative_to(PurePosixPath(str(directory))).as_posix()


def _address(store_url: str | None) -> str | None:
    """What `run.json` says of the store."""
    from tidegauge.runs.store_address import without_secrets  # only where a run is made is there SQLAlchemy

    return None if store_url is None else store_url if store_url == NO_STORE else without_secrets(store_url)


def _saved_previous(previous: ReadSnapshot | None) -> dict[str, Any] | None:
    if previous is None:
        return None
    return {"root": str(previous.root), "manifest": json.loads(to_json(previous.manifest, previous.root))}


def load(directory: Location) -> Run:
    """Reads a run directory. Raises `SnapshotError` if it is none, or not one that we wrote."""
    check_own(directory)
    path = directory / RUN_FILE
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SnapshotError(
            f"{directory} is not a run directory ({error}). "
            f"Begin with: tidegauge job snapshot --run {directory} SNAPSHOT"
        ) from error
    try:
        return _run_of(directory, Fields.of(value, "it"))
    except (KeyError, TypeError, ValueError, RecursionError, SnapshotError) as error:
        raise SnapshotError(
            f"{path} is not what the step snapshot writes ({type(error).__name__}: {error}). "
            f"Begin anew: tidegauge job snapshot --run {directory} SNAPSHOT"
        ) from error


def _run_of(directory: Location, value: Fields) -> Run:
    """The run that `run.json` tells of. Who wrote it need not mean well: every field has its type, and no result goes
    anywhere but below the run directory.
    """
    snapshots = tuple(_audited_of(directory, each) for each in value.objects("snapshots"))
    if not snapshots:
        raise ValueError("it names no snapshot")
    return Run(
        directory=directory,
        snapshots=snapshots,
        store_url=value.text_or_none("store_url"),
        fail_on=value.text("fail_on"),
        started_at_ms=value.whole("started_at_ms", most=LAST_INSTANT_MS),
        data_docs=value.flag("data_docs"),
        kept_summaries=value.text_or_none("kept_summaries"),
        many_rows=value.whole("many_rows", most=1 << 62),
        restriction=restriction_of(value.values.get("partitions", ()), value.values.get("invariants", ())),
    )


def _audited_of(directory: Location, value: Fields) -> AuditedSnapshot:
    previous = value.values.get("previous")
    return AuditedSnapshot(
        root=location(value.text("root")),
        target=place_below(directory, value.text("target")),
        manifest=_manifest_of(value),
        previous=None if previous is None else _read_of(Fields.of(previous, "previous")),
    )


def _read_of(value: Fields) -> ReadSnapshot:
    return ReadSnapshot(root=location(value.text("root")), manifest=_manifest_of(value))


def _manifest_of(value: Fields) -> Manifest:
    text = json.dumps(value.values["manifest"])
    return from_json(text, place=location(value.text("root")), where="a snapshot's manifest in it", settled=True)
