"""A small scoring run, whole: worlds simulated, audited by Spark and Great Expectations, marked, published."""

import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tidegauge.scoring.cases import load
from tidegauge.scoring.run import CASES, SCORE, TABLE, Batch, audited, publish, score, simulate
from tidegauge.scoring.score import Score
from tidegauge.snapshots.errors import SnapshotError

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

BATCH = Batch(seeds=range(1, 3), fault_free=range(3, 5), scenarios=True)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("score") / "out"


@pytest.fixture(scope="module")
def scored(out: Path, store_url: str) -> Score:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGAUGE_HOME", str(out.parent / "home"))
        return score(BATCH, out, store=store_url, master="local[2]", progress=lambda _: None)


def test_every_world_and_every_scenario_is_in_the_score(scored: Score, out: Path) -> None:
    cases = load(out / CASES)
    assert (scored.worlds, scored.fault_free_worlds, scored.snapshots) == (2, 2, len(cases))
    assert scored.scenarios == len({case.name for case in cases if case.kind == "scenario"}) >= 16
    caught = {i.code for i in scored.invariants if i.caught}
    assert {"A01", "A03", "B16", "D02", "D06", "D10"} <= caught


def test_scenarios_are_marked_against_their_earlier_copies(scored: Score, out: Path) -> None:
    (compared,) = (i for i in scored.invariants if i.code == "C10")
    assert compared.caught == compared.should_catch > 0


def test_what_failed_can_be_looked_at_and_what_did_not_is_gone(scored: Score, out: Path) -> None:
    failed = {failure.case for failure in scored.failures}
    for case in load(out / CASES):
        assert Path(case.snapshot).exists() == (case.name in failed)


def test_the_score_is_published_once_however_often_its_steps_are_run(scored: Score, out: Path, store_url: str) -> None:
    simulate(BATCH, out, progress=lambda _: None)
    assert audited(out, master=None, progress=lambda _: None) == scored
    publish(out, store=store_url, progress=lambda _: None)
    engine = create_engine(store_url)
    with engine.connect() as connection:
        found = connection.execute(text("SELECT code, caught FROM tidegauge.v_score ORDER BY code")).fetchall()
    engine.dispose()
    assert [tuple(row) for row in found] == [(i.code, i.caught) for i in scored.invariants]


def test_the_score_of_another_ruleset_is_not_taken_for_this_ones(scored: Score, tmp_path: Path) -> None:
    (tmp_path / SCORE).write_text(json.dumps(scored.to_json() | {"ruleset_version": "0"}))
    with pytest.raises(SnapshotError, match="has the score of ruleset 0, and this is ruleset"):
        audited(tmp_path, master=None, progress=lambda _: None)


def test_the_report_files_say_the_same(scored: Score, out: Path) -> None:
    assert json.loads((out / SCORE).read_text())["snapshots"] == scored.snapshots
    assert f"{scored.scenarios} scenarios" in (out / TABLE).read_text()
