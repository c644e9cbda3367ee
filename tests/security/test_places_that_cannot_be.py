"""Places at which nothing can be: below a file, in links that lead in a circle, under a name that is too long.

Each is exit 2, since trying again does not help, and what a command refuses for its arguments leaves no directory.
"""

from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.security.command import here, refused


@pytest.mark.parametrize("where", ["file/out", "loop/out", "x" * 300], ids=["below a file", "a loop", "too long"])
@pytest.mark.parametrize(
    "line",
    [
        ("audit", "{}", "--cluster", "c", "--store", "none", "--out"),
        ("job", "derive", "--run"),
        ("salvage", "{}", "--topic", "orders", "--partition", "0", "--out"),
        ("capture", "--cluster", "c", "--broker", "1={}/broker-1", "--out"),
        ("simulate", "--seed", "1", "--hours", "0.01", "--out"),
        ("score", "--seeds", "1", "--hours", "0.01", "--out"),
    ],
    ids=lambda line: line[0],
)
def test_where_nothing_can_be_trying_again_does_not_help(
    line: tuple[str, ...], where: str, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x", encoding="utf-8")
    Path("loop").symlink_to("loop")
    done = here(*(word.format(golden("one-controller")) for word in line), where)
    refused(done)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "loop"}


@pytest.mark.parametrize(
    "line",
    [
        ("audit", "{}", "--store", "none", "--out", "out"),
        ("audit", "latest", "--cluster", "c", "--snapshots", "{}", "--store", "none", "--out", "out"),
        ("capture", "--cluster", "c", "--broker", "1={}", "--out", "root"),
        ("metadata", "{}"),
        ("restart-check", "--broker", "1=file,{}"),
        ("salvage", "{}", "--topic", "t", "--partition", "0", "--out", "out"),
        ("snapshot", "adopt", "{}", "--cluster", "c"),
        ("snapshot", "verify", "{}"),
    ],
    ids=" ".join,
)
def test_links_in_a_circle_are_nothing_to_read(
    line: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x", encoding="utf-8")
    Path("loop").symlink_to("loop")
    for place in ("loop", "loop/below"):
        refused(here(*(word.format(place) for word in line)))
        assert {path.name for path in tmp_path.iterdir()} == {"file", "loop"}


def test_a_score_that_cannot_be_made_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for more in (("--scenario", "nowhere.yaml"), (), ("--seeds", "1", "--step", "publish")):
        refused(here("score", "--out", "out", "--store", "none", *more))
        assert list(tmp_path.iterdir()) == []


def test_a_dump_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = here("store", "restore", tmp_path / "nowhere", "--store", "postgresql://127.0.0.1:1/x")
    refused(done)
    assert f"There is no dump at {tmp_path / 'nowhere'}" in done.output
