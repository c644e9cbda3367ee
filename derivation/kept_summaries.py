"""Summaries that an earlier audit made of the same bytes, so that this one need not read them.

In: a run, the segments to read, rows of the index step. Out: which segments were summarised before; their rows; files
of rows beside the snapshots. The rule that must hold: a row is taken for a segment only if it was made from the same
bytes by the same code. So it is found by the digests of what was read to make it, and by that of the code; size, time
and name prove nothing. A manifest's digest is believed of a file that nobody has written to since the manifest was;
any other is read. What cannot be used is read, too: whoever has no summaries at hand gets the same report.

    PLACE/<code>/<instant>-<random>-<number>.parquet    rows of `INDEX_SCHEMA`
    PLACE/<code>/<instant>-<random>-<number>.keys       their `content`, 32 bytes each, written last
"""

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegauge.derivation.index_columns import INDEX_SCHEMA
from tidegauge.derivation.kept_rows import content, row_groups
from tidegauge.derivation.segment_tasks import Digests, SegmentTask
from tidegauge.kafka_log.log_dir import log_name
from tidegauge.runs.run import NO_SUMMARIES, ReadSnapshot, Run
from tidegauge.runs.run_places import check_own, folders
from tidegauge.snapshots.errors import AuditError
from tidegauge.snapshots.location import Location, changed_at_ns, location
from tidegauge.snapshots.manifest import MANIFEST_NAME
from tidegauge.snapshots.whole_files import appearing, write_whole

BatchesOf = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Rows of the index step, of the snapshots of these keys."""

_LOG: Final = logging.getLogger(__name__)

BESIDE: Final = ".summaries"
"""Beside the snapshots of a cluster, where nobody names a place."""
WORTHWHILE_BYTES: Final = 64 << 20
"""Bytes that a snapshot's logs have at least, for its summaries to be kept unasked; and an active segment: its
preallocated indexes are hashed, too.
"""
_FILE_BYTES: Final = 32 << 20
"""Bytes of rows, in memory, of one file, about; more only where one segment has more."""
_GROUP_ROWS: Final = 512
_GROUP_BYTES: Final = 16 << 20
_MOST_FILES: Final = 64
"""Above so many the next audit brings together what it used itself, and removes the rest."""
_KEY_BYTES: Final = 32
_MADE_BY: Final = (
    "kafka_log", "facts", "derivation/index.py", "derivation/index_columns.py", "derivation/index_row.py",
    "derivation/segment_pieces.py", "derivation/segment_tasks.py", "derivation/value_columns.py",
    "derivation/files/segment_files.py",
    "snapshots/holes.py",
)  # fmt: skip
"""What of our code decides what stands in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSummaries:
    """The summaries of one cluster that this code made. `known`: their files, by content."""

    place: Location
    known: Mapping[bytes, str] = field(repr=False)

    @property
    def files(self) -> list[str]:
        """The files of rows."""
        return sorted(set(self.known.values()))

    def planned(self, snapshot: ReadSnapshot, tasks: Iterable[SegmentTask]) -> list[SegmentTask]:
        """The tasks, with where their rows are, if they are."""
        try:
            at_ns = changed_at_ns(snapshot.root / MANIFEST_NAME)
        except FileNotFoundError:
            return list(tasks)  # A plain copy that nobody adopted: nothing tells the digests of its files.
        digests = {entry.path: entry.sha256 for entry in snapshot.manifest.files()}
        return [self._planned(task, digests, at_ns) for task in tasks]

    def _planned(self, task: SegmentTask, digests: Mapping[str, str | None], at_ns: int) -> SegmentTask:
        if task.indexes_open and task.stored_bytes < WORTHWHILE_BYTES:
            return task
        found = [digests[path] if path is not None else "" for path in task.files]
        if None in found:
            return task
        told = Digests(sha256=tuple(digest or "" for digest in found), at_ns=at_ns)
        kept_in = self.known.get(content(replace(task, digests=told)))
        return replace(task, digests=replace(told, kept_in=kept_in))

    def keep(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Keeps the rows of the index step that were made anew and are of the bytes that the manifest tells."""
        self._write(self._anew(batches))

    def _anew(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        new = _NewSegments(self.known)
        for batch in batches:
            made = pc.and_(pc.is_valid(batch.column("content")), pc.invert(batch.column("reused")))
            yield from new.of(pa.Table.from_batches([batch.filter(made)]))

    def tidy(self, used: Collection[bytes]) -> None:
        """Brings those rows together that this run used, and removes the files that they were in."""
        self._write(_used(self.files, used))
        for file in self.files:
            old = location(file)
            _keys_of(old).unlink(missing_ok=True)
            old.unlink(missing_ok=True)

    def _write(self, tables: Iterable[pa.Table]) -> None:
        run = f"{time.time_ns() // 1_000_000}-{secrets.token_hex(4)}"
        left = iter(_row_groups(tables))
        group = next(left, None)
        for number in count():
            if group is None:
                return
            group = self._write_file(f"{run}-{number}", group, left)

    def _write_file(self, name: str, group: pa.Table, left: Iterator[pa.Table]) -> pa.Table | None:
        """Writes row groups until there are enough of them, and no segment is begun; the one that goes elsewhere."""
        if isinstance(self.place, Path):
            self.place.mkdir(mode=0o750, parents=True, exist_ok=True)
            check_own(self.place)
        size, keys, following = 0, [], group
        with (
            appearing(self.place / f"{name}.parquet") as file,
            pq.ParquetWriter(file, INDEX_SCHEMA, compression="zstd", write_page_checksum=True) as parquet,
        ):
            while following is not None and (size < _FILE_BYTES or following.column("piece")[0].as_py()):
                parquet.write_table(following)
                size += following.nbytes
                first = pc.equal(following.column("piece"), 0)
                keys += following.column("content").filter(first).to_pylist()
                following = next(left, None)
        write_whole(self.place / f"{name}.keys", b"".join(keys))
        return following


def kept_of(run: Run) -> Mapping[str, KeptSummaries]:
    """The summaries at hand for each cluster of a run that keeps some, by the cluster's name."""
    places: dict[str, Location] = {}
    for snapshot in _read_by(run):
        place = _place(run, snapshot)
        if place is not None:
            places.setdefault(snapshot.manifest.cluster, place)
    found = {cluster: _kept_at(place) for cluster, place in places.items()}
    return {cluster: kept for cluster, kept in found.items() if kept is not None}


def planned(
    kept: Mapping[str, KeptSummaries], snapshot: ReadSnapshot, tasks: Iterable[SegmentTask]
) -> list[SegmentTask]:
    """A snapshot's tasks, with where their rows are, if they are kept."""
    of_cluster = kept.get(snapshot.manifest.cluster)
    return list(tasks) if of_cluster is None else of_cluster.planned(snapshot, tasks)


def keep(run: Run, kept: Mapping[str, KeptSummaries], batches_of: BatchesOf) -> None:
    """Keeps what a run read anew. Where that cannot be written, the run goes on: its report does not need it."""
    for cluster, of_cluster in kept.items():
        keys = [snapshot.key for snapshot in _read_by(run) if snapshot.manifest.cluster == cluster]
        try:
            of_cluster.keep(batches_of(keys))
            if not run.restriction.is_restricted and len(of_cluster.files) > _MOST_FILES:
                of_cluster.tidy(_contents(batches_of(keys)))
        except (OSError, AuditError) as error:
            _LOG.warning("no summaries are kept for the next audit at %s: %s", of_cluster.place, error)


def _read_by(run: Run) -> Iterator[ReadSnapshot]:
    return (read for audited in run.snapshots for read in audited.reads)


def _place(run: Run, snapshot: ReadSnapshot) -> Location | None:
    """Where the summaries of a snapshot's cluster are kept; None where they are not."""
    if run.kept_summaries == NO_SUMMARIES:
        return None
    cluster = snapshot.manifest.cluster
    if run.kept_summaries is not None:
        return location(run.kept_summaries) / folders([cluster])[cluster]
    root = snapshot.root
    logs = (entry.size_bytes for entry in snapshot.manifest.files() if log_name(entry.path).endswith(".log"))
    worthwhile = sum(logs) >= WORTHWHILE_BYTES
    in_a_root = root.name == snapshot.manifest.snapshot_id and root.parent.name == cluster
    return root.parent / BESIDE if worthwhile and in_a_root else None


def _kept_at(place: Location) -> KeptSummaries | None:
    """What is kept at a place; None where it cannot be relied on, or nothing can be kept there."""
    code = code_digest()
    if code is None:
        return None
    below = place / code
    try:
        if isinstance(place, Path):
            check_own(place)
            check_own(place / code)
        return KeptSummaries(place=below, known=_known(below))
    except (OSError, AuditError) as error:
        _LOG.warning("no summaries of earlier audits are used: %s", error)
        return None


def _known(place: Location) -> dict[bytes, str]:
    if not place.exists():
        return {}
    found: dict[bytes, str] = {}
    for keys in sorted((path for path in place.iterdir() if path.name.endswith(".keys")), key=lambda path: path.name):
        data = keys.read_bytes()
        file = str(keys)[: -len(".keys")] + ".parquet"
        found.update((data[at : at + _KEY_BYTES], file) for at in range(0, len(data) - _KEY_BYTES + 1, _KEY_BYTES))
    return found


def _keys_of(file: Location) -> Location:
    return file.parent / (file.name[: -len(".parquet")] + ".keys")


@cache
def code_digest() -> str | None:
    """Names the code that makes the rows; None where its source is not at hand."""
    top = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for name in _MADE_BY:
        files = sorted((top / name).rglob("*.py")) if not name.endswith(".py") else [top / name]
        if not files or not all(file.exists() for file in files):
            return None
        for file in files:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


@dataclass(slots=True)
class _NewSegments:
    """Of rows that come in order, those of segments whose content is kept nowhere yet."""

    known: Mapping[bytes, str]
    taken: set[bytes] = field(default_factory=set)
    taking: bool = False
    """Whether the segment is chosen whose rows are coming: it may have more of them in the next table."""

    def of(self, table: pa.Table) -> Iterator[pa.Table]:
        """The rows of the next table that are chosen."""
        chosen = []
        contents, pieces = table.column("content").to_pylist(), table.column("piece").to_pylist()
        for at, (key, piece) in enumerate(zip(contents, pieces, strict=True)):
            if piece == 0:
                self.taking = key not in self.known and key not in self.taken
                self.taken.add(key)
            if self.taking:
                chosen.append(at)
        if chosen:
            yield table.take(chosen)


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of tables, so many together as make a row group; of segments in pieces fewer, since these are large."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        waiting.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _used(files: Iterable[str], used: Collection[bytes]) -> Iterator[pa.Table]:
    left = set(used)
    for file in files:
        try:
            found = set()
            for rows, keys in row_groups(file, left):
                found.update(keys)
                yield rows.take([at for at, key in enumerate(keys) if key in left])
            left -= found
        except (OSError, pa.ArrowException) as error:
            _LOG.warning("the kept summaries in %s are lost: %s", file, error)


def _contents(batches: Iterable[pa.RecordBatch]) -> set[bytes]:
    return {key for batch in batches for key in batch.column("content").to_pylist() if key is not None}
