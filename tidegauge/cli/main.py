"""The command line. Progress goes to standard error, results to standard output.

    0   nothing at or above --fail-on
    1   breaches at or above it
    2   usage, or a snapshot that cannot be used
    3   the environment: store, Spark, disk
    70  an error of our own

An error is one paragraph: what, where, what to do; a traceback only with --debug.
"""

import json
import sys
from pathlib import Path

import click

from tidegauge import __version__
from tidegauge.alerts.command import alerts
from tidegauge.cli.airflow_command import airflow_command
from tidegauge.cli.audit_commands import VERIFY_KEY, audit_command, job_command
from tidegauge.cli.breach_commands import explain_command, salvage_command
from tidegauge.cli.capture_command import capture_command
from tidegauge.cli.console_command import console_command, up_command
from tidegauge.cli.gx_commands import gx_group
from tidegauge.cli.incidents_command import incidents_group, plan_command
from tidegauge.cli.losses_command import losses_group
from tidegauge.cli.metadata_command import metadata_command
from tidegauge.cli.replay_command import replay_command
from tidegauge.cli.restart_command import restart_check_command
from tidegauge.cli.status_command import status_command
from tidegauge.cli.store_commands import store_group
from tidegauge.cli.visibility_command import visibility_command
from tidegauge.dev.command import dev_group
from tidegauge.endings import (
    EXIT_BREACHES,
    EXIT_ENVIRONMENT,
    EXIT_OUR_FAULT,
    EXIT_UNUSABLE,
    QUIET,
    Told,
    begin,
    forget_at_the_end,
)
from tidegauge.endings import progress as _progress
from tidegauge.endings import told as _told
from tidegauge.endings import warning as _warning
from tidegauge.parameters import AMOUNT, CONSISTENCY, PATH, must_say_something
from tidegauge.progress import working
from tidegauge.scoring.command import score_command
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import Consistency
from tidegauge.terminal import plain

__all__ = ["EXIT_BREACHES", "EXIT_ENVIRONMENT", "EXIT_OUR_FAULT", "EXIT_UNUSABLE", "main"]

# Those of tidegauge.sim_engine.explore.rules.Model, which takes a second to import.
_MODELS = ("TruncateToHighWatermark", "Kip101", "Kip279", "Kip320FirstTry", "Kip320", "KafkaTruncateToHighWatermark")


@click.group(cls=Told, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def main(debug: bool) -> None:
    """Replication data quality for Apache Kafka: what was lost, on which broker, why, and what to run next."""
    context = click.get_current_context()
    context.obj = {"debug": debug}
    begin(context.invoked_subcommand)
    forget_at_the_end(context)


main.add_command(airflow_command)
main.add_command(alerts)
main.add_command(audit_command)
main.add_command(capture_command)
main.add_command(console_command)
main.add_command(dev_group)
main.add_command(explain_command)
main.add_command(gx_group)
main.add_command(job_command)
main.add_command(incidents_group)
main.add_command(plan_command)
main.add_command(losses_group)
main.add_command(metadata_command)
main.add_command(replay_command)
main.add_command(restart_check_command)
main.add_command(salvage_command)
main.add_command(status_command)
main.add_command(store_group)
main.add_command(up_command)
main.add_command(visibility_command)


@main.group()
def snapshot() -> None:
    """Plain copies of log directories, made into snapshots and verified."""


@snapshot.command("adopt")
@click.argument("given", metavar="DIRECTORY")
@click.option("--cluster", required=True, help="The cluster's name in reports and in the store.")
@CONSISTENCY
@click.option("--id", "snapshot_id", help="Snapshot id; by default the directory's name and a digest of its listing.")
@QUIET
@_told
def adopt_command(given: str, cluster: str, consistency: str, snapshot_id: str | None) -> None:
    """Make DIRECTORY, a plain copy of log directories (broker-<id>/ each), a snapshot: writes its MANIFEST.json."""
    from tidegauge.snapshots.adopt import adopt
    from tidegauge.snapshots.listing import counted
    from tidegauge.snapshots.location import is_url
    from tidegauge.snapshots.settled import settled

    if is_url(given):
        raise SnapshotError(
            f"{given} is a URL, and only a directory of this machine can be adopted. Copy it here first, or let "
            "`tidegauge capture --out URL` write it."
        )
    directory = Path(given)

    with working("adopt", "files") as advance:
        adopted = adopt(
            directory,
            cluster=cluster,
            consistency=Consistency(consistency),
            snapshot_id=snapshot_id,
            progress=lambda path: advance(1),
        )
    manifest = adopted.manifest
    for foreign in settled(directory, manifest).foreign:
        _warning(f"Warning: {foreign.path}: {foreign.reason}. An audit will not count it.")
    files = sum(len(b.files) for b in manifest.brokers)
    click.echo(
        plain(
            f"{manifest.cluster}/{manifest.snapshot_id}: {counted(manifest)}, {files} files, "
            f"{len(manifest.left_out)} left out. Next: tidegauge audit {directory} --out OUT"
        )
    )


@snapshot.command("verify")
@click.argument("directory", metavar="SNAPSHOT")
@VERIFY_KEY
@QUIET
@_told
def verify_command(directory: str, verify_key: Path | None) -> None:
    """Compare SNAPSHOT's manifest with its files. Exit 1 if they differ, 2 if it is not signed as --verify-key asks."""
    from tidegauge.settings import trusted_by
    from tidegauge.snapshots.adopt import open_snapshot
    from tidegauge.snapshots.location import location
    from tidegauge.snapshots.verification import verify

    trusted = trusted_by(verify_key)
    opened = open_snapshot(location(directory), settle=False, trusted=trusted)
    with working("verify", "files", parts=sum(len(b.files) for b in opened.manifest.brokers)) as advance:
        problems = verify(opened, all_digests=trusted is not None, progress=lambda path: advance(1))
    for problem in problems:
        click.echo(plain(f"{problem.path}: {problem.reason}"))
    if problems:
        sys.exit(EXIT_BREACHES)
    click.echo(plain(f"{opened.manifest.cluster}/{opened.manifest.snapshot_id}: as its manifest says."))


@main.command("explore")
@click.argument("model", type=click.Choice(_MODELS))
@click.option("--replicas", type=int, default=3, show_default=True, help="Replicas of the one partition.")
@click.option("--log-size", type=int, default=2, show_default=True, help="Records that a log has room for.")
@click.option(
    "--records", "max_records", type=int, default=2, show_default=True, help="Records that producers write in all."
)
@click.option("--max-leader-epoch", type=int, default=1, show_default=True, help="The last leader epoch, from 0.")
@click.option("--max-states", type=click.IntRange(min=1), help="Stop when this many distinct states are known.")
@click.option(
    "--out", type=PATH, help="A new directory: the disks of the state that lost a record, and its TRUTH.json."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output.")
@_told
def explore_command(model: str, max_states: int | None, out: Path | None, as_json: bool, **constants: int) -> None:
    """Visit every state that a small partition can reach under MODEL, and print the shortest way to a lost record.

    The models and constants are those of the public TLA+ specification of Kafka replication, where the first model is
    called KafkaTruncateToHighWatermark; either name will do.
    """
    from tidegauge.cli.explore import explore, report
    from tidegauge.sim_engine.explore.layout import Constants

    result, end = explore(model, Constants(**constants), max_states=max_states, progress=_progress, out=out)
    if as_json:
        click.echo(json.dumps(result, indent=1))
    else:
        for line in report(result, end):
            click.echo(plain(line))


@main.command("simulate")
@click.argument("name", metavar="[NAME|FILE]", required=False)
@click.option("--list", "list_only", is_flag=True, help="Print the scenarios and the kinds of faults.")
@click.option("--seed", type=click.IntRange(min=0), help="Decides what chance decides; a scenario's is 1 by default.")
@click.option("--faults", metavar="KIND,KIND|none|all", help="What may befall a random world.  [default: none]")
@click.option("--hours", type=AMOUNT, help="How long a random world lives.")
@click.option("--out", type=PATH, help="A new directory: one snapshot with its TRUTH.json per moment.")
@click.option("--json", "as_json", is_flag=True, help="Print what happened and the expected findings as JSON.")
@QUIET
@_told
def simulate_command(
    name: str | None,
    list_only: bool,
    seed: int | None,
    faults: str | None,
    hours: float | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Play a scenario, or the random world of a --seed, in a simulated cluster, and write snapshots of it.

    NAME is a scenario of ours, FILE a YAML file with one of yours. It prints what truly happened, what an audit should
    find, and the command that audits each snapshot. The same seed gives the same bytes.
    """
    from tidegauge.cli.simulate import is_file, listing, report, scenario_named, simulate
    from tidegauge.cli.simulate_random import fault_listing, kinds_asked, random_report, simulate_random
    from tidegauge.sim_engine.scenarios.registry import SCENARIOS

    if list_only:
        for line in ("Scenarios:", *listing(), "", "Kinds of faults for random worlds (--faults):", *fault_listing()):
            click.echo(plain(line))
        return
    if name is None and seed is None:
        raise click.UsageError(
            f"Name a scenario, or give a random world's --seed. The scenarios are: {', '.join(SCENARIOS)}."
        )
    if name is not None and name not in SCENARIOS and not is_file(name):
        raise click.UsageError(
            f"There is no scenario {name}, and no file of that name. The scenarios are: {', '.join(SCENARIOS)}."
        )
    if name is not None and (faults is not None or hours is not None):
        raise click.UsageError("--faults and --hours are for random worlds: leave the scenario's name out.")
    if out is None:
        raise click.UsageError("Name a directory for the snapshots: --out DIR.")
    if name is not None:
        result = simulate(scenario_named(name), seed=1 if seed is None else seed, out=out)
        lines = report(result)
    else:
        assert seed is not None
        result = simulate_random(seed, faults=kinds_asked(faults), hours=hours, out=out)
        lines = random_report(result)
    if as_json:
        click.echo(json.dumps(result, indent=1))
    else:
        for line in lines:
            click.echo(plain(line))


main.add_command(score_command)


@main.command("demo")
@_told
def demo_command() -> None:
    """Run the main job on a shipped capture, through Airflow and an embedded Postgres, and print what it found."""
    from tidegauge.cli.demo import demo

    sys.exit(demo())


_ONE = {
    "audit": "a breach at or above --fail-on, or records that are lost or may be",
    "job": "breaches at or above --fail-on (steps evaluate and publish)",
    "losses list": "a loss waits for a decision",
    "restart-check": "a start would cut committed records, or it is not known",
    "score": "something was missed, or an alarm was false",
    "snapshot verify": "files differ from the manifest",
}
"""Commands whose exit code 1 is a result, and which; docs/reference/exit-codes.md says it, too."""


def _completed(group: click.Group, *names: str) -> None:
    """Every command's help ends with how it may end, and no command takes an empty text for a value."""
    for name, command in group.commands.items():
        path = (*names, name)
        if isinstance(command, click.Group):
            _completed(command, *path)
        else:
            one = f"1 {told}; " if (told := _ONE.get(" ".join(path))) else ""
            command.epilog = f"Exit: 0 done; {one}2 usage, or what cannot be used; 3 the environment; 70 our own error."
            must_say_something(command)


_completed(main)
