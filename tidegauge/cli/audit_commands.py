"""`tidegauge audit` and `tidegauge job`: an audit in one process, and step by step."""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from tidegauge.endings import EXIT_NOTHING_NEW, QUIET, progress, told
from tidegauge.parameters import PATH, PLACE

if TYPE_CHECKING:
    from tidegauge.audit.latest_snapshots import When
    from tidegauge.audit.request import AuditRequest
    from tidegauge.audit.steps import AuditResult
    from tidegauge.audit.validate_apart import Validate
    from tidegauge.snapshots.location import Location

_FAIL_ON = click.Choice(["critical", "warning", "info", "never"])
VERIFY_KEY: Final = click.option(
    "--verify-key",
    type=PATH,
    metavar="FILE",
    help="Take only what is signed by one of these public keys (PEM), and read every file against its digest first. "
    "Default: TIDEGAUGE_VERIFY_KEY.",
)
_SNAPSHOTS: Final = (
    VERIFY_KEY,
    click.option(
        "--cluster",
        help="The snapshots' cluster: names that of a plain copy, and says whose `latest` and `all` are. A snapshot "
        "whose manifest names another one is refused.",
    ),
    click.option(
        "--snapshots", "root", metavar="ROOT", help="Where `latest` and `all` look. Default: TIDEGAUGE_SNAPSHOTS."
    ),
    click.option(
        "--since", metavar="INSTANT", help="`latest` and `all`: captured at this instant, ISO 8601, or later."
    ),
    click.option("--before", metavar="INSTANT", help="`latest` and `all`: captured before this instant."),
    click.option("--as-of", metavar="INSTANT", help="`latest` and `all`: captured by this instant."),
    click.option(
        "--previous",
        metavar="SNAPSHOT",
        help="An earlier snapshot of the cluster: what changed, what is lost. 'auto': the one audited last before it; "
        "'before': the one captured last before --since.",
    ),
    click.option(
        "--summaries",
        metavar="PLACE",
        help="Where summaries of segments are kept, so that the next audit reads what is new; 'none': read everything. "
        "Default: TIDEGAUGE_SUMMARIES, else beside snapshots of 64 MB and more.",
    ),
    click.option(
        "--partition",
        "partitions",
        multiple=True,
        metavar="TOPIC-PARTITION",
        help="Look at this partition only; repeatable. A look is reported and never published.",
    ),
    click.option(
        "--invariant",
        "invariants",
        multiple=True,
        metavar="CODE",
        help="Judge this invariant only; repeatable. A look is reported and never published.",
    ),
)


def _snapshot_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_SNAPSHOTS):
        command = option(command)
    return command


def _when(**chosen: Any) -> "When":
    from tidegauge.audit.latest_snapshots import When

    return When(since=chosen["since"], before=chosen["before"], as_of=chosen["as_of"])


@click.command("audit")
@click.argument("directories", metavar="SNAPSHOT...", nargs=-1, required=True)
@_snapshot_options
@click.option("--out", required=True, type=PLACE, help="Where report.json, facts/ and data_docs/ go; may be a URL.")
@click.option(
    "--fail-on", type=_FAIL_ON, default="critical", show_default=True, help="Exit 1 at or above this severity."
)
@click.option(
    "--store", help="Postgres URL; 'none' publishes nothing. Default: TIDEGAUGE_STORE_URL, else the embedded one."
)
@click.option(
    "--master",
    help="Spark master; 'submitted': spark-submit runs this very command. Default: TIDEGAUGE_SPARK_MASTER, else "
    "local[*], or no Spark for what is read sooner than it starts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on standard output.")
@QUIET
@told
def audit_command(
    directories: tuple[str, ...],
    out: "Location",
    fail_on: str,
    store: str | None,
    master: str | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Audit snapshots: what was lost, where and why.

    SNAPSHOT is a directory or a URL; `latest` is the newest of --cluster, `all` each of the instants given. A directory
    of broker-<id>/ without a manifest is taken as a fuzzy copy. With --previous, one SNAPSHOT is audited and compared
    with an earlier one: committed records that no replica has any more are reported lost. With --previous auto each
    SNAPSHOT is compared with the newest of its cluster that was captured before it and has been audited into the same
    store, if there is one.

    If one of several SNAPSHOTs cannot be audited, its error comes at the end and decides the exit code (2, 3 or 70),
    whatever the others breach. The others are judged and published all the same.
    """
    from tidegauge.audit.validate_apart import validating

    with validating() as validate:  # First: it gets ready while the rest is imported.
        result = _audited(directories, out, store, as_json, validate, fail_on=fail_on, master=master, **chosen)
    sys.exit(result.exit_code)


def _audited(
    directories: tuple[str, ...],
    out: "Location",
    store: str | None,
    as_json: bool,
    validate: "Validate",
    *,
    fail_on: str,
    master: str | None,
    **chosen: Any,
) -> "AuditResult":
    from tidegauge import settings
    from tidegauge.audit.future_snapshots import kept
    from tidegauge.audit.latest_snapshots import resolve_all
    from tidegauge.audit.steps import audit
    from tidegauge.cli.present import print_report
    from tidegauge.snapshots.places import absolute

    def show(result: "AuditResult") -> None:
        if as_json:
            reports = [json.loads(path.read_text(encoding="utf-8")) for path in result.reports]
            click.echo(json.dumps(reports if result.several else reports[0], indent=1))
            return
        for path in result.reports:
            print_report(path, path.parent / "data_docs" / "index.html")

    with kept(store or settings.store_url(), met_by=absolute(out)) as met:
        found = resolve_all(
            directories, chosen["cluster"], _when(**chosen), root=chosen["root"], pass_over=met.pass_over
        )
        asked = _asked(found, out, store, fail_on, **chosen)
        return audit(asked, master=master, progress=progress, show=show, met=met, validate=validate)


def _asked(found: tuple[str, ...], out: "Location", store: str | None, fail_on: str, **chosen: Any) -> "AuditRequest":
    from tidegauge.audit.latest_snapshots import instant
    from tidegauge.audit.request import AuditRequest
    from tidegauge.runs.restriction import restriction
    from tidegauge.settings import trusted_by

    return AuditRequest(
        snapshots=found,
        out=out,
        fail_on=fail_on,
        store=store,
        cluster=chosen["cluster"],
        previous=chosen["previous"],
        restriction=restriction(chosen["partitions"], chosen["invariants"]),
        snapshots_root=chosen["root"],
        since=instant(chosen["since"]),
        trusted=trusted_by(chosen["verify_key"]),
        kept_summaries=chosen["summaries"],
    )


@click.command("job")
@click.argument("step", type=click.Choice(["snapshot", "index", "derive", "evaluate", "publish"]))
@click.argument("directories", metavar="[SNAPSHOT]...", nargs=-1)
@click.option(
    "--run", "run_dir", required=True, type=PLACE, help="The run directory that the steps share; may be a URL."
)
@click.option(
    "--fail-on", type=_FAIL_ON, default="critical", show_default=True, help="Kept with the run (step snapshot)."
)
@click.option("--store", help="Postgres URL, kept with the run (step snapshot).")
@_snapshot_options
@click.option(
    "--unless-published",
    is_flag=True,
    help="Leave out what this version has audited and published; exit 99 if nothing is left (step snapshot).",
)
@QUIET
@told
def job_command(
    step: str,
    directories: tuple[str, ...],
    run_dir: "Location",
    fail_on: str,
    store: str | None,
    unless_published: bool,
    **chosen: Any,
) -> None:
    """One STEP of an audit as a process of its own: what each Airflow task runs. SNAPSHOT is for the step snapshot."""
    from tidegauge.audit import steps

    if step != "snapshot":
        result = steps.step(step, run_dir, progress=progress)
        sys.exit(result.exit_code if result is not None else 0)
    if not directories:
        raise click.UsageError("Name the snapshots to audit: tidegauge job snapshot SNAPSHOT... --run DIRECTORY")
    from tidegauge import settings
    from tidegauge.audit.future_snapshots import kept
    from tidegauge.audit.latest_snapshots import resolve_all
    from tidegauge.runs.run_lock import held
    from tidegauge.snapshots.places import absolute

    with held(run_dir), kept(store or settings.store_url(), met_by=absolute(run_dir)) as met:
        found = resolve_all(
            directories, chosen["cluster"], _when(**chosen), root=chosen["root"], pass_over=met.pass_over
        )
        if unless_published:
            found = _not_published(found, store, chosen["cluster"])
            if not found:
                progress("nothing to do: what there is has been audited by this version and published")
                sys.exit(EXIT_NOTHING_NEW)
        steps.begin(_asked(found, run_dir, store, fail_on, **chosen), progress=progress, met=met)


def _not_published(found: tuple[str, ...], store: str | None, cluster: str | None) -> tuple[str, ...]:
    from tidegauge import settings
    from tidegauge.audit.judged_snapshots import not_yet
    from tidegauge.embedded.store_in_use import store_at
    from tidegauge.runs.run import NO_STORE

    given = store or settings.store_url()
    if given == NO_STORE:
        return found
    with store_at(given) as url:
        return not_yet(found, url=url, cluster=cluster)
