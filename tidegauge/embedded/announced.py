"""Which of our servers run on this machine, for who asks later: an address in while it is served, those that are out.

    <home>/processes/<name>-<pid>.json    who serves what, where; whoever serves it holds a lock on the file

The rule that must hold: what is told runs. The kernel lets go of a lock when its process dies, however it dies, so a
file that nobody holds is of one that is gone. Nobody is asked, and nothing is started.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tidegauge.embedded.postgres_directory import made, state_file
from tidegauge.runs.errors import StoreError
from tidegauge.snapshots.fields import Fields
from tidegauge.snapshots.local_path import LocalPath

_FOLDER: Final = "processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProcess:
    """What serves something: its name, its process, where to reach it."""

    name: str
    pid: int
    address: str


@contextmanager
def announced(home: Path, processes: Sequence[RunningProcess]) -> Iterator[None]:
    """Tells of them while the block lasts."""
    held: list[tuple[int, Path]] = []
    try:
        for one in processes:
            held.append(_announce(home / _FOLDER, one))
    except (OSError, StoreError):
        pass  # A home that cannot be written to, as in a read-only image: they serve all the same, untold.
    try:
        yield
    finally:
        for descriptor, path in held:
            path.unlink(missing_ok=True)
            os.close(descriptor)


def _announce(folder: Path, one: RunningProcess) -> tuple[int, Path]:
    made(folder)
    for left in folder.glob("*.json"):
        if _holder_of(left) is None:
            left.unlink(missing_ok=True)  # of a process that was killed
    name = f"{one.name}-{one.pid}.json"
    descriptor = state_file(folder, name)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.truncate(descriptor, 0)
    os.write(descriptor, json.dumps(asdict(one)).encode())
    return descriptor, folder / name


def announced_in(home: Path) -> list[RunningProcess]:
    """Those that run now, by name."""
    found = [one for path in (home / _FOLDER).glob("*.json") if (one := _holder_of(path)) is not None]
    return sorted(found, key=lambda one: (one.name, one.pid))


def _holder_of(path: Path) -> RunningProcess | None:
    try:
        with LocalPath(path).open("rb") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                told = Fields.of(json.loads(file.read()), path.name)
                return RunningProcess(name=told.name("name"), pid=told.whole("pid"), address=told.text("address"))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # Gone meanwhile, or not ours: whoever lays something there is no server of ours.
    return None
