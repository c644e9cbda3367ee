"""`tidegauge store`: the tables and views, and how long results are kept."""

from datetime import UTC
from pathlib import Path

import click

from tidegauge.endings import told
from tidegauge.parameters import FILE, LONGEST_DAYS, PATH
from tidegauge.terminal import plain

# What we may not read is told by whoever reads it.


@click.group("store")
def store_group() -> None:
    """The Postgres in which results are kept."""


@store_group.command("migrate")
@click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL.")
@click.option(
    "--roles", is_flag=True, help="Make the roles tidegauge_reader and tidegauge_writer, or renew their rights."
)
@told
def migrate_command(store: str | None, roles: bool) -> None:
    """Bring the store's tables and views to this version's; does nothing to a store that has them, or to a newer
    version's that this one can read.
    """
    from tidegauge.store import NewerStoreError, grant_roles, migrate

    url = _named(store)
    try:
        migrate(url)
    except NewerStoreError as error:
        click.echo(plain(f"Nothing was changed. {error}"))
        return
    if roles:
        grant_roles(url)
    click.echo("The store has this version's tables and views" + (", and its roles their rights." if roles else "."))


@store_group.command("downgrade")
@click.argument("revision")
@click.option("--yes", is_flag=True, help="Do it. Without this nothing is changed, and you are told what would go.")
@click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL.")
@told
def downgrade_command(revision: str, yes: bool, store: str | None) -> None:
    """Take the store back to REVISION, the tables of an older version, such as r0031.

    What only newer versions keep goes, so dump the store first. Runs, breaches and losses stay. Stop the audits and
    consoles of the newer version before, and run `tidegauge store migrate` of the older one after it: that makes its
    views.
    """
    from tidegauge.store import downgrade

    gone = downgrade(_named(store), revision, dry_run=not yes)
    tables = f"with these tables: {', '.join(gone)}" if gone else "without a table"
    if yes:
        click.echo(f"The store has the tables of {revision}; what was newer is gone, {tables}.")
        click.echo("Next, with the older version: tidegauge store migrate")
    else:
        click.echo(
            f"Would take the store back to {revision}: what is newer goes, {tables}. Nothing was changed; give --yes."
        )


@store_group.command("retain")
@click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL.")
@click.option(
    "--keep-days", type=click.IntRange(1, LONGEST_DAYS), required=True, help="How long runs and their results stay."
)
@click.option(
    "--facts-days", type=click.IntRange(0, LONGEST_DAYS), help="How long their facts stay. Default: as the runs."
)
@click.option(
    "--runs",
    "runs_root",
    type=PATH,
    help="Run directories. Default: TIDEGAUGE_HOME/runs.",
)
@click.option("--snapshots", is_flag=True, help="Remove snapshots under TIDEGAUGE_SNAPSHOTS too, but for the newest.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@told
def retain_command(
    store: str | None, keep_days: int, facts_days: int | None, runs_root: Path | None, snapshots: bool, dry_run: bool
) -> None:
    """Remove old runs: their facts, their results, their directories, and their snapshots if asked to.

    Of each cluster the newest run stays whole, and so do the runs on which the life of an open breach rests. A snapshot
    goes when a newer one of its cluster is there that links nothing from it.
    """
    from datetime import datetime, timedelta

    from tidegauge.audit.future_snapshots import kept
    from tidegauge.cli.retention import retain
    from tidegauge.runs.run import NO_STORE

    if facts_days is not None and facts_days > keep_days:
        raise click.UsageError("--facts-days is longer than --keep-days: facts cannot outlive their run.")
    now = datetime.now(UTC)
    url = _named(store)
    with kept(NO_STORE if dry_run else url, met_by="tidegauge store retain") as met:
        for line in retain(
            url,
            now=now,
            runs_before=now - timedelta(days=keep_days),
            facts_before=now - timedelta(days=keep_days if facts_days is None else facts_days),
            runs_root=runs_root,
            with_snapshots=snapshots,
            dry_run=dry_run,
            pass_over=met.pass_over,
        ):
            click.echo(plain(line))


@store_group.command("forget")
@click.argument("cluster")
@click.option("--yes", is_flag=True, help="Remove it. Without this nothing is removed, and you are told what would be.")
@click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL, else the embedded one.")
@told
def forget_command(cluster: str, yes: bool, store: str | None) -> None:
    """Remove CLUSTER from the store: its runs, breaches and losses, acknowledgements, alerts told, and its name.

    The trail of what people said stays. Its snapshots and run directories are left alone: an audit of one of them makes
    the cluster known again.
    """
    from tidegauge import settings
    from tidegauge.embedded.store_in_use import store_at
    from tidegauge.store import forget, migrate

    with store_at(store or settings.store_url()) as url:
        migrate(url)
        gone = forget(url, cluster, dry_run=not yes)
    counted = (
        f"{gone.runs:,} runs, {gone.open_breaches:,} open breaches and {gone.undecided_losses:,} losses that nobody "
        "has decided"
    )
    if yes:
        click.echo(plain(f"{cluster} is forgotten: {counted}."))
    else:
        click.echo(plain(f"Would forget {cluster}: {counted}. Nothing was removed; give --yes."))


@store_group.command("names")
@click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL, else the embedded one.")
@told
def names_command(store: str | None) -> None:
    """List the cluster.id that each cluster's name stands for, snapshots that were refused because they have another
    one, and snapshots that are dated in the future.
    """
    from tidegauge import settings
    from tidegauge.embedded.store_in_use import store_at
    from tidegauge.store import contradictions, dated_ahead, identities, migrate
    from tidegauge.store.dated_ahead import settling_date
    from tidegauge.store.identity import settling

    with store_at(store or settings.store_url()) as url:
        migrate(url)
        known, open_ones, ahead = identities(url), contradictions(url), dated_ahead(url)
    for each in known:
        since = f"{each.known_at:%Y-%m-%d}" + (f" (snapshot {each.snapshot_id})" if each.snapshot_id else "")
        until = f" until {each.retired_at:%Y-%m-%d}" if each.retired_at is not None else ""
        by = f", as {each.settled_by} said" if each.settled_by else ""
        click.echo(plain(f"{each.cluster}  {each.cluster_id}  since {since}{until}{by}"))
    for one in open_ones:
        again = f", {one.refusals} times" if one.refusals > 1 else ""
        click.echo(
            plain(
                f"Refused{again}: {one.cluster}/{one.snapshot_id} at {one.place or 'a place not known'} is of "
                f"{one.cluster_id}, and {one.cluster} is {one.known_cluster_id}. Say which it is: "
                f"{settling(one.cluster, one.cluster_id)} --rebuilt|--not-ours"
            )
        )
    for early in ahead:
        again = f", {early.times_met} times" if early.times_met > 1 else ""
        told_there = f"{early.cluster}/{early.snapshot_id} at {early.place or 'a place not known'}"
        claimed, believed = early.claimed_at_utc, early.believed_at.astimezone(UTC)
        click.echo(
            plain(
                f"Dated in the future{again}: {told_there} says {claimed:%Y-%m-%d %H:%M} UTC, and it was "
                f"{believed:%Y-%m-%d %H:%M} UTC. Set the clock or remove it, then: {settling_date(early.cluster)}"
            )
        )


@store_group.command("settle")
@click.argument("cluster")
@click.argument("cluster_id", required=False)
@click.option(
    "--rebuilt",
    "outcome",
    flag_value="rebuilt",
    help="CLUSTER was set up again: from now on its name stands for CLUSTER_ID.",
)
@click.option(
    "--not-ours",
    "outcome",
    flag_value="not_ours",
    help="CLUSTER_ID is another cluster: its snapshots stay refused, and the alert ends.",
)
@click.option(
    "--dated-ahead",
    "outcome",
    flag_value="dated_ahead",
    help="The clock is set right, or CLUSTER's snapshots dated in the future are removed. Takes no CLUSTER_ID.",
)
@click.option("--by", required=True, metavar="NAME", help="Your name, for the record.")
@click.option("--note", default="", help="The reason, for the record.")
@click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL, else the embedded one.")
@told
def settle_command(
    cluster: str, cluster_id: str | None, outcome: str | None, by: str, note: str, store: str | None
) -> None:
    """Settle why snapshots named CLUSTER were refused: for having CLUSTER_ID, or for a date in the future.

    After --rebuilt, audit the refused snapshots of CLUSTER_ID again: they now judge the open breaches. Snapshots that
    were captured of the old cluster are still published.
    """
    from tidegauge import settings
    from tidegauge.embedded.store_in_use import store_at
    from tidegauge.store import migrate, settle, settle_dated_ahead

    if outcome is None:
        raise click.UsageError(
            "Say why: --rebuilt (the same cluster, set up again) or --not-ours (another cluster) with a CLUSTER_ID, or "
            "--dated-ahead for snapshots that are dated in the future."
        )
    if (outcome == "dated_ahead") is not (cluster_id is None):
        raise click.UsageError("--rebuilt and --not-ours need a CLUSTER_ID; --dated-ahead takes none.")
    if not by.strip():
        raise click.UsageError("--by is empty. Give your name, for the record.")
    with store_at(store or settings.store_url()) as url:
        migrate(url)
        if cluster_id is None:
            over = settle_dated_ahead(url, cluster, by=by.strip(), note=note)
            click.echo(plain(f"{cluster}: open alerts of snapshots of the future settled: {over}."))
            return
        is_rebuilt = outcome == "rebuilt"
        over = settle(url, cluster, cluster_id, "rebuilt" if is_rebuilt else "not_ours", by=by.strip(), note=note)
    meaning = f"{cluster} stands for {cluster_id} from now on" if is_rebuilt else f"{cluster_id} is not {cluster}"
    again = " Audit its snapshots again." if is_rebuilt else ""
    click.echo(plain(f"{meaning}. Open contradictions settled: {over}.{again}"))


@store_group.command("dump")
@click.argument("file", type=FILE)
@click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL, else the embedded one.")
@told
def dump_command(file: Path, store: str | None) -> None:
    """Write the whole store to FILE, as it is at one instant; audits may go on meanwhile."""
    from tidegauge import settings
    from tidegauge.cli.store_dump import dump
    from tidegauge.embedded.store_in_use import store_at
    from tidegauge.snapshots.places_above import check_above

    check_above(file)
    with store_at(store or settings.store_url()) as url:
        dump(url, file)
    click.echo(plain(f"{file}: {file.stat().st_size:,} bytes."))


@store_group.command("restore")
@click.argument("file", type=FILE)
@click.option("--store", help="Postgres URL of a database that holds no store. Default: TIDEGAUGE_STORE_URL.")
@told
def restore_command(file: Path, store: str | None) -> None:
    """Make the store that FILE holds in another database, with its roles' rights, and bring it to this version."""
    from tidegauge.cli.store_dump import restore

    restore(_named(store), file)
    click.echo("The store is restored, and has this version's tables and views.")


def _named(store: str | None) -> str:
    from tidegauge import settings

    url = store or settings.store_url()
    if url is None or url == "none":
        raise click.UsageError(
            "Which store? Give --store postgresql+psycopg2://USER@HOST/DATABASE, or TIDEGAUGE_STORE_URL."
        )
    return url
