"""The publish step: runs that were judged become visible, each with one switch, or are given up.

In: a run directory whose snapshots have a report and a staged run of the store. Out: published runs, and reports that
name them. The rule that must hold: a report is published only as what this very run judged.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from tidegauge import store
from tidegauge.log import about
from tidegauge.runs import report_file
from tidegauge.runs.run import AuditedSnapshot, Run
from tidegauge.runs.survivors import going_on
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import Source

STAGED: Final = "staged.json"
"""Beside a report until its run is published: the run's id."""

Progress = Callable[[str], None]


def not_its_own(what: str, snapshot: AuditedSnapshot) -> str:
    """What to say of files in the run directory that another audit wrote."""
    return (
        f"{what} of another audit than this one of {snapshot.key}: two wrote to one run directory. Nothing of it was "
        "published. Audit it again, with a run directory of its own (--out, or --run for `tidegauge job`)."
    )


def publish(run: Run, url: str, *, progress: Progress = lambda _: None) -> None:
    """Makes the evaluated runs visible, one by one. Each report then names the run that is: an equal one published
    before stays.
    """
    run.failures.begin("publish")
    staged = [(snapshot, staged_run(snapshot)) for snapshot in going_on(run).snapshots]
    store.keep(url, *(run_id for _, run_id in staged))
    for snapshot, run_id in staged:
        with about(**snapshot.ids, run_id=run_id):
            progress(f"publish: {snapshot.key}")
            try:
                _publish(snapshot, run, run_id, url)
            except store.UnidentifiedError as error:
                progress(f"not published: {error}")
                report_file.keep_with(snapshot.target, "not_published", str(error))
            except Exception as error:
                run.failures.take("publish", snapshot.key, error)
                store.discard(url, run_id)
    _tell_other_names(going_on(run), url, progress)


def _publish(snapshot: AuditedSnapshot, run: Run, run_id: str, url: str) -> None:
    report = report_file.read(report_file.at(snapshot.target))
    _must_be_of(run, snapshot, report["run"])
    visible = store.publish(
        url,
        run_id,
        store.Report(
            finished_at=datetime.fromisoformat(report["run"]["finished_at"]),
            invariants=report["invariants"],
            breaches=report["breaches"],
            losses=report["losses"],
            incidents=report["incidents"],
            coverage=report["coverage"],
        ),
    )
    report["run"]["run_id"] = visible
    report_file.keep(snapshot.target, report)


def _must_be_of(run: Run, snapshot: AuditedSnapshot, told: Mapping[str, object]) -> None:
    """Raises `SnapshotError` where what a report says of its run is another's, which has written over it since."""
    named = [told.get(name) for name in ("cluster", "snapshot_id", "started_at")]
    if named != [snapshot.manifest.cluster, snapshot.manifest.snapshot_id, instant_text(run.started_at_ms)]:
        raise SnapshotError(not_its_own(f"{report_file.at(snapshot.target)} is the report", snapshot))


def _tell_other_names(run: Run, url: str, progress: Progress) -> None:
    """A test copy may have a name of its own; whoever looks for all that is known of a cluster must know of both."""
    captured = [s for s in run.snapshots if s.manifest.source is Source.CAPTURED]  # a seed's worlds share a cluster.id
    others = store.shared_names(url, {s.manifest.cluster for s in captured})
    for snapshot in captured:
        if names := others.get(snapshot.manifest.cluster):
            with about(**snapshot.ids):
                progress(
                    f"publish: Warning: {snapshot.key} is of a cluster that is published as {', '.join(names)} too"
                )
            report_file.keep_with(snapshot.target, "same_cluster_as", list(names))


def discard(run: Run, url: str) -> None:
    """Gives up the staged runs, where nothing is to be published: the reports are all there is."""
    left = going_on(run).snapshots
    store.discard(url, *(staged_run(snapshot) for snapshot in left))
    for snapshot in left:
        _must_be_of(run, snapshot, report_file.read(report_file.at(snapshot.target))["run"])
        report_file.keep_as_judged(snapshot.target)


def staged_run(snapshot: AuditedSnapshot) -> str:
    """The id of the run that the step evaluate staged of a snapshot. Raises `SnapshotError`."""
    path = snapshot.target / STAGED
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["run_id"])
    except (OSError, ValueError, KeyError) as error:
        raise SnapshotError(f"{path} is not there or not whole ({error}). Run the step evaluate first.") from error


def instant_text(milliseconds: int) -> str:
    """An instant as a report tells it, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
