"""How far long work is: what the words say, when a line is due, and what a terminal really gets."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.snapshots.brokers import Log, log_dir
from tidegauge import progress
from tidegauge.progress import Done, Lines, Work, each, in_words, is_shown, seconds_left, show, working

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")
SEGMENTS = Work(what="index", unit="segments", parts=300, size_bytes=4_800_000_000)
LONG = """
from tidegauge.progress import display_for, show, working
show(display_for())
with working("index", "segments", parts=300, size_bytes=4_800_000_000) as advance:
    for _ in range(300):
        advance(1, 16_000_000)
"""
COMMAND = "from tidegauge.cli.start import run; run()"


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def nothing_shown() -> Iterator[None]:
    yield
    show(None)


@pytest.mark.parametrize(
    ("done", "words"),
    [
        (Done(), "index: 0 of 300 segments, 0.0 of 4.8 GB"),
        (Done(parts=12, size_bytes=1_200_000_000, seconds=60), "index: 12 of 300 segments, 1.2 of 4.8 GB, 3 min left"),
        (Done(parts=12, size_bytes=1_200_000_000, seconds=2), "index: 12 of 300 segments, 1.2 of 4.8 GB"),
        (Done(parts=299, size_bytes=4_800_000_000, seconds=60), "index: 299 of 300 segments, 4.8 of 4.8 GB, 0 s left"),
    ],
)
def test_words_of_parts_bytes_and_time(done: Done, words: str) -> None:
    assert in_words(SEGMENTS, done) == words


def test_what_is_not_known_is_not_said() -> None:
    assert in_words(Work(what="adopt", unit="files"), Done()) == "adopt"
    assert in_words(Work(what="adopt", unit="files"), Done(parts=1234, seconds=99)) == "adopt: 1,234 files"
    some = Work(what="derive", unit="partitions", parts=4)
    assert in_words(some, Done(parts=1, seconds=7200)) == "derive: 1 of 4 partitions, 6.0 h left"


def test_more_was_done_than_was_expected_leaves_no_time_below_zero() -> None:
    grown = Done(parts=310, size_bytes=5_000_000_000, seconds=100)
    assert seconds_left(SEGMENTS, grown) == 0


def test_a_line_each_half_minute() -> None:
    said: list[str] = []
    clock = Clock()
    show(Lines(said.append, clock=clock))
    with working("index", "segments", parts=300, clock=clock) as advance:
        for _ in range(299):
            clock.now += 1
            advance(1)
    assert len(said) == 9
    assert said[0] == "index: 30 of 300 segments, 4 min left"


def test_short_work_leaves_no_line() -> None:
    said: list[str] = []
    clock = Clock()
    show(Lines(said.append, clock=clock))
    with working("index", "segments", parts=300, clock=clock) as advance:
        for _ in each(advance, range(300)):
            clock.now += 0.09
    assert said == []


def test_a_part_is_done_when_the_next_is_asked_for() -> None:
    told: list[int] = []
    seen = [(part, sum(told)) for part in each(lambda parts, size_bytes=0: told.append(parts), "abc")]
    assert seen == [("a", 0), ("b", 1), ("c", 2)]
    assert sum(told) == 3


def test_nobody_is_shown_anything_before_somebody_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert not is_shown()
    with working("index", "segments", parts=1) as advance:
        advance(1, 5)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def on_a_terminal(*command: str, columns: int = 40, **environment: str) -> str:
    """What a command writes on a terminal so wide, byte for byte."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
    surroundings: Mapping[str, str] = {**kept, "TERM": "xterm-256color", **environment}
    child = subprocess.Popen([sys.executable, *command], stdin=theirs, stdout=theirs, stderr=theirs, env=surroundings)
    os.close(theirs)
    written = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:  # How Linux says that nobody holds the other end any more.
            break
        if not read:
            break
        written += read
    os.close(ours)
    assert child.wait() == 0, written
    return written.decode()


def lines_of(written: str) -> list[str]:
    return [line for line in re.split(r"[\r\n]+", CONTROL.sub("", written)) if line]


@pytest.mark.parametrize("columns", [20, 40, 132])
def test_a_terminal_has_one_line_that_is_never_wider_than_it(columns: int) -> None:
    written = on_a_terminal("-c", LONG, columns=columns)
    lines = lines_of(written)
    assert lines
    assert max(map(len, lines)) <= columns
    assert all(line.startswith("index:") for line in lines)
    # Each rewriting clears the line it stands on; none goes up further, for then there would be two of them.
    assert not re.search(r"\x1b\[([2-9]|\d\d+)A", written)


def test_a_wide_terminal_tells_all() -> None:
    assert any(
        "300 of 300 segments, 4.8 of 4.8 GB" in line for line in lines_of(on_a_terminal("-c", LONG, columns=132))
    )


def test_no_color_is_respected() -> None:
    assert COLOUR.search(on_a_terminal("-c", LONG, columns=132))
    assert not COLOUR.search(on_a_terminal("-c", LONG, columns=132, NO_COLOR="1"))


def test_a_terminal_that_cannot_rewrite_gets_lines() -> None:
    assert on_a_terminal("-c", LONG, TERM="dumb") == ""


@pytest.mark.slow
def test_quiet_leaves_standard_error_empty(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    Log.new(log_dir(copy / "broker-1") / "orders-0").append(5)
    command = [sys.executable, "-c", COMMAND]
    adopted = subprocess.run(
        [*command, "snapshot", "adopt", str(copy), "--cluster", "c", "--quiet"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (adopted.stderr, "c/copy" in adopted.stdout) == ("", True)
    quiet = subprocess.run([*command, "snapshot", "adopt", str(copy), "--cluster", "c", "--quiet"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert quiet.returncode == 2
    assert "is a snapshot already" in quiet.stderr


def test_a_capture_tells_its_partitions_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from tidegauge.cli.main import main

    Log.new(log_dir(tmp_path / "broker-1") / "orders-0").append(5)
    told: list[str] = []
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    monkeypatch.setattr("tidegauge.endings.display_for", lambda: Lines(told.append))
    given = ["capture", "--cluster", "c", "--broker", f"1={tmp_path / 'broker-1'}", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 0, done.output
    assert told[-1].startswith("capture: 1 of 1 partitions, ")
    assert not is_shown()
