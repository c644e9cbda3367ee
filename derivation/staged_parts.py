"""Parquet parts that many tasks write, which nobody sees before all of them are there.

In: what tasks write, on whatever machine they are, into a folder that is one job's. Out: the parts under their own
names, once the job commits. The rule that must hold: a part that a task wrote twice, or that a task of a job wrote that
was given up, is never seen. So each try writes under a name of its own, the job is told which of them count, and only
these are moved. A driver that is killed leaves its folder; whoever repeats the step removes it.
"""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidegauge.runs.mounts import must_see_run
from tidegauge.runs.run import Run
from tidegauge.snapshots.location import Location, location
from tidegauge.snapshots.places import absolute, emptied, moved


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPart:
    """One file below the job's folder, and where it is to be seen."""

    staged: str
    final: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The folder of one job below a run directory: two strings, so that any task can be told."""

    run: str
    folder: str

    def place(self) -> Location:
        """Where a task writes. Raises `UnavailableError` where the run directory is not to be seen from here."""
        must_see_run(self.run)
        return location(self.folder)

    def commit(self, parts: Iterable[StagedPart]) -> None:
        """Lets the parts be seen. Raises `OSError` for one that is not there."""
        folder = location(self.folder)
        moved((folder / part.staged, location(part.final)) for part in parts)


@contextmanager
def staging(run: Run) -> Iterator[Staging]:
    """A new one for the block; what it did not commit is removed at its end, however it ends."""
    folder = run.staged / secrets.token_hex(8)
    try:
        yield Staging(run=absolute(run.directory), folder=absolute(folder))
    finally:
        emptied(folder)
