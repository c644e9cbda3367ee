"""Snapshots made to attack, through every command that reads one: nothing outside is read, nothing runs, nothing hangs.

Each command is a process of its own with a limit of time, so that a pipe that is waited for fails the test, and with a
limit of memory, so that an endless file does.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.derivation.small_cluster import small_world, taken, written
from tests.security.command import tidegauge
from tests.security.hostile import NOT_FILES, SECRET, secret_beside, with_modules
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import MANIFEST_NAME

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]

MEMORY_BYTES = 8 << 30
"""Of addresses, of which a JVM reserves far more than it uses."""


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """By kind: a snapshot with a manifest, and the path in it that is no file."""
    found = {}
    for kind, make in NOT_FILES.items():
        directory = tmp_path_factory.mktemp(kind) / kind
        taken(written(directory, small_world()))
        found[kind] = (directory, make(directory))
    return found


@pytest.fixture(scope="module")
def audited(hostile: dict[str, tuple[Path, str]], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """All of them audited in one run: where its results are, and what it said."""
    out = tmp_path_factory.mktemp("audited") / "out"
    directories = [directory for directory, _ in hostile.values()]
    done = tidegauge("audit", *directories, "--out", out, "--store", "none", home=tmp_path_factory.mktemp("home"))
    assert done.returncode in (0, 1), done.stderr
    return out, done.stdout + done.stderr


def _files(directory: Path) -> Iterator[Path]:
    return (p for p in directory.rglob("*") if p.is_file() and not p.is_symlink())


@pytest.mark.parametrize("kind", NOT_FILES)
def test_an_audit_names_what_is_no_file_and_reads_none_of_it(
    kind: str, hostile: dict[str, tuple[Path, str]], audited: tuple[Path, str]
) -> None:
    directory, path = hostile[kind]
    (report_path,) = audited[0].glob(f"**/{directory.name}/report.json")
    report = json.loads(report_path.read_text(encoding="utf-8"))
    unread = {entry["path"]: entry["reason"] for entry in report["coverage"]["unread"]}
    assert any(named.startswith(path) for named in unread), unread
    assert not report["losses"]
    assert [b for b in report["breaches"] if b["severity"] == "critical"] == []


def test_nothing_of_what_a_link_leads_to_stands_anywhere(audited: tuple[Path, str]) -> None:
    out, said = audited
    assert SECRET not in said
    assert [path for path in _files(out) if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("kind", NOT_FILES)
def test_verify_names_what_is_no_file(kind: str, hostile: dict[str, tuple[Path, str]], tmp_path: Path) -> None:
    directory, path = hostile[kind]
    done = tidegauge("snapshot", "verify", directory, home=tmp_path, preexec_fn=_limited)
    assert (done.returncode, SECRET in done.stdout) == (1, False), done.stderr
    assert any(line.startswith(path) for line in done.stdout.splitlines()), done.stdout


@pytest.mark.parametrize("kind", [k for k in NOT_FILES if "log_is" in k or "directory" in k])
def test_salvage_copies_nothing_from_outside(kind: str, hostile: dict[str, tuple[Path, str]], tmp_path: Path) -> None:
    directory, _ = hostile[kind]
    out = tmp_path / "salvaged"
    done = tidegauge(
        "salvage", directory, "--topic", "orders", "--partition", "0", "--broker", "1", "--out", out, home=tmp_path,
        preexec_fn=_limited,
    )  # fmt: skip
    assert done.returncode in (0, 1, 2, 3), done.stderr
    assert [path for path in _files(tmp_path) if SECRET.encode() in path.read_bytes()] == []


def test_adopting_writes_through_no_link(tmp_path: Path) -> None:
    directory = written(tmp_path / "copy", small_world())
    secret = secret_beside(directory)
    before = secret.read_bytes()
    (directory / f".{MANIFEST_NAME}.partial").symlink_to(secret)
    adopt(directory, cluster="c")
    assert secret.read_bytes() == before
    assert not (directory / MANIFEST_NAME).is_symlink()


def test_no_program_is_run_to_find_a_library(tmp_path: Path) -> None:
    """A compiler that was asked for libcrc32c read what lay in the current directory, before every command."""
    programs, here = tmp_path / "programs", tmp_path / "here"
    here.mkdir()
    programs.mkdir()
    for name in ("gcc", "cc", "ld", "objdump", "ldconfig"):
        (programs / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (programs / name).chmod(0o755)
    environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import tidegauge.kafka_log.crc32c"], cwd=here, env=environ, check=False
    )
    assert done.returncode == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("path", ["{}", "{}:.", ":{}", "bin:{}"])
def test_no_program_is_taken_from_where_a_command_stands(tmp_path: Path, path: str) -> None:
    """An empty or a relative entry of the PATH leads into a copy that somebody else made."""
    (tmp_path / "bin").mkdir()
    for place in (tmp_path, tmp_path / "bin"):
        (place / "java-of-theirs").write_text("#!/bin/sh\n")
        (place / "java-of-theirs").chmod(0o755)
    at_the_end = "import atexit, os, shutil; atexit.register(lambda: print(shutil.which('java-of-theirs')))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{at_the_end}; from tidegauge.cli.start import run; run()", "--version"],
        cwd=tmp_path, env={**os.environ, "PATH": path.format(os.environ["PATH"])}, text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "None"), done.stderr


def test_a_manifest_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    from tidegauge.snapshots.adopt import open_snapshot

    directory = taken(written(tmp_path / "copy", small_world()))
    elsewhere = tmp_path / "manifest"
    (directory / MANIFEST_NAME).rename(elsewhere)
    (directory / MANIFEST_NAME).symlink_to(elsewhere)
    with pytest.raises(SnapshotError, match="links are not followed"):
        open_snapshot(directory)


@pytest.mark.parametrize("command", [["audit", "."], ["snapshot", "verify", "."], ["metadata", "."]])
def test_no_code_of_the_working_directory_runs(command: list[str], tmp_path: Path) -> None:
    directory = taken(written(tmp_path / "copy", small_world()))
    mark = with_modules(directory)
    more = ["--out", str(tmp_path / "out"), "--store", "none"] if command[0] == "audit" else []
    done = tidegauge(*command, *more, home=tmp_path / "home", cwd=directory)
    assert not mark.exists(), mark.read_text(encoding="utf-8")
    assert done.returncode in (0, 1), done.stderr


def test_no_code_of_the_working_directory_runs_where_a_cluster_is_asked(tmp_path: Path) -> None:
    directory = written(tmp_path / "copy", small_world())
    mark = with_modules(directory)
    source = f"1={directory / 'broker-1'}"
    done = tidegauge(
        "capture", "--cluster", "c", "--broker", source, "--bootstrap", "127.0.0.1:1", "--out", tmp_path / "captured",
        home=tmp_path / "home", cwd=directory,
    )  # fmt: skip
    assert not mark.exists(), mark.read_text(encoding="utf-8")
    assert done.returncode == 3, done.stderr


@pytest.mark.parametrize(
    "at", [datetime.now(UTC) + timedelta(days=1), datetime(9999, 1, 1, tzinfo=UTC)], ids=["tomorrow", "year 9999"]
)
def test_a_snapshot_of_the_future_is_refused_and_the_others_are_judged(at: datetime, tmp_path: Path) -> None:
    at_ms = int(at.timestamp() * 1000)
    future = taken(written(tmp_path / "future", small_world()), at_ms=at_ms)
    sound = taken(written(tmp_path / "sound", small_world()))
    out = tmp_path / "out"
    done = tidegauge("audit", future, sound, "--out", out, "--store", "none", home=tmp_path / "home")
    assert done.returncode == 2, done.stderr
    assert f"says that it was captured at {at:%Y-%m-%d %H:%M:%S} UTC, and here it is " in done.stderr
    assert [path.parent.name for path in out.glob("**/report.json")] == ["sound"]
