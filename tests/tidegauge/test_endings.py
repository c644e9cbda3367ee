"""Signals: one that comes amid what must not be left half done waits for it; Ctrl-C has its own exit code."""

import os
import signal
import subprocess
import sys

import pytest

from tidegauge.runs.signals import held_back

IN_A_COMMAND = """
import os, signal, sys
import click
from tidegauge.runs.signals import held_back
from tidegauge import endings
endings.ends_by_signal()
@click.command()
@endings.told
def command():
    with held_back():
        os.kill(os.getpid(), int(sys.argv[1]))
        os.kill(os.getpid(), int(sys.argv[1]))
        print("done", flush=True)
    print("never", flush=True)
command(args=[])
"""


AMID_A_CALLBACK = """
import os, signal, sys, time
import click
from tidegauge import endings
endings.ends_by_signal()
class Last:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(1)
@click.command()
@endings.told
def command():
    last = Last()
    del last
    time.sleep(60)
    print("never", flush=True)
command(args=[])
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [(IN_A_COMMAND, "done\n"), (AMID_A_CALLBACK, "")],
    ids=["what was begun is done before", "amid a callback it is not lost"],
)
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
    ids=lambda value: str(value),
)
def test_a_signal_ends_the_command_with_its_code(program: str, printed: str, number: int, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, str(int(number))], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (printed, "", code)


def test_handlers_are_as_before_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with held_back():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_an_error_in_the_middle_comes_out_where_no_signal_came() -> None:
    with pytest.raises(ValueError, match="its own"), held_back():
        raise ValueError("its own")


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with held_back():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


IN_ITS_CALLBACKS = """
import atexit, os, signal, sys
from tidegauge import endings
endings.ends_by_signal()
atexit.register(os.kill, os.getpid(), int(sys.argv[1]))
try:
    sys.exit(1)
finally:
    endings.told_already()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_amid_the_clearing_up_changes_nothing(number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_ITS_CALLBACKS, str(int(number))], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 1)


WHILE_IT_IMPORTS = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "tidegauge.snapshots.manifest":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from tidegauge.cli.start import run
run()
"""


def test_ctrl_c_while_a_command_is_imported_shows_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHILE_IT_IMPORTS, "--version"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 130)
