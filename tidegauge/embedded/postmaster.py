"""What a Postgres server says of itself in `postmaster.pid`: a data directory in, its process and its socket out.

Nothing is started, made or changed here, and no server is asked anything but whether somebody listens.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegauge.embedded.postgres_place import SOCKET_NAME
from tidegauge.snapshots.local_path import LocalPath

_LINES: Final = 8
"""Of postmaster.pid (Postgres's pidfile.h): the first is the process, the fifth the socket's directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """A server's process and where its socket is."""

    pid: int
    socket_directory: Path

    @property
    def listens(self) -> bool:
        """Whether a server is behind the socket; one that was killed leaves the file."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            try:
                asking.connect(str(self.socket_directory / SOCKET_NAME))
            except OSError:
                return False
            return True

    @property
    def is_alive(self) -> bool:
        """Whether the process is there, or another one that has got its number since."""
        return _is_alive(self.pid)


def postmaster(data: Path) -> Postmaster | None:
    """None where no server runs, and none was killed. Raises `OSError`."""
    lines = _pid_file(data)
    if len(lines) < _LINES or not lines[0].isdecimal():
        return None  # It died before it had begun.
    return Postmaster(pid=int(lines[0]), socket_directory=Path(lines[4]))


def is_beginning(data: Path) -> bool:
    """Whether a server has only just begun: whoever called it was killed, and another one would be refused."""
    lines = _pid_file(data)
    return 0 < len(lines) < _LINES and lines[0].isdecimal() and _is_alive(int(lines[0]))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _pid_file(data: Path) -> list[str]:
    try:
        return LocalPath(data / "postmaster.pid").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
