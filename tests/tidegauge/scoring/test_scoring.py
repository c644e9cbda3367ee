"""Marks and scores: what counts as caught, missed and false, and what a reader is told."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tidegauge.cli.main import main
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.scoring.cases import Case, Fault, Loss, load, save, scenario_cases
from tidegauge.scoring.marks import Marks, mark
from tidegauge.scoring.run import Batch, simulate
from tidegauge.scoring.score import Score, counted, from_json
from tidegauge.scoring.table import tables
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange
from tidegauge.snapshots.errors import SnapshotError

ORDERS = TopicPartition("orders", 0)
ROT = Fault(kind="bit-flip", findings=(Finding(code="A03", partition=ORDERS, broker_id=2),))
CUT = Finding(code="D06", partition=ORDERS, broker_id=1, start_offset=80, end_offset=100)
LOSS = Loss(lost=LostRange(partition=ORDERS, start_offset=80, end_offset=100, committed=True), codes=frozenset({"D06"}))


def case(*faults: Fault, kind: Any = "faults", **values: Any) -> Case:
    common = {"name": "seed 7", "moment": "first", "snapshot": "s", "previous": None, "live": False, "replay": "again"}
    return Case(kind=kind, faults=faults, **{**common, **values})


def breach(code: str, severity: str = "critical", *, start: int | None = None, end: int | None = None, **subject: Any):
    where = {"topic": "orders", "partition": 0, **subject}
    return {"code": code, "severity": severity, "subject": where, "start_offset": start, "end_offset": end}


def marked(of: Case, *breaches: dict[str, Any]) -> Marks:
    return mark(of, {"breaches": list(breaches)})


def score(*marks: Marks) -> Score:
    return counted(marks, CATALOGUE, ruleset_version="9")


def of(found: Score, code: str) -> tuple[int, int, int, int]:
    (one,) = (i for i in found.invariants if i.code == code)
    return one.should_catch, one.caught, one.missed, one.false_alarms


def test_what_is_reported_where_it_was_done_is_caught():
    found = marked(case(ROT), breach("A03", broker_id=2))
    assert found.sound
    assert of(score(found), "A03") == (1, 1, 0, 0)


@pytest.mark.parametrize(
    "elsewhere",
    [breach("A03", broker_id=1), breach("A03", broker_id=2, partition=1), breach("A01", broker_id=2)],
    ids=["another broker", "another partition", "another invariant"],
)
def test_what_is_reported_elsewhere_is_missed_and_a_false_alarm(elsewhere):
    found = score(marked(case(ROT), elsewhere))
    assert of(found, "A03")[:3] == (1, 0, 1)
    assert sum(i.false_alarms for i in found.invariants) == 1
    assert {f.what for f in found.failures} == {"A03 missed", f"{elsewhere['code']} false alarm"}
    assert {f.replay for f in found.failures} == {"again"}


def test_what_a_fault_brings_along_is_neither_asked_for_nor_a_false_alarm():
    along = Finding(code="D02", partition=ORDERS)
    for reported in ([], [breach("D02", leader_id=1, follower_id=2, start=3)]):
        assert marked(case(ROT, allowed=(along,)), breach("A03", broker_id=2), *reported).sound


def test_facts_are_no_alarms_but_can_be_what_was_asked_for():
    assert marked(case(), breach("D05", "info", follower_id=1)).sound
    asked = Fault(kind="x", findings=(Finding(code="D05", partition=ORDERS, broker_id=1),))
    assert marked(case(asked), breach("D05", "info", follower_id=1)).sound


def test_any_alarm_in_a_world_without_faults_counts():
    found = score(marked(case(kind="fault-free", name="seed 8"), breach("D02"), breach("D02", "warning", partition=1)))
    assert (found.fault_free_worlds, found.fault_free_alarms) == (1, 2)
    assert of(found, "D02") == (0, 0, 0, 2)
    assert not found.perfect


@pytest.mark.parametrize(("start", "end", "exact"), [(80, 100, 1), (81, 100, 0), (80, 101, 0)])
def test_a_loss_is_told_to_the_offset_or_not_at_all(start, end, exact):
    reported = breach("D06", follower_id=1, start=start, end=end)
    found = marked(case(Fault(kind="x", findings=(CUT,)), losses=(LOSS,)), reported)
    assert len(found.exact) == exact
    assert len(found.not_told) == 1 - exact
    assert len(found.caught) == exact


def test_a_loss_is_told_only_by_an_invariant_that_can():
    allowed = (Finding(code="D02"),)
    assert marked(case(losses=(LOSS,), allowed=allowed), breach("D02", start=80, end=100)).not_told == (LOSS,)


def test_what_no_file_tells_is_listed_with_its_reason():
    unseen = Fault(kind="one-way-cut", unseen="nothing was written")
    gone = Loss(lost=LOSS.lost, unseen="never committed")
    found = score(marked(case(unseen, unseen, losses=(gone,))))
    assert [(i.what, i.reason, i.times) for i in found.impossible] == [
        ("lost records", "never committed", 1),
        ("one-way-cut", "nothing was written", 2),
    ]
    assert [(f.injected, f.unseen, f.missed) for f in found.faults] == [(2, 2, 0)]
    assert found.perfect


def test_the_table_says_what_was_counted_and_leaves_nothing_out():
    found = score(marked(case(ROT), breach("D02")), marked(case(kind="scenario", name="bit-rot")))
    lines = list(tables(found))
    assert f"| A03 {CATALOGUE['A03'].name} | 1 | 0 | 1 | 0 |" in lines
    assert f"| D02 {CATALOGUE['D02'].name} | 0 | 0 | 0 | 1 |" in lines
    assert f"The other {len(CATALOGUE) - 2} invariants had nothing to catch, and raised no alarm." in lines
    assert "| bit-flip | 1 | 0 | 1 | 0 |" in lines


def test_a_score_comes_back_from_its_json():
    found = score(marked(case(ROT, losses=(LOSS,)), breach("D02")))
    assert from_json(json.loads(json.dumps(found.to_json()))) == found


def test_cases_come_back_from_their_file(tmp_path):
    cases = [case(ROT, allowed=(CUT, Finding(code="D02")), losses=(LOSS,)), *scenario(tmp_path / "w", "bit-rot")]
    save(cases, tmp_path / "cases.json")
    assert load(tmp_path / "cases.json") == cases


def scenario(out: Path, name: str) -> list[Case]:
    return scenario_cases(name, seed=1, out=out)


def test_a_scenario_asks_for_what_it_tells(tmp_path):
    (rotten,) = scenario(tmp_path / "w", "bit-rot")
    (moment,) = SCENARIOS["bit-rot"].play(1).moments
    assert [f.findings for f in rotten.faults] == [moment.findings]
    assert (Path(rotten.snapshot) / "MANIFEST.json").is_file()


def test_a_seed_is_with_faults_or_without():
    with pytest.raises(SnapshotError, match="Seed 5 is to be with faults and without"):
        Batch(seeds=range(1, 6), fault_free=range(5, 9))
    with pytest.raises(SnapshotError, match="nothing to score"):
        Batch(seeds=range(0))


@pytest.mark.parametrize("seeds", ["5..1", "a", "1-5", "..3"])
def test_a_range_that_is_none_is_refused(seeds, tmp_path):
    done = CliRunner().invoke(main, ["score", "--seeds", seeds, "--out", str(tmp_path / "o")])
    assert done.exit_code == 2
    assert "--seeds" in done.output


def test_a_directory_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("x")
    done = CliRunner().invoke(main, ["score", "--seeds", "1", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "holds something" in done.output
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_a_step_says_which_one_comes_before(tmp_path):
    for step, before in (("audit", "simulate"), ("publish", "audit")):
        done = CliRunner().invoke(main, ["score", "--step", step, "--out", str(tmp_path)])
        assert done.exit_code == 2
        assert f"--step {before}" in done.output


FILE_HEAD = "about: a broker dies\ncluster: {brokers: 3}\ntopics:\n  orders: {replicas: 3}\nplay:\n"


@pytest.mark.slow
def test_a_scenarios_file_is_a_case_with_what_it_says_must_be_found(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    find = "find: [{code: D05, partition: orders-0, broker: 1, offsets: 0..4}]"
    mine.write_text(f"scenario: mine\n{FILE_HEAD}  - {{at: 5s, moment: end, {find}}}\n", encoding="utf-8")
    batch = Batch(seeds=range(0), files=(str(mine),))
    (told,) = simulate(batch, tmp_path / "out", progress=lambda _: None)
    assert (told.kind, told.name, told.moment) == ("scenario", "mine", "end")
    assert told.replay == f"tidegauge simulate {mine} --seed 1 --out mine"
    assert simulate(batch, tmp_path / "out", progress=lambda _: None) == [told], "what is there is kept"
    missed = mark(told, {"breaches": []})
    assert [finding.code for _, finding in missed.missed] == ["D05"]
    assert not missed.sound


def test_files_of_one_name_and_files_that_are_wrong_are_refused_before_anything_is_played(tmp_path: Path) -> None:
    for name, scenario, step in (("a", "mine", "moment: end"), ("b", "mine", "moment: end"), ("c", "bad", "momet: end"),
                                 ("d", "bit-rot", "moment: end")):  # fmt: skip
        text = f"scenario: {scenario}\n{FILE_HEAD}  - {{{step}}}\n"
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    for names, said in (("ab", "have the name mine"), ("ac", "line 7"), ("d", "one of ours have the name bit-rot")):
        files = tuple(str(tmp_path / f"{name}.yaml") for name in names)
        with pytest.raises(SnapshotError, match=said):
            simulate(Batch(seeds=range(0), files=files), tmp_path / "out", progress=lambda _: None)
        assert not (tmp_path / "out" / "worlds").exists()
