"""`tidegauge replay`: salvaged records, produced again to a running cluster, each once."""

import json
import os
import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tidegauge.endings import QUIET, progress, told
from tidegauge.parameters import FILE, PATH
from tidegauge.terminal import plain

if TYPE_CHECKING:
    from tidegauge.recovery.live_partition import LivePartition
    from tidegauge.recovery.replay import Plan, Rate, Replayed
    from tidegauge.recovery.replay_journal import Journal
    from tidegauge.recovery.replay_plan import Asked
    from tidegauge.recovery.salvaged import Salvage

_RATE: Final = re.compile(r"(?P<number>[0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(?P<unit>|B|kB|MB|GB)(?:/s)?")
_BYTES: Final = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def _rate(context: click.Context, param: click.Parameter, value: str | None) -> "Rate | None":
    """Records or bytes a second."""
    from tidegauge.recovery.replay import Rate

    if value is None:
        return None
    match = _RATE.fullmatch(value)
    if match is None or float(match["number"]) <= 0:
        raise click.BadParameter(f"{plain(value)} is no rate. Write records a second, such as 500, or bytes: 2MB.")
    number = float(match["number"])
    return Rate(bytes_per_s=number * _BYTES[match["unit"]]) if match["unit"] else Rate(records_per_s=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says beside the directory."""

    bootstrap: str
    client_config: Path | None
    produce: bool
    topic: str | None
    partition: int | None
    elsewhere: bool
    rate: "Rate | None"
    with_aborted: bool
    with_open: bool
    same_content: bool
    newer_values: bool
    leave_out_unfit: bool
    loss: str | None
    by: str | None
    store: str | None


@click.command("replay")
@click.argument("directory", metavar="SALVAGED", type=PATH)
@click.option("--bootstrap", required=True, metavar="HOST:PORT", help="The cluster to produce to.")
@click.option("--client-config", type=FILE, metavar="FILE", help="A client's properties, to reach the cluster.")
@click.option("--produce", is_flag=True, help="Produce. Without it the command only says what it would do.")
@click.option("--dry-run", is_flag=True, help="Only say what would be produced, which is the default.")
@click.option("--topic", help="Another topic than the one that the records were salvaged from.")
@click.option("--partition", type=click.IntRange(min=0), help="Another partition than theirs.")
@click.option("--elsewhere", is_flag=True, help="Produce though the cluster or the topic is another one by its id.")
@click.option(
    "--rate", callback=_rate, metavar="N|SIZE", help="Produce at most so many records (500) or bytes (2MB) a second."
)
@click.option("--with-aborted", is_flag=True, help="Produce records of aborted transactions, too.")
@click.option("--with-open", is_flag=True, help="Produce records of transactions that had not ended, too.")
@click.option("--same-content", is_flag=True, help="Produce, too, what is known to be there by its content alone.")
@click.option("--newer-values", is_flag=True, help="Produce, too, what replaces a newer value on a compacted topic.")
@click.option("--leave-out-unfit", is_flag=True, help="Go without records that the topic does not take.")
@click.option("--loss", metavar="ID", help="When all is produced, close this loss as produced again.")
@click.option("--by", metavar="NAME", help="Who closes the loss. Default: this machine's user.")
@click.option("--store", help="The loss's store, a Postgres URL. Default: TIDEGAUGE_STORE_URL, else the embedded one.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
@QUIET
@told
def replay_command(directory: Path, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Produce the records of SALVAGED again, each once, to the partition that lost them.

    Keys, values, headers and timestamps stay as they were. Records that the partition has already are left out, so the
    same command can be given again after it failed or was stopped. Begin without --produce: it says what would happen.
    """
    asked = Options(**options)
    if dry_run and asked.produce:
        raise click.UsageError("--dry-run and --produce contradict each other: give one.")
    if asked.loss is None and (asked.by is not None or asked.store is not None):
        raise click.UsageError("--by and --store go with --loss ID.")
    if asked.loss is not None and not asked.produce:
        raise click.UsageError("--loss goes with --produce: a loss is closed when its records are produced.")
    result, lines = _replayed(directory, asked)
    if as_json:
        click.echo(json.dumps(result, indent=1))
    else:
        for line in lines:
            click.echo(plain(line))


def _replayed(directory: Path, asked: Options) -> tuple[dict[str, object], list[str]]:
    from tidegauge.cli.replay import check_loss, dry_run_lines, plan_lines, result
    from tidegauge.kafka_log.types import TopicPartition
    from tidegauge.recovery.leader_client import LeaderClient
    from tidegauge.recovery.live_partition import LivePartition
    from tidegauge.recovery.replay import planned
    from tidegauge.recovery.replay_journal import Journal
    from tidegauge.recovery.salvaged import read_salvage
    from tidegauge.snapshots.client_config import read_client_config

    salvage = read_salvage(directory)
    origin = salvage.origin
    place = TopicPartition(
        origin.topic if asked.topic is None else asked.topic,
        origin.partition if asked.partition is None else asked.partition,
    )
    if asked.loss is not None:
        check_loss(asked.loss, salvage, asked.store)
    with ExitStack() as stack:
        client = stack.enter_context(LeaderClient(asked.bootstrap, read_client_config(asked.client_config), place))
        live = LivePartition(client=client)
        if not asked.produce:
            plan = planned(salvage, live, _wishes(asked), elsewhere=asked.elsewhere)
            return result(salvage, plan, None), [*plan_lines(salvage, plan), *dry_run_lines(directory, plan)]
        os.umask(0o077)  # The journal lies beside users' records.
        journal = stack.enter_context(Journal(directory))
        plan = planned(salvage, live, _wishes(asked), elsewhere=asked.elsewhere)
        for line in plan_lines(salvage, plan):
            progress(line)
        done = _produce(salvage, live, plan, journal, asked)
    return _finish(salvage, plan, done, asked)


def _wishes(asked: Options) -> "Asked":
    from tidegauge.recovery.replay_plan import Asked

    return Asked(
        with_aborted=asked.with_aborted,
        with_open=asked.with_open,
        same_content=asked.same_content,
        newer_values=asked.newer_values,
        leave_out_unfit=asked.leave_out_unfit,
    )


def _produce(salvage: "Salvage", live: "LivePartition", plan: "Plan", journal: "Journal", asked: Options) -> "Replayed":
    from tidegauge.recovery.replay import Rate, Replay, Replayed
    from tidegauge.recovery.replay_plan import check_fit
    from tidegauge.snapshots.errors import AuditError

    check_fit(plan.left_out, plan.target.place, plan.limits, _wishes(asked))
    done = Replayed()
    try:
        Replay(salvage, live, plan, journal, rate=asked.rate or Rate(), done=done).run()
    except KeyboardInterrupt:
        raise AuditError(
            f"Interrupted after {done.records:,} of {plan.to_produce:,} records. The same command produces the rest, "
            f"and none twice: {salvage.directory} knows which were sent."
        ) from None
    return done


def _finish(salvage: "Salvage", plan: "Plan", done: "Replayed", asked: Options) -> tuple[dict[str, object], list[str]]:
    from tidegauge.cli.replay import close_loss, finished_lines, result, why_not_closed

    told = result(salvage, plan, done)
    if asked.loss is None:
        return told, list(finished_lines(plan, done))
    why_not = why_not_closed(salvage, plan)
    if why_not is None:
        words = close_loss(asked.loss, salvage, plan, done, by=asked.by, store=asked.store)
        return told | {"loss": asked.loss}, [next(finished_lines(plan, done)), words]
    return told, [next(finished_lines(plan, done)), why_not]
