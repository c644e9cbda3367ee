"""`tidegauge gx`: the catalogue for who works with Great Expectations."""

from pathlib import Path

import click

from tidegauge.endings import told
from tidegauge.parameters import PATH
from tidegauge.terminal import plain


@click.group("gx")
def gx_group() -> None:
    """The invariants as a project of Great Expectations."""


@gx_group.command("export")
@click.argument("directory", metavar="DIR", type=PATH)
@click.option(
    "--cluster", "clusters", multiple=True, metavar="NAME", help="Judge this cluster; repeatable. Default: every one."
)
@told
def export_command(directory: Path, clusters: tuple[str, ...]) -> None:
    """Write a project that Great Expectations opens by itself to DIR, or renew it there.

    Suites, data source, validation definitions, a checkpoint and a data docs site, over the newest published run of
    each cluster. It holds no password and asks no store: the project reads the store's address from the environment
    variable TIDEGAUGE_STORE_URL when its checkpoint runs.
    """
    from tidegauge.cli.gx_export import export

    click.echo(plain(export(directory, clusters=clusters)))
    click.echo(
        plain(
            'Next: in Python, great_expectations.get_context(mode="file", project_root_dir=DIR)'
            '.checkpoints.get("tidegauge").run()'
        )
    )
