"""Where a snapshot lies: a directory of this machine, or one in an object store, by URL.

In: what a user names. Out: a path whose methods are those of `pathlib`, on either. The rule that must hold: whoever
reads a snapshot asks for no more than `location / path`, `open("rb")`, `read_bytes` and `stat().st_size`, and handles
`OSError`.
"""

import re
from io import BufferedReader
from pathlib import Path
from typing import Final, cast

from upath import UPath

Location = Path | UPath

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def is_url(text: str) -> bool:
    """Whether this names an object store, not a path."""
    return _URL.match(text) is not None


def location(text: str) -> Location:
    """The place that a path or a URL (`s3://bucket/prefix`) names; a path becomes absolute."""
    if is_url(text) and not text.lower().startswith("file://"):
        return UPath(text)
    return Path(text.removeprefix("file://")).resolve()


def open_bytes(path: Location) -> BufferedReader:
    """Opens a file to be read, `readinto` included. Raises `OSError`."""
    return cast(BufferedReader, path.open("rb"))
