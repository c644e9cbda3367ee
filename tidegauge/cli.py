"""The command line. Progress goes to standard error, results to standard output.

    0   nothing at or above --fail-on
    1   breaches at or above it
    2   usage, or a snapshot that cannot be used
    3   the environment: store, Spark, disk
    70  an error of our own

An error is one paragraph: what, where, what to do; a traceback only with --debug.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from snapshots.errors import AuditError, SnapshotError
from snapshots.manifest import Consistency, Mode
from tidegauge import __version__

EXIT_BREACHES: Final = 1
EXIT_UNUSABLE: Final = 2
EXIT_ENVIRONMENT: Final = 3
EXIT_OUR_FAULT: Final = 70

_DIRECTORY = click.Path(path_type=Path)
_FAIL_ON = click.Choice(["critical", "warning", "info", "never"])


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def main(debug: bool) -> None:
    """Replication data quality for Apache Kafka: what was lost, on which broker, why, and what to run next."""
    click.get_current_context().obj = {"debug": debug}


def _told(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turns our errors into one paragraph and an exit code."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except AuditError as error:
            click.echo(f"tidegauge: {error}", err=True)
            _traceback()
            sys.exit(EXIT_UNUSABLE if isinstance(error, SnapshotError) else EXIT_ENVIRONMENT)
        except BrokenPipeError:
            # Who read the output has left (`| head`): there is nobody to tell, and Python's own flush would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(EXIT_ENVIRONMENT)
        except OSError as error:
            where = f" at {error.filename}" if error.filename else ""
            click.echo(
                f"tidegauge: the system refused{where}: {error.strerror or error}. "
                "Check permissions and free space there, then run the same command again.",
                err=True,
            )
            _traceback()
            sys.exit(EXIT_ENVIRONMENT)
        except click.exceptions.ClickException:
            raise
        except Exception as error:
            # Never 1: a breach is a result, this is a mistake of ours.
            click.echo(
                f"tidegauge: an error of its own ({type(error).__name__}: {error}). Nothing was published. "
                "Please report it with the output of the same command after `tidegauge --debug`.",
                err=True,
            )
            _traceback()
            sys.exit(EXIT_OUR_FAULT)

    return run


def _traceback() -> None:
    if click.get_current_context().find_root().obj["debug"]:
        traceback.print_exc()


def _progress(text: str) -> None:
    click.echo(text, err=True)


@main.group()
def snapshot() -> None:
    """Plain copies of log directories, made into snapshots and verified."""


@snapshot.command("adopt")
@click.argument("given", metavar="DIRECTORY")
@click.option("--cluster", required=True, help="The cluster's name in reports and in the store.")
@click.option(
    "--consistency",
    type=click.Choice([c.value for c in Consistency]),
    default=Consistency.FUZZY.value,
    show_default=True,
    help="quiesced: the cluster was stopped; atomic: one instant (a volume snapshot); fuzzy: copied while it ran.",
)
@click.option("--id", "snapshot_id", help="Snapshot id; by default the directory's name and a digest of its listing.")
@_told
def adopt_command(given: str, cluster: str, consistency: str, snapshot_id: str | None) -> None:
    """Make DIRECTORY, a plain copy of log directories (broker-<id>/ each), a snapshot: writes its MANIFEST.json."""
    from snapshots.adopt import adopt
    from snapshots.location import is_url

    if is_url(given):
        raise SnapshotError(
            f"{given} is a URL, and only a directory of this machine can be adopted. Copy it here first, or let "
            "`tidegauge capture --out URL` write it."
        )
    directory = Path(given)

    with _bar("Reading") as tick:
        adopted = adopt(
            directory,
            cluster=cluster,
            consistency=Consistency(consistency),
            snapshot_id=snapshot_id,
            progress=tick,
        )
    manifest = adopted.manifest
    files = sum(len(b.files) for b in manifest.brokers)
    click.echo(
        f"{manifest.cluster}/{manifest.snapshot_id}: {len(manifest.brokers)} brokers, {files} files, "
        f"{len(manifest.left_out)} left out. Next: tidegauge audit {directory} --out OUT"
    )


@snapshot.command("verify")
@click.argument("directory", metavar="SNAPSHOT")
@_told
def verify_command(directory: str) -> None:
    """Compare SNAPSHOT's manifest with its files. Exit 1 if they differ."""
    from snapshots.adopt import open_snapshot, verify
    from snapshots.location import location

    opened = open_snapshot(location(directory))
    with _bar("Verifying") as tick:
        problems = verify(opened, progress=tick)
    for problem in problems:
        click.echo(f"{problem.path}: {problem.reason}")
    if problems:
        sys.exit(EXIT_BREACHES)
    click.echo(f"{opened.manifest.cluster}/{opened.manifest.snapshot_id}: as its manifest says.")


class _bar:  # noqa: N801 - reads as a verb where it is used
    """A counter of files on a terminal; nothing elsewhere but a last line."""

    def __init__(self, label: str) -> None:
        self._label, self._count = label, 0

    def __enter__(self) -> Callable[[str], None]:
        return self._tick

    def _tick(self, path: str) -> None:
        self._count += 1
        if sys.stderr.isatty() and self._count % 50 == 0:
            click.echo(f"\r{self._label} {self._count} files", err=True, nl=False)

    def __exit__(self, *_: object) -> None:
        click.echo(f"\r{self._label}: {self._count} files", err=True)


@main.command("capture")
@click.option("--cluster", required=True, help="The cluster's name in reports and in the store.")
@click.option(
    "--broker", "brokers", multiple=True, metavar="ID=LOG_DIR[,LOG_DIR]", help="A broker and its log dirs; repeatable."
)
@click.option("--out", required=True, metavar="ROOT", help="Directory or URL; the snapshot is ROOT/CLUSTER/ID.")
@click.option("--id", "snapshot_id", help="Snapshot id; by default the instant, UTC. Goes on with an unfinished one.")
@click.option(
    "--mode",
    type=click.Choice([m.value for m in Mode]),
    default=Mode.FULL.value,
    show_default=True,
    help="full: every byte; headers: batch headers, Kafka's own topics and small files, no record of a user's topic.",
)
@click.option("--hash-topics", is_flag=True, help="Replace names of user topics by a keyed hash (mode headers).")
@click.option("--hash-key", type=_DIRECTORY, metavar="FILE", help="The hash's key; by default one that nobody keeps.")
@click.option("--bootstrap", metavar="HOST:PORT", help="Ask the running cluster too, and keep its answers.")
@click.option("--client-config", type=_DIRECTORY, metavar="FILE", help="A client's properties, to reach the cluster.")
@click.option("--max-mb-per-s", type=click.FloatRange(min=0, min_open=True), help="Read at most so many MB a second.")
@click.option(
    "--previous",
    metavar="SNAPSHOT",
    help="Link sealed segments that it holds; 'none' copies all. Default: the cluster's newest below ROOT.",
)
@click.option("--reread", is_flag=True, help="Read what would be linked too, and compare: finds bits that rotted.")
@click.option(
    "--consistency",
    type=click.Choice([c.value for c in Consistency]),
    default=Consistency.FUZZY.value,
    show_default=True,
    help="quiesced: the cluster is stopped; atomic: a volume snapshot of one instant; fuzzy: it runs.",
)
@click.option("--part", is_flag=True, help="Write only these brokers' share of the snapshot --id.")
@click.option("--finish", is_flag=True, help="Join the shares under --id into the snapshot.")
@click.option("--json", "as_json", is_flag=True, help="Print what was captured as JSON on standard output.")
@_told
def capture_command(as_json: bool, **options: Any) -> None:
    """Capture brokers' log directories, while they run, into one snapshot. Nothing is ever written to a log dir."""
    from tidegauge.capture import Options, run, summary

    result = run(Options(**options), say=_progress)
    click.echo(json.dumps(result, indent=1) if as_json else summary(result))


@main.command("audit")
@click.argument("directories", metavar="SNAPSHOT...", nargs=-1, required=True)
@click.option("--previous", metavar="SNAPSHOT", help="An earlier snapshot of the cluster: what changed, what is lost.")
@click.option("--out", required=True, type=_DIRECTORY, help="Where report.json, facts/ and data_docs/ go.")
@click.option(
    "--fail-on", type=_FAIL_ON, default="critical", show_default=True, help="Exit 1 at or above this severity."
)
@click.option(
    "--store", help="Postgres URL; 'none' publishes nothing. Default: TIDEGAUGE_STORE_URL, else the embedded one."
)
@click.option("--master", help="Spark master. Default: TIDEGAUGE_SPARK_MASTER, else local[*].")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on standard output.")
@_told
def audit_command(
    directories: tuple[str, ...],
    previous: str | None,
    out: Path,
    fail_on: str,
    store: str | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Audit snapshots: what was lost, where and why.

    A directory of broker-<id>/ without a manifest is taken as a fuzzy copy. With --previous, one SNAPSHOT is audited
    and compared with an earlier one: committed records that are on no replica any more are told as lost.
    """
    from tidegauge.audit import audit
    from tidegauge.present import print_report

    result = audit(
        directories, previous=previous, out=out, fail_on=fail_on, store=store, master=master, progress=_progress
    )
    if as_json:
        reports = [json.loads(path.read_text(encoding="utf-8")) for path in result.reports]
        click.echo(json.dumps(reports[0] if len(reports) == 1 else reports, indent=1))
    else:
        for path in result.reports:
            print_report(path, path.parent / "data_docs" / "index.html")
    sys.exit(result.exit_code)


@main.command("explain")
@click.argument("breach_id")
@click.option("--report", "report_dir", required=True, type=_DIRECTORY, help="The audit's --out directory.")
@_told
def explain_command(breach_id: str, report_dir: Path) -> None:
    """Print one breach's argument, its evidence and what follows from it."""
    from tidegauge.explain import explain

    for line in explain(breach_id, report_dir):
        click.echo(line)


@main.command("salvage")
@click.argument("directory", metavar="SNAPSHOT")
@click.option("--topic", required=True)
@click.option("--partition", required=True, type=click.IntRange(min=0))
@click.option("--from", "start", type=click.IntRange(min=0), default=0, show_default=True, help="First offset.")
@click.option("--to", "end", type=click.IntRange(min=0), help="Offset after the last one. Default: the log's end.")
@click.option(
    "--broker", type=click.IntRange(min=0), help="Whose copy. Default: the one that alone holds such batches."
)
@click.option("--out", required=True, type=_DIRECTORY, help="A new directory for records.jsonl and the batches.")
@_told
def salvage_command(
    directory: str, topic: str, partition: int, start: int, end: int | None, broker: int | None, out: Path
) -> None:
    """Save records that Kafka is about to truncate, as JSON Lines and as a log that Kafka's tools read."""
    from snapshots.location import location
    from tidegauge.salvage import salvage

    saved = salvage(location(directory), topic=topic, partition=partition, start=start, end=end, broker=broker, out=out)
    for reason in saved.unreadable:
        click.echo(f"not salvaged: {reason}", err=True)
    span = f" [{saved.start_offset}, {saved.end_offset})" if saved.records else ""
    click.echo(
        f"{saved.records} records of {topic}-{partition}{span} from broker {saved.broker_id} in {saved.directory}; "
        f"{saved.surviving_elsewhere} of them another copy holds too."
    )


@main.command("job")
@click.argument("step", type=click.Choice(["snapshot", "index", "derive", "evaluate", "publish"]))
@click.argument("directories", metavar="[SNAPSHOT]...", nargs=-1)
@click.option("--run", "run_dir", required=True, type=_DIRECTORY, help="The run directory that the steps share.")
@click.option(
    "--fail-on", type=_FAIL_ON, default="critical", show_default=True, help="Kept with the run (step snapshot)."
)
@click.option("--store", help="Postgres URL, kept with the run (step snapshot).")
@click.option(
    "--cluster",
    help="Names the cluster of a plain copy, and the one whose newest snapshot `latest` means (step snapshot).",
)
@click.option(
    "--previous", metavar="SNAPSHOT", help="An earlier snapshot to compare one SNAPSHOT with (step snapshot)."
)
@_told
def job_command(
    step: str,
    directories: tuple[str, ...],
    run_dir: Path,
    fail_on: str,
    store: str | None,
    cluster: str | None,
    previous: str | None,
) -> None:
    """One STEP of an audit as a process of its own: what each Airflow task runs. SNAPSHOT is for the step snapshot."""
    from tidegauge import audit as steps
    from tidegauge.latest import resolve

    if step == "snapshot":
        if not directories:
            raise click.UsageError("The step snapshot takes the snapshots to audit.")
        found = tuple(resolve(directory, cluster) for directory in directories)
        steps.begin(found, out=run_dir, fail_on=fail_on, store=store, cluster=cluster, previous=previous)
        return
    result = steps.step(step, run_dir, progress=_progress)
    sys.exit(result.exit_code if result is not None else 0)


@main.command("explore")
@click.argument(
    "model", type=click.Choice(["KafkaTruncateToHighWatermark", "Kip101", "Kip279", "Kip320FirstTry", "Kip320"])
)
@click.option("--replicas", type=int, default=3, show_default=True, help="Replicas of the one partition.")
@click.option("--log-size", type=int, default=2, show_default=True, help="Records that a log has room for.")
@click.option("--records", type=int, default=2, show_default=True, help="Records that producers write in all.")
@click.option("--max-leader-epoch", type=int, default=1, show_default=True, help="The last leader epoch, from 0.")
@click.option("--max-states", type=click.IntRange(min=1), help="Stop when this many distinct states are known.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output.")
@_told
def explore_command(
    model: str, replicas: int, log_size: int, records: int, max_leader_epoch: int, max_states: int | None, as_json: bool
) -> None:
    """Visit every state that a small partition can reach under MODEL, and tell the shortest way to a lost record.

    The models and constants are those of the public TLA+ specification of Kafka replication.
    """
    from sim_engine.explore.layout import Constants
    from tidegauge.explore import explore, report

    constants = Constants(replicas=replicas, log_size=log_size, max_records=records, max_leader_epoch=max_leader_epoch)
    result, end = explore(model, constants, max_states=max_states, progress=_progress)
    if as_json:
        click.echo(json.dumps(result, indent=1))
    else:
        for line in report(result, end):
            click.echo(line)


@main.command("simulate")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--list", "list_only", is_flag=True, help="Print the scenarios' names and what they are about.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Decides what chance decides.")
@click.option("--out", type=_DIRECTORY, help="A new directory: one snapshot with its TRUTH.json per moment.")
@click.option("--json", "as_json", is_flag=True, help="Print the story, the truth and the expected findings as JSON.")
@_told
def simulate_command(name: str | None, list_only: bool, seed: int, out: Path | None, as_json: bool) -> None:
    """Play the scenario NAME in a simulated cluster, and write its disks as snapshots whose truth is known.

    It prints the story, what truly happened, what an audit should find, and the command that audits each snapshot.
    """
    from sim_engine.scenarios.registry import SCENARIOS
    from tidegauge.simulate import listing, report, simulate

    if list_only:
        for line in listing():
            click.echo(line)
        return
    if name is None or name not in SCENARIOS:
        problem = "Name a scenario." if name is None else f"There is no scenario {name}."
        raise click.UsageError(f"{problem} The scenarios are: {', '.join(SCENARIOS)}.")
    if out is None:
        raise click.UsageError("Name a directory for the snapshots: --out DIR.")
    result = simulate(name, seed=seed, out=out)
    if as_json:
        click.echo(json.dumps(result, indent=1))
    else:
        for line in report(result):
            click.echo(line)


@main.command("demo")
@_told
def demo_command() -> None:
    """Run the main job on a shipped capture, through Airflow and an embedded Postgres, and print what it found."""
    from tidegauge.demo import demo

    sys.exit(demo())
