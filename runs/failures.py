"""What of a run could not be audited, and why: what one snapshot, or one part of it, does to us is no other's concern.

In: what was raised, and over which snapshot or part. Out: a note in the run directory, which the later steps heed. The
rule that must hold: nothing that stands in one snapshot takes the others along, and nothing that stands in one segment
or partition the rest of its snapshot: its segments count as unread then, and its verdicts are not known. What is wrong
around us (store, Spark, disk) stops the run, for it would fail all of them alike.

A note is a file, since tasks write them too, on whatever machine Spark put them.
"""

import json
import os
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Final

from tidegauge.runs.capture_time import DatedAheadError
from tidegauge.runs.errors import EvaluationError, OwnError, RefusedError, UnavailableError
from tidegauge.snapshots.catalogue import DatedAhead
from tidegauge.snapshots.errors import AuditError, ClusterError, SnapshotError, StorageError
from tidegauge.snapshots.location import location
from tidegauge.snapshots.places import emptied, made, sizes_in
from tidegauge.snapshots.whole_files import write_whole

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
    """One snapshot that could not be audited, or one part of it. `trace`: where it was raised, for whoever mends it.

    `part`: the segment or partition that it concerns alone, with the segments that count as unread for it. `claim`:
    what a snapshot says that is dated in the future.
    """

    snapshot: str
    step: str
    kind: str
    text: str
    trace: str
    part: str | None = None
    unread: tuple[str, ...] = ()
    claim: DatedAhead | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The notes of a run, in a directory or below a URL. A step that is tried again forgets what it noted before."""

    directory: str

    def begin(self, step: str) -> None:
        """Forgets what this step and those behind it noted."""
        for name in STEPS[STEPS.index(step) :]:
            emptied(location(self.directory) / name)

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
        self._keep(key, _failure(step, key, error))

    def take_part(
        self, step: str, key: str, part: str, unread: Iterable[str], error: Exception, *, root: object = None
    ) -> str:
        """Notes what was raised over a part of a snapshot; raises it on if it is the environment's.

        Returns the reason for which these segments, by their paths, count as unread.
        """
        if not is_its_own(error, root):
            raise error
        failure = replace(_failure(step, key, error), part=part, unread=tuple(unread))
        self._keep(f"{key} {part}", failure)
        return reason_of(failure)

    def _keep(self, name: str, failure: Failure) -> None:
        folder = made(location(self.directory) / failure.step)
        path = folder / f"{sha256(os.fsencode(name)).hexdigest()}.json"
        if path.exists():
            return
        write_whole(path, json.dumps(asdict(failure)), by=str(os.getpid()))

    def all(self) -> tuple[Failure, ...]:
        """Every note of a whole snapshot, in the order of the steps, then of the names."""
        return tuple(f for f in self._kept() if f.part is None)

    def parts(self) -> tuple[Failure, ...]:
        """Every note of a part of a snapshot, in the same order."""
        return tuple(f for f in self._kept() if f.part is not None)

    def parts_of(self, key: str) -> tuple[Failure, ...]:
        """The partitions of one snapshot whose facts could not be derived."""
        return tuple(f for f in self.parts() if f.snapshot == key and f.step == "derive")

    def _kept(self) -> list[Failure]:
        found: list[Failure] = []
        for step in STEPS:
            folder = location(self.directory) / step
            for name in sizes_in(folder, ".json"):
                noted = json.loads((folder / name).read_text(encoding="utf-8"))
                claim = DatedAhead(**noted["claim"]) if noted.get("claim") else None
                found.append(Failure(**{**noted, "unread": tuple(noted["unread"]), "claim": claim}))
        return sorted(found, key=lambda f: (STEPS.index(f.step), f.snapshot, f.part or ""))


def reason_of(failure: Failure) -> str:
    """Why the segments of a part count as unread."""
    return f"not judged, for a fault of ours: {failure.text}"


def _failure(step: str, key: str, error: Exception) -> Failure:
    return Failure(
        snapshot=key,
        step=step,
        kind=next((kind for kind, type_ in KINDS.items() if isinstance(error, type_)), "our fault"),
        text=str(error) if isinstance(error, AuditError) else f"{type(error).__name__}: {error}",
        trace="".join(traceback.format_exception(error)),
        claim=error.claim if isinstance(error, DatedAheadError) else None,
    )


def is_its_own(error: Exception, root: object) -> bool:
    """Whether what was raised over a snapshot concerns that one alone; `root` is where it lies, if that is known."""
    if isinstance(error, OSError):
        where = str(error.filename) if error.filename is not None else ""
        return root is not None and where.startswith(str(root))
    return isinstance(error, RefusedError) or not isinstance(error, _AROUND_US)
