"""Types of parameters that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tidegauge.snapshots.manifest import Consistency

if TYPE_CHECKING:
    from tidegauge.snapshots.location import Location

# What may not be read is told by whoever reads it, in a sentence and as exit 3; click would call it a usage error.
PATH: Final = click.Path(readable=False, path_type=Path)
FILE: Final = click.Path(readable=False, path_type=Path, dir_okay=False)
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
            return location(value)
        path: Path = super().convert(value, param, ctx)  # type: ignore[assignment]
        return path


PLACE: Final = _Place(readable=False, path_type=Path)
