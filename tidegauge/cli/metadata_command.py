"""The command `tidegauge metadata`: its options, and what it prints.

In: arguments. Out: the image of an offset, or what two images tell differently, as lines or as JSON. Whatever it knows
is in `tidegauge.cli.metadata`, which is imported when the command runs.
"""

import json

import click

from tidegauge.endings import told
from tidegauge.terminal import plain


@click.command("metadata")
@click.argument("directory", metavar="SNAPSHOT")
@click.option(
    "--at", type=click.IntRange(min=0), metavar="OFFSET", help="All below this offset. Default: the log's end."
)
@click.option("--against", type=click.IntRange(min=0), metavar="OFFSET", help="Compare with the image of this offset.")
@click.option("--node", type=click.IntRange(min=0), help="Compare with this node's own snapshot and log.")
@click.option("--kind", "kinds", multiple=True, help="Only entries of this kind: config, quota, acl, partition, …")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON on standard output.")
@told
def metadata_command(
    directory: str, at: int | None, against: int | None, node: int | None, kinds: tuple[str, ...], as_json: bool
) -> None:
    """Rebuild the metadata image of an offset, or compare two.

    The image is everything that the metadata log says below an offset: features, brokers, controllers, topics,
    partitions, configs, quotas, producer ids, ACLs, SCRAM credentials and delegation tokens. Salts, keys and passwords
    are never shown.
    """
    from tidegauge.cli import metadata
    from tidegauge.facts.metadata.image import KINDS
    from tidegauge.snapshots.location import location

    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: the kinds are {', '.join(KINDS)}", param_hint="--kind")
    shown = metadata.metadata(location(directory), at=at, against=against, node_id=node, kinds=kinds)
    if as_json:
        click.echo(json.dumps(metadata.as_json(shown), indent=2))
    else:
        for line in metadata.as_lines(shown):
            click.echo(plain(line))
