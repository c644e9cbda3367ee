"""Three faults, once each; `make faults` makes all of them, as often as it is asked to (docs/faults.md).

And of the tool itself: it notices what it is there to notice.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.faults import table
from benchmarks.faults.attempt import Attempt, attempt, calm
from benchmarks.faults.attempt import _of_the_end as of_the_end
from benchmarks.faults.faults import Calm, Fault, Met, faults
from benchmarks.faults.place import MARK, Ended, Place

SEED = "test"
FAULTS = {fault.name: fault for fault in faults()}
CALM = Calm(code=1, found={}, opened=[], seconds=())


@pytest.fixture(scope="module")
def parent() -> Iterator[Path]:
    """Short, for a socket lies in it, and everybody's to pass through, as who runs root's Postgres must."""
    directory = Path(tempfile.mkdtemp(prefix="tgf-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def undisturbed(parent: Path) -> Mapping[bool, Calm]:
    """On Spark, and without."""
    return calm(parent)


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.postgres
@pytest.mark.parametrize(
    ("name", "number", "spark", "code"),
    [
        ("kill -9", 1, False, -9),
        ("kill -9 of the JVM", 4, True, 3),
        ("kill -9 of the validation", 1, False, 3),
        ("SIGINT", 1, False, 130),
    ],
)
def test_the_same_command_again_makes_it_right(
    name: str, number: int, spark: bool, code: int, undisturbed: Mapping[bool, Calm], parent: Path
) -> None:
    """The numbers are of instants in the middle."""
    made = attempt(FAULTS[name], SEED, number, undisturbed[spark], parent, spark=spark)
    assert made.wrong == (), made.said
    assert made.codes == (code,), made.how
    assert made.store_right


# ---------------------------------------------------------------------------------------------------------- the tool


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(root=tmp_path)
    for directory in (place.home, place.tmp, place.out):
        directory.mkdir()
    return place


def test_what_is_left_is_found(place: Place) -> None:
    assert place.left() == set()
    (place.tmp / "tidegauge-postgres-xyz").mkdir()
    (place.tmp / "tmpabc").touch()
    (place.out / ".report.json.judged").touch()
    (place.out / "work").mkdir()
    assert place.left() == {
        "temporary tidegauge-postgres-*",
        "temporary tmp*",
        ".report.json.judged in the run directory",
        "work in the run directory",
    }


def test_a_process_of_the_place_is_found_whoever_its_parent_is(place: Place) -> None:
    code = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()'], stdout=2).pid)"
    started = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, MARK: str(place.root)},
    )  # fmt: skip
    assert started.stdout is not None
    orphan = int(started.stdout.readline())
    started.wait()
    assert [process.pid for process in place.processes()["python"]] == [orphan]
    place.end()
    assert place.processes() == {}


@pytest.mark.parametrize(
    ("code", "said", "wrong"),
    [
        (1, "index: 1 snapshot(s)\n", []),
        (143, "", []),
        (70, "tidegauge: an error of its own (KeyError: 1).", ["it ended with 70"]),
        (3, "Traceback (most\ntidegauge: no disk", ["it showed a traceback", "it said 'Traceback (most'"]),
        (3, "index: 1\n", ["0 errors were told, not one"]),
        (143, "Aborted!\n", ["it said 'Aborted!'"]),
    ],
)  # fmt: skip
def test_an_end_is_as_the_documents_say(code: int, said: str, wrong: list[str]) -> None:
    fault = replace(FAULTS["SIGTERM"], codes=frozenset({143, 3}))
    assert list(of_the_end(Met(ended=[Ended(code=code, said=said)]), fault, CALM)) == wrong


def test_each_fault_has_a_name_of_its_own_and_the_table_all_of_them() -> None:
    assert len(FAULTS) == len(faults()) == 15
    assert all(isinstance(fault, Fault) and fault.what for fault in FAULTS.values())
    kept = table.load()
    assert kept is not None
    assert set(kept.faults) == set(FAULTS)


def test_the_page_is_made_from_the_attempts() -> None:
    kept = table.load()
    assert kept is not None
    assert table.PAGE.read_text(encoding="utf-8") == table.page(kept)


def test_attempts_are_counted_and_one_made_again_replaces_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "KEPT", tmp_path / "faults.json")
    monkeypatch.setattr(table, "PAGE", tmp_path / "faults.md")
    now = table.Kept(
        faults={"SIGTERM": "told to end", "read-only": "closed"}, impossible={"read-only": "no root"}, calm=1
    )
    one = Attempt(
        fault="SIGTERM", seed="1", number=0, how="start", codes=(143,), left=("work",), left_for_good=(),
        store_right=False, wrong=("x",),
    )  # fmt: skip
    table.write([one, replace(one, number=1)], now)
    table.write(
        [replace(one, store_right=True, wrong=()), replace(one, number=2, codes=(1,), left=(), spark=False)], now
    )
    page = table.PAGE.read_text()
    assert "| SIGTERM | told to end | 3 | 2 | 1 (1), 143 (2) | 1 | work (2) | nothing | 2 |" in page
    assert "| read-only | closed | 0 | | not possible here: no root | | | | |" in page
    assert len(json.loads(table.KEPT.read_text())["attempts"]) == 3
