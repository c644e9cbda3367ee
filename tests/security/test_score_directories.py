"""A score's directory that somebody else wrote to, or that was copied: no world elsewhere is removed by it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.derivation.small_cluster import small_world, taken, written
from tidegauge.cli.main import main

CASE = {
    "kind": "fault-free", "name": "seed 1", "moment": "first", "snapshot": "", "previous": None, "live": False,
    "replay": "", "faults": [], "allowed": [], "losses": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taken(written(tmp_path_factory.mktemp("backup") / "sound", small_world()))


def score(step: str, out: Path) -> Result:
    return CliRunner().invoke(main, ["score", "--step", step, "--seeds", "1", "--out", str(out), "--store", "none"])


@pytest.mark.parametrize("how", ["as it is", "by the parent", "by a link", "the worlds", "as the earlier one"])
def test_no_snapshot_outside_of_the_directory_is_audited_as_a_world_and_removed(
    tmp_path: Path, sound: Path, how: str
) -> None:
    worlds = tmp_path / "score" / "worlds"
    (worlds / "1").mkdir(parents=True)
    (worlds / "link").symlink_to(sound)
    named = {
        "as it is": str(sound),
        "by the parent": f"{worlds}/../../../{sound.relative_to(sound.parents[1])}",
        "by a link": str(worlds / "link"),
        "the worlds": str(worlds),
        "as the earlier one": str(worlds / "1"),
    }[how]
    case = CASE | {"snapshot": named, "previous": str(sound) if how == "as the earlier one" else None}
    (tmp_path / "score" / "cases.json").write_text(json.dumps([case]), encoding="utf-8")
    done = score("audit", tmp_path / "score")
    assert done.exit_code == 2, done.output
    assert "is not what a step before wrote" in " ".join(done.output.split())
    assert (sound / "MANIFEST.json").exists()


@pytest.mark.parametrize("text", ["", "[", "{}", "7", "null", '[{"kind": 1}]', "[" * 100_000, "\\udcff"])
@pytest.mark.parametrize(("step", "name"), [("simulate", "batch"), ("audit", "cases"), ("publish", "score")])
def test_what_no_step_wrote_is_told_in_a_sentence(tmp_path: Path, step: str, name: str, text: str) -> None:
    (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    done = score(step, tmp_path)
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
