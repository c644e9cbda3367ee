"""`tidegauge alerts`: the commands, for a terminal and for a DAG's tasks."""

from pathlib import Path

import click

from tidegauge import settings
from tidegauge.endings import progress, told
from tidegauge.parameters import PATH


def _config(path: Path | None) -> Path:
    found = path or settings.alerts_file()
    if found is None:
        raise click.UsageError("No alerts file is named. Name it with --config or TIDEGAUGE_ALERTS.")
    return found


@click.group("alerts")
def alerts() -> None:
    """Who is told of breaches, of their end, and of clusters that nobody audits."""


@alerts.command("send")
@click.option("--config", type=PATH, help="The alerts file. Default: TIDEGAUGE_ALERTS.")
@click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL, else the embedded one.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent, and send nothing.")
@told
def send_command(config: Path | None, store: str | None, dry_run: bool) -> None:
    """Send each channel what is new for it: each breach once when it is found, and once when it is over."""
    from tidegauge.alerts.config import read
    from tidegauge.alerts.send import send
    from tidegauge.embedded.store_in_use import store_at, store_words

    alerting = read(_config(config))
    progress(f"store      {store_words(store or settings.store_url())}")
    with store_at(store or settings.store_url()) as url:
        count = send(alerting, url, say=progress, dry=dry_run)
    click.echo(f"{count} to tell." if dry_run else f"{count} told.")


@alerts.command("test")
@click.option("--config", type=PATH, help="The alerts file. Default: TIDEGAUGE_ALERTS.")
@click.option("--channel", "channels", multiple=True, help="Only this one; repeatable.")
@told
def test_command(config: Path | None, channels: tuple[str, ...]) -> None:
    """Send every channel a message that says nothing is wrong."""
    from tidegauge.alerts.config import read
    from tidegauge.alerts.send import test

    alerting = read(_config(config))
    unknown = set(channels) - {channel.name for channel in alerting.channels}
    if unknown:
        raise click.UsageError(f"There is no channel {', '.join(sorted(unknown))} in {_config(config)}.")
    test(alerting, channels, say=progress)
