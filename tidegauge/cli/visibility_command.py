"""The command `tidegauge visibility`: its options, and what it prints.

In: arguments. Out: what consumers see of each batch of a replica, as lines or as JSON. Whatever it knows is in
`tidegauge.cli.visibility`, which is imported when the command runs.
"""

import json

import click

from tidegauge.endings import told
from tidegauge.terminal import plain


@click.command("visibility")
@click.argument("directory", metavar="SNAPSHOT")
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", required=True, type=click.IntRange(min=0), help="Its partition.")
@click.option("--from", "start", type=click.IntRange(min=0), default=0, show_default=True, help="First offset.")
@click.option("--to", "end", type=click.IntRange(min=0), help="Offset after the last one. Default: the log's end.")
@click.option("--broker", type=click.IntRange(min=0), help="Whose copy. Default: the leader's.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output, a batch an element.")
@told
def visibility_command(
    directory: str, topic: str, partition: int, start: int, end: int | None, broker: int | None, as_json: bool
) -> None:
    """List a replica's batches: whether each is part of a committed, aborted or open transaction, which consumers read
    it (read_uncommitted, read_committed), and why. WRONG marks a batch that the transaction index shows to consumers
    otherwise than the end markers say.
    """
    from tidegauge.cli.visibility import replica_visibility
    from tidegauge.snapshots.location import location

    seen = replica_visibility(
        location(directory), topic=topic, partition=partition, start=start, end=end, broker=broker
    )
    if as_json:
        click.echo(json.dumps(seen.as_json()))
        return
    for line in seen.lines():
        click.echo(plain(line))
