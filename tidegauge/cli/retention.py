"""What has become old goes from store, disk and snapshots: instants in, lines of what went out.

The rules that must hold: only what is ours is removed (a directory with a `run.json`, a snapshot with a manifest), and
no link is followed; a run directory stays as long as its run is in the store, and as it is while an audit works there
or its next step may be queued; facts are nobody's before the first of them goes; of each cluster the newest run
directory and the newest snapshots stay, whatever their age, and what is dated in the future is none of these: it lets
no other go, and stays to be looked at; a snapshot goes manifest first, so that half of one is none.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from tidegauge import settings
from tidegauge.audit.future_snapshots import Met
from tidegauge.audit.latest_snapshots import captured
from tidegauge.runs.errors import UnavailableError
from tidegauge.runs.run_lock import free
from tidegauge.runs.run_places import COVERAGE_FILE
from tidegauge.snapshots.catalogue import PassOver, until
from tidegauge.snapshots.local_path import LocalPath
from tidegauge.snapshots.location import Location, ObjectPath, local, location
from tidegauge.snapshots.manifest import MANIFEST_NAME
from tidegauge.snapshots.removal import removed
from tidegauge.snapshots.tree import directories
from tidegauge.store import PUBLISHED_WITHIN, Removed, connect
from tidegauge.store import retain as retain_in_store

_RUN_FILE: Final = "run.json"
_WORK: Final = "work"
"""In a run directory until the last step is done."""
_DEPTH: Final = 3
_NEWEST_SNAPSHOTS: Final = 2
"""Of each cluster: the newest, and the one that it is compared with."""


def retain(
    url: str,
    *,
    now: datetime,
    runs_before: datetime,
    facts_before: datetime,
    runs_root: Path | None,
    with_snapshots: bool,
    dry_run: bool,
    pass_over: PassOver | None = None,
) -> Iterator[str]:
    """Removes, and tells; `pass_over` hears of snapshots that are dated in the future. Raises `StoreError`, and
    `UnavailableError` in the end for directories that could not be read or removed.
    """
    gone = "would be removed" if dry_run else "removed"
    in_store = retain_in_store(url, runs_before=runs_before, facts_before=facts_before, dry_run=dry_run)
    for cluster, of_cluster in in_store.items():
        yield from _told(cluster, of_cluster, gone)
    taken = {run_id for of_cluster in in_store.values() for run_id in of_cluster.runs}
    published = _published(url) - taken
    root = local(runs_root or settings.home() / "runs")
    problems: list[str] = []
    run_directories = list(_directories(root, _DEPTH, problems))
    newest = _newest(run_directories)
    untouched = min(facts_before, now - PUBLISHED_WITHIN)
    for directory in run_directories:
        before = untouched if directory.is_unfinished else facts_before
        if directory.path in newest or directory.written_at >= before.timestamp():
            continue
        try:
            with free(directory.path) as is_free:
                if not is_free:
                    continue
                if directory.run_ids & published or directory.written_at >= runs_before.timestamp():
                    # Without its coverage nobody judges what is left of an audit's facts, if this is broken off.
                    goes = _facts(directory.path)
                    freed = sum(removed(root, facts, beside=COVERAGE_FILE, dry_run=dry_run) for facts in goes)
                    if freed:
                        yield f"{directory.path}: facts {gone}, {_mb(freed)}"
                else:
                    yield f"{directory.path} {gone}, {_mb(_removed_run(root, directory.path, dry_run))}"
        except OSError as error:
            problems.append(f"{directory.path}: {error}")
    if with_snapshots:
        hears = pass_over or Met().pass_over
        snapshots = location(settings.snapshots_root())
        for place in _old_snapshots(snapshots, runs_before, now, hears, problems):
            try:
                if not dry_run:
                    _remove_snapshot(snapshots, place)
            except OSError as error:
                problems.append(f"{place}: {error}")
            else:
                yield f"{place} {gone}"
    if problems:
        raise UnavailableError(f"{len(problems)} directories stay, the others are done. {'; '.join(problems[:5])}")


def _told(cluster: str, of: Removed, gone: str) -> Iterator[str]:
    yield (
        f"{cluster}: {len(of.runs)} runs {gone}, and the facts of {len(of.facts_of)} more; "
        f"{len(of.kept)} old runs stay, since the life of a breach rests on them"
    )
    if of.failed:
        yield f"{cluster}: {of.failed} runs that failed {gone}"
    for what, run_ids in (("run", of.runs), ("facts of", of.facts_of)):
        for run_id in run_ids:
            yield f"  {what} {run_id} {gone}"


def _published(url: str) -> set[str]:
    with connect(url, "list its runs") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT run_id FROM tidegauge.audit_run WHERE status <> 'failed'")
        return {run_id for (run_id,) in cursor.fetchall()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Directory:
    """A run directory: when it was last written to, whether steps are to come, the runs whose reports lie in it."""

    path: LocalPath
    written_at: float
    is_unfinished: bool
    run_ids: frozenset[str]
    clusters: frozenset[str]


def _directories(folder: LocalPath, depth: int, problems: list[str]) -> Iterator[_Directory]:
    """A `LocalPath`, of which neither a link nor a pipe is opened: others may have laid it there. One that cannot be
    read is a problem and keeps no other from being found.
    """
    try:
        found = _directory(folder)
        within = sorted(folder.iterdir()) if found is None and depth and folder.is_dir() else []
    except OSError as error:
        problems.append(f"{folder}: {error}")
        return
    if found is not None:
        yield found
    for below in within:
        yield from _directories(below, depth - 1, problems)


def _directory(folder: LocalPath) -> _Directory | None:
    """None if it is no run's. Raises OSError if it cannot be read."""
    if not folder.is_dir() or not (folder / _RUN_FILE).is_file():
        return None
    told = [_run_of(report) for report in (folder / "report.json", *folder.glob("*/*/report.json"))]
    runs = [run for run in told if run is not None]
    return _Directory(
        path=folder,
        is_unfinished=(folder / _WORK).is_dir(),
        written_at=max((file.stat().st_mtime for file in folder.iterdir()), default=0.0),
        run_ids=frozenset(run["run_id"] for run in runs),
        clusters=frozenset(run["cluster"] for run in runs),
    )


def _run_of(report: LocalPath) -> Mapping[str, str] | None:
    try:
        run = json.loads(report.read_text(encoding="utf-8"))["run"]
        return {"run_id": str(run["run_id"]), "cluster": str(run["cluster"])}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # None was written, or not to its end.


def _newest(found: list[_Directory]) -> set[Path]:
    """Of each cluster the directory that was written last."""
    newest: dict[str, _Directory] = {}
    for directory in found:
        for cluster in directory.clusters:
            if cluster not in newest or newest[cluster].written_at < directory.written_at:
                newest[cluster] = directory
    return {directory.path for directory in newest.values()}


def _facts(run: LocalPath) -> Iterator[LocalPath]:
    for facts in (run / "facts", *run.glob("*/*/facts"), run / _WORK):
        if facts.is_dir():
            yield facts


def _removed_run(root: Path, directory: Path, dry_run: bool) -> int:
    """Its size in bytes. One that is the root itself goes, too."""
    return removed(directory.parent if directory == root else root, directory, dry_run=dry_run)


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _old_snapshots(
    root: Location, before: datetime, now: datetime, pass_over: PassOver, problems: list[str]
) -> Iterator[Location]:
    """The snapshots of every cluster that may go. One whose directory cannot be read is a problem."""
    if not root.is_dir():
        return
    for name in sorted(place.name for place in root.iterdir()):
        cluster = root / name
        if isinstance(cluster, Path) and cluster.is_symlink():
            continue
        try:
            found = list(captured(cluster))
            linked = _linked_from([place for at, place in found if at >= before])
        except OSError as error:
            problems.append(f"{cluster}: {error}")
            continue
        newest_first = list(until(now, found, pass_over))
        for at, place in newest_first[_NEWEST_SNAPSHOTS:]:
            is_link = isinstance(place, Path) and place.is_symlink()
            if at < before and str(place) not in linked and not is_link:
                yield place


def _linked_from(staying: list[Location]) -> set[str]:
    """Snapshots into which a symbolic link of one that stays leads. Captures make hard links, which need no other."""
    found: set[str] = set()
    for place in staying:
        if isinstance(place, Path):
            siblings = Path(os.path.realpath(place.parent))
            # Deeper than this no audit looks for files. realpath, since Path.resolve raises for links in a circle.
            links = (entry for _, entries in directories(place) for entry in entries if entry.is_symlink())
            targets = (Path(os.path.realpath(link.path)) for link in links)
            found |= {
                str(place.parent / target.relative_to(siblings).parts[0])
                for target in targets
                if target.is_relative_to(siblings) and target != siblings
            }
    return found


def _remove_snapshot(root: Location, place: Location) -> None:
    if isinstance(place, ObjectPath):
        (place / MANIFEST_NAME).unlink()
        place.fs.rm(place.path, recursive=True)
    else:
        assert isinstance(root, Path)
        removed(root, place, first=MANIFEST_NAME)
