"""Spark's temporary directory goes with who uses it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tidegauge.spark_jobs.scratch import PREFIX, beside, new_scratch, remove_abandoned

MAKES_ONE = """
import os, sys
from tidegauge.spark_jobs.scratch import new_scratch
scratch = new_scratch()
print(scratch.directory, flush=True)
if sys.argv[1] == "and a child holds it":
    pid = os.fork()
    if pid == 0:
        os.close(1)
        sys.stdin.read()
        os._exit(0)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _killed(how: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", MAKES_ONE, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.read().strip()
    process.wait()
    return process


def test_what_a_killed_process_left_is_removed_by_the_next(temporary: Path) -> None:
    _killed("alone")
    (abandoned,) = temporary.glob(f"{PREFIX}*")
    scratch = new_scratch()
    assert list(temporary.iterdir()) == [scratch.directory]
    assert not abandoned.exists()
    scratch.remove()
    assert list(temporary.iterdir()) == []


def test_what_a_process_uses_that_inherited_it_stays_until_it_ends(temporary: Path) -> None:
    killed = _killed("and a child holds it")
    assert len(list(temporary.iterdir())) == 1
    remove_abandoned()
    (used,) = temporary.iterdir()
    assert killed.stdin is not None
    killed.stdin.close()
    while used.exists():  # The child ends now; a test that hangs here has failed.
        remove_abandoned()


def test_nothing_is_removed_that_is_not_ours_or_no_such_directory(temporary: Path) -> None:
    others = temporary / f"{PREFIX}without-a-lock"
    others.mkdir()
    file = temporary / f"{PREFIX}file"
    file.touch()
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "in-use").touch()
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    remove_abandoned()
    assert others.exists()
    assert file.exists()
    assert (elsewhere / "in-use").exists()


def test_pythons_temporary_files_lie_in_it_for_a_while(temporary: Path) -> None:
    scratch = new_scratch()
    with scratch.for_temporary_files():
        inside = Path(tempfile.mkdtemp())
    assert inside.parent == scratch.directory
    assert Path(tempfile.mkdtemp()).parent == temporary
    scratch.remove()
    assert os.listdir(scratch.directory.parent) != [scratch.directory.name]


def test_what_goes_with_a_session_lies_in_its_own_directory_and_in_nobody_else_s(temporary: Path) -> None:
    own = new_scratch()
    try:
        assert beside(str(own.directory)) == str(own.directory)
    finally:
        own.remove()
    assert beside("/mnt/disk1,/mnt/disk2") is None
    assert beside(None) is None
