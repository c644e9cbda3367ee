"""Runs' data docs: directories in which audits keep their results in, pages by cluster and date out.

In: roots under which `report.json` lies beside `data_docs/`, at most some folders deep. Out: `RunDocs`, and the files
in them. The rule that must hold: only files directly inside a run's `data_docs` are ever served, whatever is asked for,
and what others may have laid below a root is opened through no link and waited for by nobody.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from tidegauge.snapshots.local_path import LocalPath
from tidegauge.snapshots.location import local

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
    directory: LocalPath


@dataclass(slots=True)
class Docs:
    """The runs whose data docs are under `roots`; looked for anew when a few seconds have passed."""

    roots: Sequence[Path]
    _found: Sequence[RunDocs] = ()
    _known: dict[LocalPath, tuple[int, RunDocs | None]] = field(default_factory=dict)
    _looked_at: float = float("-inf")

    def runs(self) -> Mapping[str, RunDocs]:
        """By run id; of a run that was audited twice the later one."""
        return {docs.run_id: docs for docs in self._all()}

    def below(self, folder: str) -> tuple[RunDocs, ...]:
        """Those that lie in a directory of this name, or deeper in it."""
        return tuple(docs for docs in self._all() if folder in docs.directory.parts[:-1])

    def file(self, run_id: str, cluster: str, date: str, name: str) -> tuple[bytes, str] | None:
        """A page and its content type; None for whatever is not a page of that run, or larger than any of ours."""
        asked = (run_id, cluster, date)
        found = [docs for docs in self._all() if (docs.run_id, docs.cluster, docs.date) == asked]
        if not found or Path(name).name != name:
            return None
        path = found[-1].directory / name
        kind = _SERVED.get(path.suffix)
        if kind is None:
            return None
        try:
            return path.read_bytes(), kind
        except (OSError, ValueError):  # ValueError: a name with a zero byte.
            return None

    def _all(self) -> Sequence[RunDocs]:
        """The later ones last. Two audits of a snapshot that say the same are one run, in a directory each."""
        if time.monotonic() - self._looked_at > _FRESH_S:
            found = (docs for root in self.roots for docs in self._below(local(root), _DEPTH))
            self._found = sorted(found, key=lambda d: d.finished_at)
            self._looked_at = time.monotonic()
        return self._found

    def _below(self, folder: LocalPath, depth: int) -> Iterator[RunDocs]:
        pages = folder / "data_docs"
        if pages.is_dir() and (pages / "index.html").is_file():
            docs = self._read(folder / "report.json")
            if docs is not None:
                yield docs
            return
        if depth and folder.is_dir():
            for below in _folders(folder):
                yield from self._below(below, depth - 1)

    def _read(self, report: LocalPath) -> RunDocs | None:
        """What the report says of its run; read again only when the file has changed."""
        try:
            changed = report.stat().st_mtime_ns
            known = self._known.get(report)
            if known is None or known[0] != changed:
                known = self._known[report] = (changed, _run_docs(report))
            return known[1]
        except OSError:
            return None  # a run that is being written, or removed


def _folders(folder: LocalPath) -> Sequence[LocalPath]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return ()  # removed meanwhile, or closed to us


def _run_docs(report: LocalPath) -> RunDocs | None:
    try:
        run = json.loads(report.read_text(encoding="utf-8"))["run"]
        finished = _text(run["finished_at"])
        return RunDocs(
            run_id=_text(run["run_id"]),
            cluster=_text(run["cluster"]),
            snapshot_id=_text(run["snapshot_id"]),
            date=datetime.fromisoformat(finished).date().isoformat(),
            finished_at=finished,
            directory=report.parent / "data_docs",
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None  # no report of ours


def _text(value: object) -> str:
    """Raises `ValueError` for half a character, which no page can be written with."""
    return str(value).encode("utf-8").decode("utf-8")
