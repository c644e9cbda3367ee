"""What commands share by which people decide: who decides, why, in which store; and groups that list what there is."""

import getpass

import click

STORE = click.option("--store", help="Postgres URL. Default: TIDEGAUGE_STORE_URL, else the embedded one.")
NOTE = click.option("--note", required=True, help="Why, for those who ask later.")
BY = click.option("--by", metavar="NAME", help="Who decides. Default: this machine's user.")


class Lists(click.Group):
    """A group that lists where no command of it is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options of the list follow the group's name at once."""
        asks_help = bool(args) and args[0] in ctx.help_option_names
        named = bool(args) and not args[0].startswith("-")
        return super().parse_args(ctx, args if named or asks_help else ["list", *args])


def user() -> str:
    """Whoever this process runs as, by number where the system has no name for that."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        from os import getuid

        return f"user {getuid()}"
