"""`tidegauge explain` and `tidegauge salvage`: what to do about a breach, as commands."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.endings import progress, told
from tidegauge.parameters import PATH, PLACE
from tidegauge.terminal import plain

if TYPE_CHECKING:
    from tidegauge.snapshots.location import Location


@click.command("explain")
@click.argument("breach_id")
@click.option("--report", "report_dir", type=PLACE, help="The audit's --out directory, or its URL.")
@click.option("--store", help="Postgres URL. Default, without --report: TIDEGAUGE_STORE_URL, else the embedded one.")
@told
def explain_command(breach_id: str, report_dir: "Location | None", store: str | None) -> None:
    """Explain one breach: its argument and evidence, the replica to believe, a timeline from the metadata log, the
    breaches that follow from it, the runbook, the next command.
    """
    from tidegauge import settings
    from tidegauge.audit.explained import from_report, from_store
    from tidegauge.cli.explain import lines
    from tidegauge.embedded.store_in_use import store_at

    if report_dir is not None and store is not None:
        raise click.UsageError("Name --report or --store, not both.")
    if report_dir is not None:
        found = from_report(breach_id, report_dir)
    else:
        with store_at(store or settings.store_url()) as url:
            found = from_store(breach_id, url)
    for line in lines(found):
        click.echo(line)


@click.command("salvage")
@click.argument("directory", metavar="SNAPSHOT")
@click.option("--topic", required=True)
@click.option("--partition", required=True, type=click.IntRange(min=0))
@click.option(
    "--from", "start", type=click.IntRange(min=0), help="First offset. Default: the first that no surviving copy holds."
)
@click.option("--to", "end", type=click.IntRange(min=0), help="Offset after the last one. Default: the log's end.")
@click.option(
    "--broker", type=click.IntRange(min=0), help="Whose copy. Default: the one that holds what the leader lacks."
)
@click.option("--out", required=True, type=PATH, help="A new directory for records.jsonl and the batches.")
@told
def salvage_command(
    directory: str, topic: str, partition: int, start: int | None, end: int | None, broker: int | None, out: Path
) -> None:
    """Save records that Kafka is about to truncate, or that only a dead disk holds, so that you can produce them again.

    OUT gets records.jsonl, with one record a line, and whether a surviving copy has the same record (by producer id,
    epoch and sequence, or by content); <topic>-<partition>/, the same batches as a log that a broker and
    kafka-dump-log.sh can read; and salvage.json, the counts.
    """
    from tidegauge.recovery.salvage import salvage
    from tidegauge.snapshots.location import location

    os.umask(0o077)  # What is written are users' records.
    saved = salvage(location(directory), topic=topic, partition=partition, start=start, end=end, broker=broker, out=out)
    for reason in saved.unreadable:
        progress(f"not salvaged: {reason}")
    for reason in saved.survivors_unreadable:
        progress(f"not compared, so it may hold records that are reported as to be produced again: {reason}")
    span = f" [{saved.start_offset}, {saved.end_offset})" if saved.records else ""
    click.echo(
        plain(
            f"{saved.records} records of {topic}-{partition}{span} from broker {saved.broker_id} in {saved.directory}; "
            f"{saved.surviving_elsewhere} of them another copy holds too."
        )
    )
    same = ", ".join(f"{count} by {by}" for by, count in saved.duplicates.items() if count)
    stay = ", ".join(map(str, saved.survivors)) or "nobody"
    click.echo(
        f"Surviving on broker {stay}: {sum(saved.duplicates.values())}{f' ({same})' if same else ''}. "
        f"Aborted: {saved.aborted}. To produce again: {saved.to_produce_again}."
    )
