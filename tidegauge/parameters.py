"""Types of parameters that several commands share.

The rule that must hold: no option and no argument is an empty text unless that is its default. A shell leaves one where
a variable is not set, and it would stand for something else: for this directory as a path, for another store than the
one that was meant, for the default of an id under which several shares were to meet.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.types import StringParamType

from tidegauge.endings import ended
from tidegauge.snapshots.errors import AuditError
from tidegauge.snapshots.manifest import Consistency, is_text
from tidegauge.terminal import plain

if TYPE_CHECKING:
    from tidegauge.snapshots.location import Location


def _must_say(kind: click.ParamType[Any], value: Any, param: click.Parameter | None, ctx: click.Context | None) -> None:
    """Fails for a text that names nothing, or that no argument of a process could be."""
    if value == "":
        kind.fail("it is empty. Is a variable of the shell not set? Give a value, or leave it out.", param, ctx)
    if isinstance(value, str) and "\0" in value:
        kind.fail(f"{plain(value)} holds a NUL, which nothing can be called by. Give a value without.", param, ctx)


class _Path(click.Path):
    """A path that can stand in a report and in JSON, as each of ours does.

    What may not be read is told by whoever reads it, in a sentence and as exit 3; click would call it a usage error.
    """

    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(readable=False, path_type=Path, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        _must_say(self, value, param, ctx)
        if isinstance(value, str) and not is_text(value):
            self.fail(f"{plain(value)} is no UTF-8. Name a path that is.", param, ctx)
        path: Path = super().convert(value, param, ctx)  # type: ignore[assignment]
        return path


class _Text(StringParamType):
    """What click takes for a text, and not the empty one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        _must_say(self, value, param, ctx)
        return super().convert(value, param, ctx)


PATH: Final = _Path()
FILE: Final = _Path(dir_okay=False)
LONGEST_DAYS: Final = 365_000
"""A thousand years: what any calendar still reaches back from today."""


class _Amount(click.FloatRange):
    """A number above 0 that can be reckoned with: neither infinite nor "nan", which is in every range to click."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True, max=1_000_000_000)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return found


AMOUNT: Final = _Amount()
CONSISTENCY: Final = click.option(
    "--consistency",
    type=click.Choice([c.value for c in Consistency]),
    default=Consistency.FUZZY.value,
    show_default=True,
    help="quiesced: the cluster is stopped; atomic: a copy of one instant (a volume snapshot); fuzzy: it runs.",
)


class _Place(_Path):
    """A directory, or the URL of a place in an object store."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Location":  # type: ignore[override]
        from tidegauge.snapshots.location import is_url, location

        if isinstance(value, str) and is_url(value):
            try:
                return location(value)
            except AuditError as error:
                raise ended(error) from error
        return super().convert(value, param, ctx)


_TEXT: Final = _Text()
PLACE: Final = _Place()


def must_say_something(command: click.Command) -> None:
    """Lets a command refuse an empty text wherever it takes one, but for an option that is empty by itself."""
    for parameter in command.params:
        if parameter.type is click.STRING and parameter.default != "":
            parameter.type = _TEXT
