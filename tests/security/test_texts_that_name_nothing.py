"""Empty texts, which a shell leaves where a variable is not set, and others that name no place: each is refused.

`--out "$OUT"` would write into the directory where the command stands, `--store "$STAGING"` forget a cluster of another
store than the one that was meant, and `--broker 1=/data/a,"$B"` judge a start without a disk of the broker.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.conftest import Golden
from tests.security.command import here, refused
from tidegauge.cli.main import main


def taking_text(group: click.Group, *words: str) -> Iterator[tuple[str, ...]]:
    """The start of a command line for each option and argument that takes a text or a path: its value comes next."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from taking_text(command, *words, name)
            continue
        chosen: list[str] = []  # what comes before
        for parameter in command.params:
            if isinstance(parameter.type, click.Choice) and isinstance(parameter, click.Argument):
                chosen.append(str(parameter.type.choices[0]))
            if isinstance(parameter.type, click.types.StringParamType | click.Path) and parameter.default != "":
                yield (*words, name, *(parameter.opts[:1] if isinstance(parameter, click.Option) else chosen))


LINES = sorted(set(taking_text(main)))


def test_the_commands_that_write_and_remove_are_among_them() -> None:
    assert {("audit", "--out"), ("store", "forget", "--store"), ("store", "retain", "--runs"), ("audit",)} <= {*LINES}


@pytest.mark.parametrize("value", ["", "a\0b"], ids=["empty", "nul"])
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_no_command_takes_it(
    line: tuple[str, ...], value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = here(*line, value)
    refused(done)
    assert ("it is empty" if value == "" else "holds a NUL") in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        ("audit", "snapshot", "--store", "none", "--out"),
        ("job", "derive", "--run"),
        ("salvage", "snapshot", "--topic", "t", "--partition", "0", "--out"),
        ("score", "--seeds", "1", "--out"),
    ],
    ids=lambda line: line[0],
)
def test_a_path_that_no_report_can_hold_is_refused_before_anything_is_written(
    line: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = here(*line, "a\udcffb")
    refused(done)
    assert "is no UTF-8" in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dirs", ["{},", ",{}", "{},,/nowhere", "{}, "])
@pytest.mark.parametrize("command", ["restart-check", "capture"])
def test_a_log_dir_that_is_left_empty_is_not_left_out(
    command: str, dirs: str, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broker = f"1={dirs.format(golden('one-controller') / 'broker-1')}"
    more = ("--cluster", "c", "--out", "root") if command == "capture" else ()
    done = here(command, "--broker", broker, *more)
    refused(done)
    assert "leaves a log dir empty" in done.output
    assert list(tmp_path.iterdir()) == []


SALVAGE = ("--topic", "orders", "--partition", "0", "--broker", "1", "--out", "out")


@pytest.mark.parametrize(
    "of", [("--from", "10", "--to", "5"), ("--from", "5", "--to", "5"), ("--to", "0")], ids=" ".join
)
def test_a_range_without_an_offset_is_not_saved_as_no_records(
    of: tuple[str, ...], golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = here("salvage", golden("one-controller"), *SALVAGE, *of)
    refused(done)
    assert "there is no offset" in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("start", ["1000000", "9" * 25])
def test_a_range_that_the_copy_has_nothing_of_is_not_saved_as_no_records(
    start: str, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = here("salvage", golden("one-controller"), *SALVAGE, "--from", start)
    refused(done)
    assert f"holds nothing of offsets {start} and above" in done.output
    assert "it holds offsets 0.." in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_range_that_the_copy_has_is_saved(golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = here("salvage", golden("one-controller"), *SALVAGE, "--from", "0", "--to", "3")
    assert done.exit_code == 0, done.output
    assert json.loads(Path("out", "salvage.json").read_text(encoding="utf-8"))["records"] == 3
