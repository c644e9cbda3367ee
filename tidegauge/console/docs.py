"""Runs' data docs: directories in which audits keep their results in, pages by cluster and date out.

In: roots under which `report.json` lies beside `data_docs/`, at most some folders deep. Out: `RunDocs`, and the files
in them. The rule that must hold: only files directly inside a run's `data_docs` are ever served, whatever is asked for.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

_DEPTH: Final = 5
_FRESH_S: Final = 5.0
_SERVED: Final = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDocs:
    """One run's pages."""

    run_id: str
    cluster: str
    snapshot_id: str
    date: str
    finished_at: str
    directory: Path


@dataclass(slots=True)
class Docs:
    """The runs whose data docs are under `roots`; looked for anew when a few seconds have passed."""

    roots: Sequence[Path]
    _found: Sequence[RunDocs] = ()
    _known: dict[Path, tuple[int, RunDocs | None]] = field(default_factory=dict)
    _looked_at: float = float("-inf")

    def runs(self) -> Mapping[str, RunDocs]:
        """By run id; of a run that was audited twice the later one."""
        return {docs.run_id: docs for docs in self._all()}

    def below(self, folder: str) -> tuple[RunDocs, ...]:
        """Those that lie in a directory of this name, or deeper in it."""
        return tuple(docs for docs in self._all() if folder in docs.directory.parts[:-1])

    def file(self, run_id: str, cluster: str, date: str, name: str) -> tuple[Path, str] | None:
        """A page and its content type; None for whatever is not a page of that run."""
        asked = (run_id, cluster, date)
        found = [docs for docs in self._all() if (docs.run_id, docs.cluster, docs.date) == asked]
        if not found or Path(name).name != name:
            return None
        path = found[-1].directory / name
        kind = _SERVED.get(path.suffix)
        return (path, kind) if kind is not None and path.is_file() and not path.is_symlink() else None

    def _all(self) -> Sequence[RunDocs]:
        """The later ones last. Two audits of a snapshot that say the same are one run, in a directory each."""
        if time.monotonic() - self._looked_at > _FRESH_S:
            found = (docs for root in self.roots for docs in self._below(root, _DEPTH))
            self._found = sorted(found, key=lambda d: d.finished_at)
            self._looked_at = time.monotonic()
        return self._found

    def _below(self, folder: Path, depth: int) -> Iterator[RunDocs]:
        if (folder / "data_docs" / "index.html").is_file():
            docs = self._read(folder / "report.json")
            if docs is not None:
                yield docs
            return
        if depth and folder.is_dir():
            for below in sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()):
                yield from self._below(below, depth - 1)

    def _read(self, report: Path) -> RunDocs | None:
        """What the report says of its run; read again only when the file has changed."""
        try:
            changed = report.stat().st_mtime_ns
            known = self._known.get(report)
            if known is None or known[0] != changed:
                known = self._known[report] = (changed, _run_docs(report))
            return known[1]
        except OSError:
            return None  # a run that is being written, or removed


def _run_docs(report: Path) -> RunDocs | None:
    try:
        run = json.loads(report.read_text(encoding="utf-8"))["run"]
        finished = str(run["finished_at"])
        return RunDocs(
            run_id=str(run["run_id"]),
            cluster=str(run["cluster"]),
            snapshot_id=str(run["snapshot_id"]),
            date=datetime.fromisoformat(finished).date().isoformat(),
            finished_at=finished,
            directory=report.parent / "data_docs",
        )
    except (ValueError, KeyError, TypeError):
        return None  # no report of ours
