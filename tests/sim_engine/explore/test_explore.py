"""The exploration against the public specification's own figures, and against a plain reading of it."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from numpy.typing import NDArray

from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.sim_engine.explore.plain_model import PlainModel, Replica, State, breaks_strong_isr, reachable
from tidegauge.cli.main import main
from tidegauge.sim_engine.explore.layout import (
    END,
    ENTRIES,
    EPOCH,
    HIGH_WATERMARK,
    ISR,
    LEADER,
    NEXT_EPOCH,
    NEXT_RECORD,
    QUORUM_ISR,
    QUORUM_LEADER,
    REQUESTS,
    Constants,
    Layout,
    layout_of,
)
from tidegauge.sim_engine.explore.render_state import disks_of
from tidegauge.sim_engine.explore.rules import Action, Model
from tidegauge.sim_engine.explore.search import Exploration, Explorer
from tidegauge.sim_engine.explore.state_truth import violations
from tidegauge.sim_engine.explore.story import portrait, tell
from tidegauge.sim_engine.rendering import truth_schema
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import Consistency


def constants(replicas: int, log_size: int, records: int, epochs: int) -> Constants:
    return Constants(replicas=replicas, log_size=log_size, max_records=records, max_leader_epoch=epochs)


@cache
def explored(model: Model, *numbers: int) -> Exploration:
    """Several tests look at the same space; the largest takes seconds."""
    return Explorer(model, constants(*numbers)).explore()


def plain(layout: Layout, fields: NDArray[np.int64]) -> State:
    def members(bits: int) -> frozenset[int]:
        return frozenset(i for i in range(layout.constants.replicas) if int(bits) >> i & 1)

    replicas = []
    for number in range(layout.constants.replicas):
        at = layout.replicas_at + number * layout.replica_fields
        log = tuple(
            (int(fields[at + ENTRIES + 2 * o]) - 1, int(fields[at + ENTRIES + 2 * o + 1]) - 1)
            for o in range(int(fields[at + END]))
        )
        replicas.append(
            Replica(
                int(fields[at + HIGH_WATERMARK]), int(fields[at + EPOCH]) - 1, int(fields[at + LEADER]) - 1,
                members(int(fields[at + ISR])), log,
            )
        )  # fmt: skip
    requests = tuple(
        (int(fields[REQUESTS + 2 * e]) - 1, members(int(fields[REQUESTS + 2 * e + 1])))
        for e in range(int(fields[NEXT_EPOCH]))
    )
    return State(
        int(fields[NEXT_RECORD]), int(fields[QUORUM_LEADER]) - 1, members(int(fields[QUORUM_ISR])), requests,
        tuple(replicas),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numbers", "states"),
    [
        ((2, 2, 2, 2), (10131, 9045, 9027, 8429, 5973)),
        pytest.param((3, 2, 2, 1), (67807, 59788, 60106, 59092, 39619), marks=pytest.mark.slow),
    ],
)
def test_there_are_as_many_states_as_the_specification_has(numbers: tuple[int, ...], states: tuple[int, ...]) -> None:
    assert tuple(explored(model, *numbers).distinct_states for model in Model) == states


@pytest.mark.slow
def test_the_shortest_ways_to_a_lost_record() -> None:
    found = [explored(model, 3, 2, 2, 2).shortest_violation for model in Model]
    assert [len(steps) if steps else None for steps in found] == [8, 10, 10, 12, None]


@pytest.mark.parametrize("model", list(Model))
@pytest.mark.parametrize(
    "numbers",
    [
        (1, 2, 2, 2),
        pytest.param((2, 1, 2, 3), marks=pytest.mark.slow),
        (2, 3, 3, 1),
        pytest.param((2, 2, 1, 3), marks=pytest.mark.slow),
        pytest.param((3, 1, 1, 1), marks=pytest.mark.slow),
        (2, 2, 0, 1),
    ],
)
def test_every_state_is_one_of_the_plain_reading(model: Model, numbers: tuple[int, int, int, int]) -> None:
    explorer = Explorer(model, constants(*numbers))
    found = explorer.explore()
    states = [plain(explorer.layout, fields) for fields in explorer.states()]
    expected, shortest = reachable(PlainModel(model.name, *numbers))
    assert len(states) == len(set(states))
    assert set(states) == expected
    assert found.violating_states == sum(map(breaks_strong_isr, expected))
    assert (len(found.shortest_violation) if found.shortest_violation else None) == shortest


@pytest.mark.slow
def test_each_step_of_a_violation_is_a_step_of_the_plain_reading() -> None:
    layout, steps = layout_of(constants(3, 2, 2, 2)), explored(Model.Kip101, 3, 2, 2, 2).shortest_violation
    assert steps is not None
    model = PlainModel("Kip101", 3, 2, 2, 2)
    state = model.initial()
    for step in steps:
        following = plain(layout, step.fields)
        assert following in set(model.successors(state))
        state = following
    assert breaks_strong_isr(state)


def test_a_violation_is_told_as_a_story() -> None:
    explorer = Explorer(Model.KafkaTruncateToHighWatermark, constants(3, 2, 2, 1))
    steps = explorer.explore().shortest_violation
    assert steps is not None
    told = tell(explorer.layout, steps)
    assert len(told) == len(steps)
    assert any(step.action is Action.LEADER_INCREMENT_HIGH_WATERMARK for step in steps)
    assert told[-1].endswith(".")
    assert any("cuts 1 record(s), to offset 0" in sentence for sentence in told)
    assert len(list(portrait(explorer.layout, steps[-1].fields))) == 4


def test_a_bound_is_kept_and_said() -> None:
    found = Explorer(Model.Kip320, constants(3, 3, 3, 3)).explore(max_states=100_000)
    assert not found.complete
    assert found.distinct_states >= 100_000


@pytest.mark.slow
def test_a_state_takes_no_more_than_its_words_and_its_place() -> None:
    explorer = Explorer(Model.Kip320, constants(3, 2, 2, 2))
    found = explorer.explore()
    assert explorer.bytes_in_use < 1000 * found.distinct_states


def test_the_command_prints_the_documented_json() -> None:
    done = CliRunner().invoke(
        main, ["explore", "Kip101", "--replicas", "2", "--records", "2", "--max-leader-epoch", "2", "--json"]
    )
    result = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (result["model"], result["distinct_states"], result["complete"]) == ("Kip101", 9045, True)
    assert result["constants"] == {"Replicas": 2, "LogSize": 2, "MaxRecords": 2, "MaxLeaderEpoch": 2}
    [violation] = result["violations"]
    assert violation["invariant"] == "StrongIsr"
    assert violation["length"] == len(violation["actions"]) == 11
    assert result["states_per_second"] > 0


@pytest.mark.parametrize("model", list(Model.__members__))
def test_every_model_is_known_by_its_names(model: str) -> None:
    small = ["--replicas", "2", "--log-size", "1", "--records", "1", "--max-leader-epoch", "0", "--json"]
    done = CliRunner().invoke(main, ["explore", model, *small])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    expected = explored(Model[model], 2, 1, 1, 0).distinct_states
    assert (result["model"], result["distinct_states"]) == (model, expected)


def test_a_violation_is_told_where_the_specification_sees_one_and_nowhere_else() -> None:
    explorer = Explorer(Model.KafkaTruncateToHighWatermark, constants(2, 2, 2, 2))
    explorer.explore()
    for fields in list(explorer.states())[::7]:
        assert bool(violations(explorer.layout, fields)) is breaks_strong_isr(plain(explorer.layout, fields))


@pytest.mark.slow
def test_a_violation_is_rendered_and_an_audit_of_its_disks_reports_it(tmp_path: Path, store_url: str) -> None:
    out = tmp_path / "violation"
    done = CliRunner().invoke(main, ["explore", "Kip101", "--max-leader-epoch", "2", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert (
        "So broker 1 has declared [0, 1) committed, and broker 3, a member of the ISR, does not have it." in done.stdout
    )
    assert f"tidegauge audit {out} --out {out}-audit" in done.stdout
    truth = json.loads((out / "TRUTH.json").read_text(encoding="utf-8"))
    assert truth_schema.problems(truth) == []
    [violation] = truth["violations"]
    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        _, breaches = Judge(connection).verdicts(derived(out), "ABCDEFGHJKL")
    engine.dispose()
    [breach] = [b for b in breaches if b.severity != "info"]
    assert (breach.code, breach.subject["follower_id"]) == ("D10", violation["member_id"])
    assert (breach.start_offset, breach.end_offset) == (violation["start_offset"], violation["end_offset"])
    again = CliRunner().invoke(main, ["explore", "Kip101", "--out", str(out)])
    assert again.exit_code != 0
    assert f"{out} exists" in again.output


@pytest.mark.slow
def test_a_member_that_lacks_what_an_old_leader_declared_is_reported(tmp_path: Path, store_url: str) -> None:
    """With three replicas the new leader has the records and has not heard that they are committed."""
    explorer = Explorer(Model.Kip101, constants(3, 2, 2, 1))
    explorer.explore()
    violating = [fields for fields in explorer.states() if breaks_strong_isr(plain(explorer.layout, fields))]
    assert len(violating) == 96
    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        judge = Judge(connection)
        for number, fields in enumerate(violating[::16]):
            lacking = violations(explorer.layout, fields)
            disks = disks_of(explorer.layout, fields)
            snapshot = write_snapshot(
                tmp_path / str(number), disks, cluster="c", snapshot_id="s", consistency=Consistency.ATOMIC, truth={}
            )
            _, breaches = judge.verdicts(derived(snapshot.root), "D")
            reported = {(b.subject["follower_id"], b.start_offset, b.end_offset) for b in breaches if b.code == "D10"}
            assert reported == {(v.member_id, v.start_offset, v.end_offset) for v in lacking}
    engine.dispose()


def test_without_a_violation_nothing_is_rendered(tmp_path: Path) -> None:
    out = tmp_path / "none"
    done = CliRunner().invoke(main, ["explore", "Kip320", "--replicas", "2", "--log-size", "1", "--out", str(out)])
    assert done.exit_code == 0
    assert not out.exists()


def test_constants_without_a_space_are_refused() -> None:
    with pytest.raises(SnapshotError, match="replicas is 0; it must be from 1 to 7"):
        constants(0, 2, 2, 2)
    assert CliRunner().invoke(main, ["explore", "Kip320", "--log-size", "9"]).exit_code == 2
