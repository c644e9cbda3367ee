"""A copy of which nobody could read one log is refused: "nothing found" must not be what an audit of it ends with."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.pipeline import derived
from tidegauge.derivation.coverage import coverage_of
from tidegauge.runs.run import ReadSnapshot
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.errors import SnapshotError


def piped(log: Path) -> None:
    """In its place a pipe, which no reader opens: root, as who tests may run, could read a closed file."""
    log.unlink()
    os.mkfifo(log)


@pytest.fixture
def copy(golden: Golden, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden("unclean-before"), tmp_path / "copy"))


def coverage(copy: Path) -> dict[str, object]:
    opened, found = open_snapshot(copy), derived(copy)
    snapshot = ReadSnapshot(root=copy, manifest=opened.manifest)
    return coverage_of(snapshot, found.context, list(found.index.values()))


@pytest.mark.parametrize(("left", "told"), [(piped, "regular file"), (Path.unlink, "not in the copy")])
def test_a_copy_of_which_no_log_can_be_read_is_no_snapshot(copy: Path, left: Callable[[Path], None], told: str) -> None:
    for log in copy.rglob("*.log"):
        left(log)
    with pytest.raises(SnapshotError, match=f"Not one of the .* logs of .* {told}"):
        coverage(copy)


def test_one_log_is_enough_to_say_something(copy: Path) -> None:
    logs = sorted(copy.rglob("*.log"))
    for log in logs[1:]:
        piped(log)
    assert coverage(copy)["segments"] == 1
