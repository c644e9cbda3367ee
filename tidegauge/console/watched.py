"""Whether what a console was started with still holds: a directory of secrets in, an answer out.

Kubernetes renews the files of a Secret that is mounted, and never the environment of a container that runs. A console
whose secrets have changed since it began is to begin anew, and whoever asks whether it is alive makes it.
"""

import hashlib
from pathlib import Path
from typing import Final

from tidegauge.runs.errors import UnavailableError

_LONGEST: Final = 1 << 20


class Watched:
    """The files directly in a directory, as they were when this began. Raises `UnavailableError` if it cannot be read.

    Of each file the first MiB counts. Names that begin with a dot do not: through them Kubernetes exchanges the others.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._began_with = self._digests()

    def changed(self) -> list[str]:
        """The names of the files that came, went or have another content by now."""
        now = self._digests()
        return sorted(name for name in now.keys() | self._began_with if now.get(name) != self._began_with.get(name))

    def _digests(self) -> dict[str, bytes]:
        try:
            return {
                path.name: _digest(path)
                for path in self._directory.iterdir()
                if not path.name.startswith(".") and path.is_file()
            }
        except OSError as error:
            raise UnavailableError(
                f"TIDEGAUGE_CONSOLE_WATCHED: cannot read {error.filename}: {error.strerror}. Name a directory whose "
                "files the console may read, or leave the variable out."
            ) from error


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.sha256(file.read(_LONGEST)).digest()
