"""`tidegauge status`: what there is, and what runs."""

import json
import sys

import click

from tidegauge.endings import EXIT_ENVIRONMENT, told


@click.command("status")
@click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL, else the embedded one.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
@told
def status_command(store: str | None, as_json: bool) -> None:
    """Say how this installation stands: store, snapshots, newest runs, waiting losses, processes, versions.

    It starts nothing. An embedded Postgres that is stopped is told as stopped, and stays so. Exit 3 if a store that
    should run cannot be asked.
    """
    from tidegauge.cli.status import as_object, lines, status

    found = status(store)
    if as_json:
        click.echo(json.dumps(as_object(found), indent=1))
    else:
        for line in lines(found):
            click.echo(line)
    if not found.is_well:
        sys.exit(EXIT_ENVIRONMENT)
