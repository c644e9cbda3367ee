"""Great Expectations in a process of its own: the same answers, and no process that stays."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.processes import environment_of
from tidegauge.audit.validate_apart import validating
from tidegauge.expectations.errors import EvaluationError
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.runs.errors import UnavailableError

pytestmark = pytest.mark.slow

INVARIANTS = [CATALOGUE["D06"], CATALOGUE["A01"]]
HOLDS = """
import time
from tidegauge.audit.validate_apart import validating
with validating():
    print("begun", flush=True)
    time.sleep(600)
"""

ASKS = """
import threading, time
from tidegauge.audit.validate_apart import validating
from tidegauge.expectations.registry import CATALOGUE
with validating() as validate:
    threading.Thread(
        target=validate, args=("postgresql://u@127.0.0.1:1/x", ["a"], [CATALOGUE["D06"]]), daemon=True
    ).start()
    time.sleep(0.5)
    print("begun", flush=True)
    time.sleep(600)
"""


def child() -> psutil.Process:
    """The one process of this library that this process has. Others may have ended, and then show no command line; it
    shows its own a moment after its start.
    """
    living = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE and environment_of(p.pid)]
    (found,) = [p for p in living if "tidegauge.audit.validate_apart" in p.cmdline()]
    return found


@pytest.mark.postgres
def test_it_says_what_the_library_says_here_as_often_as_it_is_asked(store_url: str) -> None:
    from tidegauge.expectations.gx.validation import validate
    from tidegauge.store import migrate

    migrate(store_url)
    with validating() as apart:
        for run_ids in (["none"], ["a", "b"]):
            assert apart(store_url, run_ids, INVARIANTS) == validate(store_url, run_ids, INVARIANTS)


def test_what_the_library_raises_is_raised_here() -> None:
    with validating() as apart:
        with pytest.raises(EvaluationError, match="other characters than letters"):
            apart("postgresql://u@127.0.0.1:1/x", ["'; DROP"], INVARIANTS)
        with pytest.raises(ConnectionError, match="cannot reach the store"):
            apart("postgresql://u@127.0.0.1:1/x", ["a"], INVARIANTS)
        with pytest.raises(RuntimeError) as mistake:  # none that it says it raises
            apart("no address", ["a"], INVARIANTS)
        assert "Traceback" in mistake.value.__notes__[0]


def test_a_process_that_was_killed_is_the_environment_s_error() -> None:
    with validating() as apart:
        child().kill()
        with pytest.raises(UnavailableError, match="ended with -9"):
            apart("postgresql://u@127.0.0.1:1/x", ["a"], INVARIANTS)


def test_no_password_stands_on_a_command_line() -> None:
    with validating() as apart:
        with pytest.raises(ConnectionError):
            apart("postgresql://u:verysecret@127.0.0.1:1/x", ["a"], INVARIANTS)
        assert "verysecret" not in " ".join([*child().cmdline(), *child().environ().values()])


def test_it_ends_with_the_block_whatever_it_is_at() -> None:
    with validating():
        begun = child()
    assert not begun.is_running()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_it_ends_with_its_parent(number: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"begun\n"
    (begun,) = psutil.Process(parent.pid).children()
    parent.send_signal(number)
    parent.wait()
    begun.wait(timeout=60)


def test_it_has_nothing_to_say_to_a_parent_that_was_killed(tmp_path: Path) -> None:
    """It was asked, and is about to answer."""
    said = tmp_path / "said"
    with said.open("w") as stderr:
        parent = subprocess.Popen([sys.executable, "-c", ASKS], stdout=subprocess.PIPE, stderr=stderr)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"begun\n"
    (begun,) = psutil.Process(parent.pid).children()
    parent.kill()
    parent.wait()
    begun.wait(timeout=60)
    assert said.read_text() == ""


def test_it_imports_nothing_from_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "great_expectations.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    with validating() as apart, pytest.raises(ConnectionError):
        apart("postgresql://u@127.0.0.1:1/x", ["a"], INVARIANTS)
    assert not (tmp_path / "ran").exists()
