"""An audit from snapshots to a report: the five steps, in one process or one by one.

In: snapshots and options. Out: report.json, facts/ and data_docs/ per snapshot, and a published run per snapshot. The
rule that must hold: each step reads only what the one before it wrote to the run directory, so `tidegauge audit` and
the Airflow DAG take the same road.

    snapshot -> index -> derive -> evaluate -> publish
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge import settings
from tidegauge.audit.future_snapshots import Met, kept
from tidegauge.audit.headline import headline
from tidegauge.audit.request import AUTO, BEFORE, AuditRequest
from tidegauge.audit.validate_apart import Validate, validating
from tidegauge.embedded.store_in_use import store_at, store_words
from tidegauge.log import about, about_from_now
from tidegauge.runs import report_file
from tidegauge.runs.run import NO_STORE, Run, load, new_run
from tidegauge.runs.run_lock import held
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.places import absolute, emptied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMITTED: Final = "submitted"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """The reports written, and the exit code they come to. `several`: more than one snapshot was to be audited."""

    reports: tuple[Location, ...]
    exit_code: int
    several: bool = False


def begin(asked: AuditRequest, *, progress: Progress = lambda _: None, met: Met | None = None) -> Run:
    """The snapshot step: opens the snapshots and makes the run directory. `met` hears of snapshots that are dated in
    the future.
    """
    heard = met or Met(progress)
    store_url = asked.store or settings.store_url()
    run = new_run(
        asked.out,
        asked.snapshots,
        store_url=store_url,
        fail_on=asked.fail_on,
        started_at_ms=time.time_ns() // 1_000_000,
        cluster=asked.cluster,
        previous=_previous(asked, store_url, progress, heard),
        data_docs=asked.data_docs,
        restriction=asked.restriction,
        trusted=asked.trusted,
        met=heard.add,
        kept_summaries=asked.kept_summaries or settings.kept_summaries(),
        many_rows=settings.many_rows(),
    )
    about_from_now(**run.ids)
    _say_failures(run, "snapshot", progress)
    return run


def _previous(
    asked: AuditRequest, store_url: str | None, progress: Progress, heard: Met
) -> str | Mapping[str, str] | None:
    """What each snapshot is compared with."""
    if asked.previous == BEFORE and asked.since is None:
        raise SnapshotError("--previous before means before an interval: say where it begins, with --since INSTANT.")
    if asked.previous not in (AUTO, BEFORE):
        return asked.previous
    from tidegauge.audit.previous_snapshots import earlier_of

    with store_at(store_url) as url:
        return earlier_of(
            asked.snapshots,
            url=url,
            cluster=asked.cluster,
            root=asked.snapshots_root,
            say=progress,
            since=asked.since if asked.previous == BEFORE else None,
            trusted=asked.trusted,
            met=heard,
        )


def step(name: str, run_dir: Location, *, progress: Progress) -> AuditResult | None:
    """One later step of a run, in this process. A snapshot that fails is said, and raised by the last step, `publish`,
    when the others are done.
    """
    load(run_dir)  # What is no run directory is told as that, and none is made of it.
    with held(run_dir):
        run = load(run_dir)
        about_from_now(**run.ids)
        return _step(name, run, run_dir, progress)


def _step(name: str, run: Run, run_dir: Location, progress: Progress) -> AuditResult | None:
    match name:
        case "index" | "derive":
            with kept(_as_given(run.store_url), met_by=absolute(run_dir), say=progress) as met:
                _spark_step(name, run, settings.spark_master(), progress, met)
            return None
        case "evaluate":
            with validating() as validate, store_at(_as_given(run.store_url)) as url:
                return _evaluate(run, url, validate, progress)
        case _:
            with store_at(_as_given(run.store_url)) as url:
                result = _publish(run, url, progress)
            raise_failures(run)
            return result


def _as_given(address: str | None) -> str | None:
    """The store of a run that another process began: `run.json` has no password, the environment may."""
    from tidegauge.runs.store_address import with_secrets

    return address if address is None or address == NO_STORE else with_secrets(address, settings.store_url())


def raise_failures(run: Run) -> None:
    """Raises what snapshots of a run failed of, or parts of them, if any did."""
    from tidegauge.runs.survivors import failed_error, partly_failed_error

    if run.failures.all():
        raise failed_error(run)
    if run.failures.parts():
        raise partly_failed_error(run)


def audit(
    asked: AuditRequest,
    *,
    master: str | None,
    progress: Progress,
    show: Callable[[AuditResult], None] = lambda _: None,
    met: Met | None = None,
    validate: Validate | None = None,
) -> AuditResult:
    """All steps, one after the other. `validate`: where Great Expectations runs, None for this process.

    `master` SUBMITTED: the session that spark-submit started for this very process; None where nobody chose one: what
    is derived sooner than Spark starts is derived here. `show` gets the result, also where some of several snapshots
    failed; what they failed of is raised then, when the others are published. `met` hears of snapshots that are dated
    in the future.
    """
    heard = met or Met(progress)
    with held(asked.out):
        run = begin(asked, progress=progress, met=heard)
        progress(f"store      {store_words(run.store_url)}")
        with store_at(run.store_url) as url:
            result = _later_steps(run, url, master, validate, progress, heard)
        show(result)
        raise_failures(run)
        return result


def _later_steps(
    run: Run, url: str, master: str | None, validate: Validate | None, progress: Progress, met: Met
) -> AuditResult:
    from tidegauge.derivation.in_process import fit_here
    from tidegauge.store import migrate

    migrate(url)  # First: a store that cannot be reached is said before anything is read.
    chosen = master or settings.chosen_spark_master()
    if chosen is None and fit_here(run.snapshots):
        _here(run, progress, met)
    else:
        _spark_steps(run, chosen or settings.spark_master(), progress, met)
    _evaluate(run, url, validate, progress)
    return _publish(run, url, progress)


def _here(run: Run, progress: Progress, met: Met) -> None:
    """Both of Spark's steps, in this process."""
    from tidegauge.derivation.in_process import derive_run

    progress(f"derive: {sum(1 for _ in run.snapshots)} snapshot(s), small enough for this process alone")
    with _claims_met(run, met):
        derive_run(run)
    _say_failures(run, "derive", progress)


def _spark_steps(run: Run, master: str, progress: Progress, met: Met) -> None:
    with _session(master, run) as session:
        _index(session, run, progress)
        _derive(session, run, progress, met)


def _spark_step(name: str, run: Run, master: str, progress: Progress, met: Met) -> None:
    with _session(master, run) as session:
        if name == "index":
            _index(session, run, progress)
        else:
            _derive(session, run, progress, met)


@contextmanager
def _session(master: str, run: Run) -> "Iterator[SparkSession]":
    from tidegauge.spark_jobs.session import attach, start, stop

    asks = run.asks_object_stores
    session = attach(asks_object_stores=asks) if master == SUBMITTED else start(master, asks_object_stores=asks)
    try:
        yield session
    except Exception:
        stop(session)
        raise
    # What is no Exception is a signal. It broke off a call to the JVM, whose answer the next call would take for its
    # own: nothing is asked any more, the JVM ends with the process.
    stop(session)


def _index(session: "SparkSession", run: Run, progress: Progress) -> None:
    from tidegauge.spark_jobs.jobs import index
    from tidegauge.spark_jobs.session import spark_errors

    progress(f"index: {sum(1 for _ in run.snapshots)} snapshot(s)")
    with spark_errors("read the segments"):
        index(session, run)
    _say_failures(run, "index", progress)


def _derive(session: "SparkSession", run: Run, progress: Progress, met: Met) -> None:
    from tidegauge.spark_jobs.jobs import derive
    from tidegauge.spark_jobs.session import spark_errors

    progress("derive: facts")
    with _claims_met(run, met), spark_errors("derive the facts"):
        derive(session, run)
    _say_failures(run, "derive", progress)


@contextmanager
def _claims_met(run: Run, met: Met) -> Iterator[None]:
    """Whatever the block does, `met` hears what snapshots claimed that failed in it: where none is left, it raises."""
    try:
        yield
    finally:
        for failure in run.failures.all():
            if failure.claim is not None:
                met.add(failure.claim)


def _evaluate(run: Run, url: str, validate: Validate | None, progress: Progress) -> AuditResult:
    from tidegauge.audit.evaluate import evaluate

    evaluate(run, url, validate=validate, progress=progress)
    _say_failures(run, "evaluate", progress)
    return _result(run)


def _publish(run: Run, url: str, progress: Progress) -> AuditResult:
    from tidegauge.audit.publication import discard, publish

    if run.restriction.is_restricted:
        progress("not published: a look at some partitions or invariants is no verdict on the cluster")
    if run.store_url == NO_STORE or run.restriction.is_restricted:
        discard(run, url)
    else:
        publish(run, url, progress=progress)
    emptied(run.work)
    result = _result(run)
    for path in result.reports:
        report = report_file.read(path)
        with about(**{name: report["run"][name] for name in ("cluster", "snapshot_id", "run_id")}):
            progress(headline(report))
    return result


def _say_failures(run: Run, step: str, progress: Progress) -> None:
    """Says at once which snapshots a step lost: the error comes when the others are done."""
    for failure in run.failures.all():
        if failure.step == step:
            with about(snapshot=failure.snapshot):
                progress(f"{step}: {failure.snapshot} is left out: {failure.text}")
    for failure in run.failures.parts():
        if failure.step == step:
            with about(snapshot=failure.snapshot):
                progress(f"{step}: {failure.part} of {failure.snapshot} counts as unread: {failure.text}")


def _result(run: Run) -> AuditResult:
    from tidegauge.audit.evaluate import worst_at_or_above
    from tidegauge.runs.survivors import failed_snapshots, surviving

    for snapshot in failed_snapshots(run):  # What an earlier run left there is not this one's.
        report_file.forget(snapshot.target)
    reports = tuple(report_file.at(s.target) for s in surviving(run).snapshots)
    breached = any(worst_at_or_above(report_file.read(path), run.fail_on) for path in reports)
    several = len(run.snapshots) > 1 or bool(run.failures.all())
    return AuditResult(reports=reports, exit_code=1 if breached else 0, several=several)
