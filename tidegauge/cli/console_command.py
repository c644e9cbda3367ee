"""`tidegauge console` and `tidegauge up`: options in, servers that run until they are told to stop."""

from pathlib import Path

import click

from tidegauge.endings import progress, told
from tidegauge.parameters import PATH
from tidegauge.runs.errors import StoreError

_PORT = click.IntRange(0, 65535)


@click.command("console")
@click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL, else the embedded one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at; it asks for no password.")
@click.option("--port", type=_PORT, default=8137, show_default=True, help="Port to listen at; 0 takes a free one.")
@click.option("--docs", multiple=True, type=PATH, help="Where audits leave results; repeatable. [default: runs]")
@click.option("--root-path", default="", help="Path below which a proxy serves the console.")
@told
def console_command(store: str | None, host: str, port: int, docs: tuple[Path, ...], root_path: str) -> None:
    """Serve pages over the store: fleet, clusters, partitions with their lineage, breaches, invariants, runs, metrics.

    The pages ask for no password: put a proxy in front that does, before others than you can reach them. Directories of
    --docs are searched for report.json beside data_docs/; without it, for runs that Airflow started.
    """
    from tidegauge import settings
    from tidegauge.console.server import serve
    from tidegauge.embedded.store_in_use import store_at, store_words
    from tidegauge.store import migrate

    url = store or settings.store_url()
    if url == "none":
        raise StoreError("The console shows what a store holds, and the store is 'none'. Name a Postgres (--store).")
    roots = docs or (settings.home() / "runs",)
    framed_by = settings.console_framed_by()

    progress(f"store      {store_words(url)}")
    with store_at(url) as where:
        if url is None:
            migrate(where)
        serve(where, host=host, port=port, docs=roots, framed_by=framed_by, root_path=root_path, say=progress)


@click.command("up")
@click.option("--port", type=_PORT, default=8137, show_default=True, help="The console's port; 0 takes a free one.")
@told
def up_command(port: int) -> None:
    """Start everything to look at: Airflow, the console, data docs; Ctrl-C stops it all.

    Where the store holds no run yet, the shipped capture is audited through Airflow first, so that there is something
    to see.
    """
    from tidegauge.cli.up import up

    try:
        up(port, progress)
    except KeyboardInterrupt:
        progress("stopped")
