"""Types of parameters that several commands share."""

from pathlib import Path
from typing import Final

import click

# What may not be read is told by whoever reads it, in a sentence and as exit 3; click would call it a usage error.
PATH: Final = click.Path(readable=False, path_type=Path)
FILE: Final = click.Path(readable=False, path_type=Path, dir_okay=False)
