"""What commands share by which people look and decide: in which store, what to list, who decides, why."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal

import click

STORE = click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL, else the embedded one.")
CLUSTER = click.option("--cluster", help="Only this cluster's.")
WITH_OVER = click.option("--all", "with_over", is_flag=True, help="Those that are over, too.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
NOTE = click.option("--note", required=True, help="Why, for those who ask later.")
BY = click.option("--by", metavar="NAME", help="Who decides. Default: this machine's user.")


class Lists(click.Group):
    """A group that lists where no command of it is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options of the list follow the group's name at once."""
        asks_help = bool(args) and args[0] in ctx.help_option_names
        named = bool(args) and not args[0].startswith("-")
        return super().parse_args(ctx, args if named or asks_help else ["list", *args])


@contextmanager
def migrated_store(store: str | None) -> Iterator[str]:
    """The address of the store that is named, or of the one in use, with this version's schema, for the block."""
    from tidegauge import settings
    from tidegauge.embedded.store_in_use import store_at
    from tidegauge.store import migrate

    with store_at(store or settings.store_url()) as url:
        migrate(url)
        yield url


def check_note(note: str) -> None:
    """Raises `UsageError` for a note that the store does not take."""
    from tidegauge.store.loss_decision import LONGEST_NOTE

    if len(note) > LONGEST_NOTE:
        raise click.UsageError(f"The note has {len(note):,} characters; {LONGEST_NOTE:,} fit.")


def json_value(value: object) -> object:
    """A value of the store as `--json` prints it: instants in UTC, sums as whole numbers."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return int(value) if isinstance(value, Decimal) else value


def user() -> str:
    """Whoever this process runs as, by number where the system has no name for that."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        from os import getuid

        return f"user {getuid()}"
