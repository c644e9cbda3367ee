"""Types of parameters that several commands share."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tidegauge.endings import ended
from tidegauge.snapshots.errors import AuditError
from tidegauge.snapshots.manifest import Consistency

if TYPE_CHECKING:
    from tidegauge.snapshots.location import Location

# What may not be read is told by whoever reads it, in a sentence and as exit 3; click would call it a usage error.
PATH: Final = click.Path(readable=False, path_type=Path)
FILE: Final = click.Path(readable=False, path_type=Path, dir_okay=False)
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


class _Place(click.Path):
    """A directory, or the URL of a place in an object store."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Location":  # type: ignore[override]
        from tidegauge.snapshots.location import is_url, location

        if isinstance(value, str) and is_url(value):
            try:
                return location(value)
            except AuditError as error:
                raise ended(error) from error
        path: Path = super().convert(value, param, ctx)  # type: ignore[assignment]
        return path


PLACE: Final = _Place(readable=False, path_type=Path)
