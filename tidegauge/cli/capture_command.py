"""The command `capture`: of `tidegauge`, and, alone, of the package `tidegauge-capture` for brokers' machines."""

import json
from typing import Any

import click

from tidegauge.endings import QUIET, progress, told, warning
from tidegauge.parameters import AMOUNT, CONSISTENCY, PATH
from tidegauge.snapshots.manifest import Mode
from tidegauge.terminal import plain


@click.command("capture")
@click.option("--cluster", required=True, help="The cluster's name in reports and in the store.")
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    metavar="ID=LOG_DIR[,LOG_DIR]",
    help="A node (broker or controller) and its directories: log.dirs and metadata.log.dir; repeatable.",
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
@click.option("--hash-key", type=PATH, metavar="FILE", help="The hash's key; by default a random one that is not kept.")
@click.option("--bootstrap", metavar="HOST:PORT", help="Ask the running cluster too, and keep its answers.")
@click.option("--client-config", type=PATH, metavar="FILE", help="A client's properties, to reach the cluster.")
@click.option("--max-mb-per-s", type=AMOUNT, help="Read at most so many MB a second.")
@click.option(
    "--previous",
    metavar="SNAPSHOT",
    help="Link sealed segments that it holds; 'none' copies all. Default: the cluster's newest below ROOT.",
)
@click.option("--reread", is_flag=True, help="Read what would be linked too, and compare: finds bits that rotted.")
@CONSISTENCY
@click.option(
    "--copied",
    is_flag=True,
    help="The log dirs are copies, such as volume snapshots, to which nobody writes: when they are read says nothing.",
)
@click.option(
    "--sign",
    type=PATH,
    metavar="FILE",
    help="Sign the snapshot or share with this private key (PEM, Ed25519).",
)
@click.option("--part", is_flag=True, help="Write only these brokers' share of the snapshot --id.")
@click.option("--finish", is_flag=True, help="Join the shares under --id into the snapshot.")
@click.option(
    "--expect",
    metavar="ID,ID,...",
    help="With --finish: end with 3, and join nothing, until each of these nodes has a share.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was captured as JSON on standard output.")
@QUIET
@told
def capture_command(as_json: bool, **options: Any) -> None:
    """Capture brokers' log directories, while they run, into one snapshot. Nothing is ever written to a log dir."""
    from tidegauge.cli.capture import Options, run, summary

    result = run(Options(**options), say=progress, warn=warning)
    click.echo(json.dumps(result, indent=1) if as_json else plain(summary(result)))
