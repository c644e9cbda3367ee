"""Snapshots of a run that could not be audited, and why: what one of them does to us is no other's concern.

In: what was raised, and over which snapshot. Out: a note in the run directory, which the later steps heed. The rule
that must hold: nothing that stands in one snapshot takes the others along; what is wrong around us (store, Spark, disk)
stops the run, for it would fail all of them alike.

A note is a file, since tasks write them too, on whatever machine Spark put them.
"""

import json
import os
import shutil
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from snapshots.errors import AuditError, ClusterError, SnapshotError, StorageError
from spark_jobs.errors import EvaluationError, OwnError, RefusedError, UnavailableError

STEPS: Final = ("snapshot", "index", "derive", "evaluate", "publish")

_AROUND_US: Final = (UnavailableError, StorageError, ClusterError)
KINDS: Final[dict[str, type[AuditError]]] = {
    "our fault": OwnError,
    "no verdict": EvaluationError,
    "unusable": SnapshotError,
}
"""The worst first: it decides how a command ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One snapshot that could not be audited. `trace`: where it was raised, for whoever mends it."""

    snapshot: str
    step: str
    kind: str
    text: str
    trace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The notes of a run. A step that is tried again forgets what it noted before."""

    directory: str

    def begin(self, step: str) -> None:
        """Forgets what this step and those behind it noted."""
        for name in STEPS[STEPS.index(step) :]:
            shutil.rmtree(Path(self.directory, name), ignore_errors=True)

    @contextmanager
    def of(self, step: str, key: str, *, root: object = None) -> Iterator[None]:
        """What is raised inside is noted as one snapshot's and goes no further, unless it is the environment's.

        `root`: where the snapshot lies; what the system says of a file there is the snapshot's own failure.
        """
        try:
            yield
        except Exception as error:
            self.take(step, key, error, root=root)

    def take(self, step: str, key: str, error: Exception, *, root: object = None) -> None:
        """Notes what was raised over a snapshot; raises it on if it is the environment's."""
        if not is_its_own(error, root):
            raise error
        self.note(step, key, error)

    def note(self, step: str, key: str, error: Exception) -> None:
        """Keeps what was raised over a snapshot; the first of a step stands."""
        folder = Path(self.directory, step)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{sha256(key.encode()).hexdigest()}.json"
        if path.exists():
            return
        failure = Failure(
            snapshot=key,
            step=step,
            kind=next((kind for kind, type_ in KINDS.items() if isinstance(error, type_)), "our fault"),
            text=str(error) if isinstance(error, AuditError) else f"{type(error).__name__}: {error}",
            trace="".join(traceback.format_exception(error)),
        )
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        partial.write_text(json.dumps(asdict(failure)), encoding="utf-8")
        os.replace(partial, path)

    def all(self) -> tuple[Failure, ...]:
        """Every note, in the order of the steps, then of the names."""
        found = [
            Failure(**json.loads(path.read_text(encoding="utf-8")))
            for step in STEPS
            for path in Path(self.directory, step).glob("*.json")
        ]
        return tuple(sorted(found, key=lambda f: (STEPS.index(f.step), f.snapshot)))


def is_its_own(error: Exception, root: object) -> bool:
    """Whether what was raised over a snapshot concerns that one alone; `root` is where it lies, if that is known."""
    if isinstance(error, OSError):
        where = str(error.filename) if error.filename is not None else ""
        return root is not None and where.startswith(str(root))
    return isinstance(error, RefusedError) or not isinstance(error, _AROUND_US)
