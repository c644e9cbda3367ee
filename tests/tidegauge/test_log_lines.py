"""What a command says on standard error as JSON: every line an object, with the ids of what it is about."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.security.command import tidegauge
from tidegauge import log


@pytest.fixture(autouse=True)
def collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGAUGE_LOG_FORMAT", "json")


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_says_when_and_whose_it_is() -> None:
    at = datetime(2026, 11, 26, 4, 0, 0, 123_456, tzinfo=UTC)
    with log.about(cluster="a", snapshot_id=None):
        with log.about(run_id="r"):
            told = json.loads(log.line("two\nlines", "error", now=at))
        outside = json.loads(log.line("x"))
    assert told == {
        "at": "2026-11-26T04:00:00.123Z", "level": "error", "message": "two\nlines", "cluster": "a", "run_id": "r",
    }  # fmt: skip
    assert outside.keys() == {"at", "level", "message", "cluster"}


def test_without_the_switch_a_line_is_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGAUGE_LOG_FORMAT")
    with log.about(cluster="a"):
        assert log.line("a sentence") == "a sentence"


@pytest.mark.slow
@pytest.mark.postgres
def test_each_line_of_an_audit_is_an_object_that_names_its_run(golden: Golden, tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    done = tidegauge("audit", golden("unclean-before"), "--out", out, home=home)
    assert done.returncode == 1
    told, run = lines(done.stderr), json.loads((out / "report.json").read_text())["run"]
    assert {line["command"] for line in told} == {"audit"}
    assert {(line["cluster"], line["snapshot_id"]) for line in told} == {(run["cluster"], run["snapshot_id"])}
    (verdict,) = [line for line in told if line["message"].startswith("verdict: ")]
    assert verdict["run_id"] == run["run_id"]


@pytest.mark.slow
@pytest.mark.postgres
def test_of_several_snapshots_a_line_names_the_one_that_it_is_about(golden: Golden, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "MANIFEST.json").write_text("{")
    done = tidegauge(
        "audit", golden("unclean-before"), tmp_path / "broken", "--out", tmp_path / "out", home=tmp_path / "home"
    )
    assert done.returncode == 2
    told = lines(done.stderr)
    (left_out,) = [line for line in told if " is left out: " in line["message"]]
    assert left_out["snapshot"].endswith("broken")
    assert [line["level"] for line in told].count("error") == 1
    assert told[-1]["level"] == "error"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["audit", "--bad"], "No such option '--bad'"),
        (["nope"], "No such command 'nope'"),
        (["audit", "there/is/none", "--out", "x", "--store", "none"], "does not exist"),
    ],
)
def test_an_error_is_one_object(words: list[str], message: str, tmp_path: Path) -> None:
    done = tidegauge(*words, home=tmp_path / "home", cwd=tmp_path)
    assert done.returncode == 2
    (told,) = lines(done.stderr)
    assert told["level"] == "error"
    assert message in told["message"]


def test_help_is_for_people(tmp_path: Path) -> None:
    done = tidegauge("audit", "--help", home=tmp_path / "home")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: tidegauge audit")


def test_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGAUGE_LOG_FORMAT", "xml")
    done = tidegauge("status", home=tmp_path / "home")
    assert done.returncode == 2
    assert "TIDEGAUGE_LOG_FORMAT is 'xml'. It may be text or json." in done.stderr
