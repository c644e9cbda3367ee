"""Summaries that are kept: who has them at hand says the same as who reads everything, whatever befell in between."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner

from tests.conftest import GOLDEN
from tests.sampling import one_in
from tidegauge.cli.main import main
from tidegauge.derivation import index, kept_summaries, segment_pieces
from tidegauge.derivation.coverage import coverage_of
from tidegauge.derivation.in_process import Derived, derive_here
from tidegauge.derivation.kept_summaries import BESIDE, code_digest, kept_of
from tidegauge.derivation.plan import segment_tasks
from tidegauge.kafka_log.corruption import Damage
from tidegauge.runs.run import AuditedSnapshot, ReadSnapshot, Run
from tidegauge.snapshots.adopt import Snapshot, adopt, open_snapshot
from tidegauge.snapshots.manifest import MANIFEST_NAME

SEEDS = range(11, 17)
ALL = sorted(archive.name.removesuffix(".tar.gz") for archive in GOLDEN.glob("*.tar.gz"))
CLOSURE = """
import sys
import tidegauge.derivation.index
print("\\n".join(sorted(sys.modules[m].__file__ for m in sys.modules if m.startswith("tidegauge."))))
"""
NOT_OF_ROWS = ("relations/", "runs/", "snapshots/", "derivation/kept_rows.py", "__init__.py")
"""What reading a segment imports and no row depends on: addresses, errors, notes of failures."""


def opened(root: Path) -> Snapshot:
    return open_snapshot(root, cluster=None if (root / MANIFEST_NAME).exists() else "golden")


def snapshot_of(root: Path, previous: Path | None = None) -> AuditedSnapshot:
    own = opened(root)
    earlier = opened(previous) if previous is not None else None
    return AuditedSnapshot(
        root=own.root,
        manifest=own.manifest,
        target=root.parent / "run",
        previous=ReadSnapshot(root=earlier.root, manifest=earlier.manifest) if earlier is not None else None,
    )


def told(snapshot: AuditedSnapshot, made: Derived) -> dict[str, Any]:
    """All that is said of a snapshot, but how much of it was reused."""
    facts: dict[str, Any] = {
        relation: sorted(json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist())
        for relation, table in made.tables.items()
    }
    return facts | {"coverage": coverage_of(snapshot, made.context, made.index.values()) | {"segments_reused": None}}


def reused(made: Derived) -> int:
    return sum(bool(row["reused"]) for row in made.index.values())


def run_of(snapshot: AuditedSnapshot, place: Path) -> Run:
    return Run(
        directory=place.parent / "run", snapshots=(snapshot,), store_url=None, fail_on="never", started_at_ms=0,
        kept_summaries=str(place),
    )  # fmt: skip


def world(tmp_path: Path, seed: int) -> list[tuple[Path, Path | None]]:
    """The moments of a random world, each with the earlier one that it is compared with."""
    out = tmp_path / f"world-{seed}"
    done = CliRunner().invoke(main, ["simulate", "--seed", str(seed), "--faults", "all", "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    moments = json.loads(done.stdout)["moments"]
    places = {moment["name"]: Path(moment["snapshot"]) for moment in moments}
    return [(places[m["name"]], places[m["previous"]] if m["previous"] is not None else None) for m in moments]


@pytest.fixture(scope="module")
def last_moment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last snapshot of a world with sealed segments: read only."""
    return world(tmp_path_factory.mktemp("world"), 12)[-1][0]


@dataclass(frozen=True)
class Read:
    """That snapshot, after an audit: the summaries that it kept and all that it said. Read only."""

    snapshot: AuditedSnapshot
    kept: Path
    whole: dict[str, Any]

    def copy_of_kept(self, place: Path) -> Path:
        return shutil.copytree(self.kept, place / "kept")


@pytest.fixture(scope="module")
def read(last_moment: Path, tmp_path_factory: pytest.TempPathFactory) -> Read:
    snapshot = snapshot_of(last_moment)
    kept = tmp_path_factory.mktemp("read") / "kept"
    return Read(snapshot=snapshot, kept=kept, whole=told(snapshot, derive_here(snapshot, kept_summaries=str(kept))))


@pytest.fixture
def root(last_moment: Path, tmp_path: Path) -> Path:
    """A copy that a test may change. Its manifest is younger than all of its directories, as after a capture."""
    copy = shutil.copytree(last_moment, tmp_path / "moment")
    written_anew(copy / MANIFEST_NAME)
    return copy


def written_anew(file: Path) -> None:
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data)


def sealed_log(snapshot: AuditedSnapshot, kept: Path) -> Path:
    """A segment whose row is kept, once the snapshot was derived with the place."""
    tasks = segment_tasks(run_of(snapshot, kept), kept_of(run_of(snapshot, kept)))
    chosen = max((t for t in tasks if t.kept_in is not None), key=lambda t: (t.stored_bytes, t.path))
    return Path(chosen.root, chosen.stored_path)


@pytest.mark.parametrize("seed", one_in(6, SEEDS))
def test_over_a_random_history_the_facts_are_those_of_who_reads_everything(tmp_path: Path, seed: int) -> None:
    kept = tmp_path / "kept"
    found = 0
    for root, previous in world(tmp_path, seed):
        snapshot = snapshot_of(root, previous)
        whole = told(snapshot, derive_here(snapshot))
        for _ in range(2):  # With what its past has left; and once more, when all of it was read before.
            made = derive_here(snapshot, kept_summaries=str(kept))
            assert told(snapshot, made) == whole
        found += reused(made)
    assert found, "no segment of this world was ever sealed"


@pytest.mark.parametrize("capture", one_in(8, ALL, ALL))
def test_a_capture_that_was_read_before_has_the_same_facts(
    golden: Callable[[str], Path], tmp_path: Path, capture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_summaries, "WORTHWHILE_BYTES", 0)  # Active segments, too: some have no others.
    root = shutil.copytree(golden(capture), tmp_path / capture, symlinks=True)
    if not (root / MANIFEST_NAME).exists():
        adopt(root, cluster="golden")
    snapshot = snapshot_of(root)
    first = derive_here(snapshot, kept_summaries=str(tmp_path / "kept"))
    second = derive_here(snapshot, kept_summaries=str(tmp_path / "kept"))
    assert told(snapshot, second) == told(snapshot, first)
    assert reused(first) == 0
    assert reused(second) == sum(1 for row in second.index.values() if row["content"] is not None) > 0


@pytest.mark.slow
def test_a_log_that_somebody_wrote_to_is_read_whatever_its_size_and_time_say(tmp_path: Path, root: Path) -> None:
    kept = tmp_path / "kept"
    snapshot = snapshot_of(root)
    derive_here(snapshot, kept_summaries=str(kept))
    log = sealed_log(snapshot, kept)
    status = log.stat()
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (log.stat().st_size, log.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    made = derive_here(snapshot, kept_summaries=str(kept))
    path = log.relative_to(snapshot.root).as_posix()
    assert not made.index[path]["reused"]
    assert [damage.kind for damage in made.index[path]["corruptions"]] == [Damage.CRC]
    assert told(snapshot, made) == told(snapshot, derive_here(snapshot))


@pytest.mark.parametrize("level", ["partition", "broker"])
def test_a_directory_that_was_exchanged_is_read(tmp_path: Path, root: Path, level: str) -> None:
    """A rename moves no time of the files in a directory: a damaged replica went for the sound one, and was green."""
    kept = tmp_path / "kept"
    derive_here(snapshot_of(root), kept_summaries=str(kept))
    log = sealed_log(snapshot_of(root), kept)
    own = log.parent if level == "partition" else root / log.relative_to(root).parts[0]
    other = shutil.copytree(own, tmp_path / "other")
    damaged = other / log.relative_to(own)
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    written_anew(root / MANIFEST_NAME)  # younger than both
    snapshot = snapshot_of(root)
    path = log.relative_to(root).as_posix()
    assert derive_here(snapshot, kept_summaries=str(kept)).index[path]["reused"]
    own.rename(tmp_path / "sound")
    other.rename(own)
    made = derive_here(snapshot, kept_summaries=str(kept))
    assert not made.index[path]["reused"]
    assert told(snapshot, made) == told(snapshot, derive_here(snapshot))


@pytest.mark.slow
def test_what_is_read_otherwise_than_the_manifest_tells_is_not_kept(tmp_path: Path, root: Path) -> None:
    kept = tmp_path / "kept"
    snapshot = snapshot_of(root)
    derive_here(snapshot, kept_summaries=str(kept))
    log = sealed_log(snapshot, kept)
    shutil.rmtree(kept)
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    derive_here(snapshot, kept_summaries=str(kept))
    again = derive_here(snapshot, kept_summaries=str(kept))
    assert again.index[log.relative_to(snapshot.root).as_posix()]["content"] is None


@pytest.mark.parametrize("harm", one_in(5, ["flipped", "cut", "empty", "gone", "other columns"]))
def test_a_damaged_file_of_summaries_is_not_used(tmp_path: Path, read: Read, harm: str) -> None:
    kept, snapshot = read.copy_of_kept(tmp_path), read.snapshot
    for file in kept.rglob("*.parquet"):
        data = bytearray(file.read_bytes())
        match harm:
            case "flipped":
                for at in range(64, len(data) // 2, 64):
                    data[at] ^= 0x55
                file.write_bytes(data)
            case "cut":
                file.write_bytes(data[:-1])
            case "empty":
                file.write_bytes(b"")
            case "gone":
                file.unlink()
            case _:
                parquet.write_table(pa.table({"content": pa.array([b""], pa.binary())}), file)
    made = derive_here(snapshot, kept_summaries=str(kept))
    assert reused(made) == 0
    assert told(snapshot, made) == read.whole


def _column(name: str, value: object) -> Callable[[pa.Table], pa.Table]:
    def changed(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        field = table.schema.field(at)
        return table.set_column(at, field, pa.array([value] * table.num_rows, field.type))

    return changed


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("summaries", [None]), ("summaries", [{"batch_count": 1}]), ("summaries", []), ("summaries", None),
        ("range_offsets", None), ("piece", 1), ("pieces", 2), ("pieces", None),
        ("range_offsets", [None]), ("indexes", []), ("indexes", None), ("bytes_read", None), ("valid_bytes", None),
        ("coordinator_records", {"unreadable": 1}), ("corruptions", [None]), ("index_spacing", None),
    ],
    ids=str,
)  # fmt: skip
def test_a_row_that_cannot_be_used_is_read(tmp_path: Path, read: Read, column: str, value: object) -> None:
    """Whole as a file, and no row of the index step: an audit ended with 70."""
    kept, snapshot = read.copy_of_kept(tmp_path), read.snapshot
    for file in kept.rglob("*.parquet"):
        parquet.write_table(_column(column, value)(parquet.read_table(file)), file, write_page_checksum=True)
    made = derive_here(snapshot, kept_summaries=str(kept))
    assert reused(made) == 0
    assert told(snapshot, made) == read.whole


@pytest.mark.slow
def test_segments_in_pieces_are_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows lie in several row groups, and never in two files."""
    monkeypatch.setattr(segment_pieces, "ROOM", 2)
    monkeypatch.setattr(index, "_BATCH_ROWS", 3)
    monkeypatch.setattr(kept_summaries, "_GROUP_ROWS", 2)
    monkeypatch.setattr(kept_summaries, "_FILE_BYTES", 4096)
    snapshot = snapshot_of(world(tmp_path, 12)[-1][0])
    first = derive_here(snapshot, kept_summaries=str(tmp_path / "kept"))
    files = list((tmp_path / "kept").rglob("*.parquet"))
    assert len(files) > 1
    assert all(parquet.read_table(file).column("piece")[0].as_py() == 0 for file in files)
    assert any(row["pieces"] != 1 for row in first.index.values() if row["content"] is not None)
    again = derive_here(snapshot, kept_summaries=str(tmp_path / "kept"))
    assert reused(again) == sum(row["content"] is not None for row in first.index.values())
    assert told(snapshot, again) == told(snapshot, first)


def test_other_code_reads_anew(tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = str(read.copy_of_kept(tmp_path))
    assert reused(derive_here(read.snapshot, kept_summaries=kept)), "by the same code they are used, wherever they lie"
    monkeypatch.setattr(kept_summaries, "code_digest", lambda: "another")
    assert reused(derive_here(read.snapshot, kept_summaries=kept)) == 0


@pytest.mark.slow
def test_the_code_that_makes_a_row_is_all_in_its_digest() -> None:
    done = subprocess.run([sys.executable, "-c", CLOSURE], capture_output=True, text=True, check=True)
    top = Path(kept_summaries.__file__).resolve().parent.parent
    imported = {Path(file).resolve().relative_to(top).as_posix() for file in done.stdout.split()}
    of_rows = {name for name in imported if not name.startswith(NOT_OF_ROWS) and not name.endswith(NOT_OF_ROWS)}
    assert of_rows
    assert {name for name in of_rows if not name.startswith(kept_summaries._MADE_BY)} == set()
    assert code_digest()


@pytest.mark.slow
def test_many_files_become_few_and_hold_what_was_used(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_BATCH_ROWS", 1)
    monkeypatch.setattr(kept_summaries, "_GROUP_ROWS", 1)
    monkeypatch.setattr(kept_summaries, "_FILE_BYTES", 4096)
    monkeypatch.setattr(kept_summaries, "_MOST_FILES", 2)
    kept, snapshot = tmp_path / "kept", read.snapshot
    derive_here(snapshot, kept_summaries=str(kept))
    before = set(kept.rglob("*.parquet"))
    assert len(before) > 2
    second = derive_here(snapshot, kept_summaries=str(kept))
    assert reused(second)
    assert before.isdisjoint(kept.rglob("*.parquet")), "they were brought together"
    third = derive_here(snapshot, kept_summaries=str(kept))
    assert reused(third) == reused(second)
    assert told(snapshot, third) == told(snapshot, second)


@pytest.mark.slow
def test_a_place_that_others_may_write_to_is_not_used(
    tmp_path: Path, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    kept, snapshot = read.copy_of_kept(tmp_path), read.snapshot
    (kept / snapshot.manifest.cluster).chmod(0o777)
    assert reused(derive_here(snapshot, kept_summaries=str(kept))) == 0
    assert "no summaries of earlier audits are used" in caplog.text


def test_an_audit_whose_summaries_cannot_be_written_goes_on(
    tmp_path: Path, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kept").write_text("a file")
    made = derive_here(read.snapshot, kept_summaries=str(tmp_path / "kept"))
    assert told(read.snapshot, made) == read.whole
    assert "no summaries" in caplog.text


@pytest.mark.slow
def test_large_snapshots_keep_theirs_beside_them(
    tmp_path: Path, last_moment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = snapshot_of(last_moment)
    root = tmp_path / found.manifest.cluster / found.manifest.snapshot_id
    shutil.copytree(last_moment, root)
    snapshot = snapshot_of(root)
    derive_here(snapshot, kept_summaries=None)
    assert not (root.parent / BESIDE).exists(), "small ones are sooner read"
    monkeypatch.setattr(kept_summaries, "WORTHWHILE_BYTES", 1)
    derive_here(snapshot, kept_summaries=None)
    assert (root.parent / BESIDE).is_dir()
    assert not list((root.parent / BESIDE).rglob("*.partial"))
