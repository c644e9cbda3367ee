"""For every invariant of the catalogue a breach in files that it alone reports as a root.

Proofs are data: a way to break files -> the code. They are collected from where they stand (`proven`); what is tried
here are those in golden captures, in copies of the small cluster, and in the simulator's scenarios.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import Golden
from tests.derivation import (
    breaking,
    test_missing_evidence,
    test_storage_breaks,
    test_transaction_breaks,
    test_upkeep_over_time,
)
from tests.derivation.breaks import LONE, PARTITIONS, cut_active, flip_in_records_of_the_last_batch_after_a_crash
from tests.derivation.damage import copy_of, with_holes
from tests.derivation.judging import Judge, roots
from tests.derivation.lone_answer_breaks import LONE_ANSWER_BREAKS, Answer, answers_of
from tests.derivation.lone_cluster_breaks import (
    LONE_CLUSTER_BREAKS,
    epoch_that_no_controller_gave,
    more_of_an_epoch_than_its_leader,
)
from tests.derivation.lone_history_breaks import LONE_HISTORY_BREAKS, Change
from tests.derivation.lone_log_breaks import (
    LONE_LOG_BREAKS,
    log_start_above_the_log,
    producer_snapshot_with_a_transaction_that_nobody_began,
)
from tests.derivation.lone_world_breaks import LONE_WORLD_BREAKS
from tests.derivation.pipeline import derived
from tests.derivation.small_cluster import Break, broken, small_world, taken, written
from tests.derivation.storage_breaks import only_what_is_there
from tests.derivation.test_metadata_damage import DAMAGED
from tests.expectations.test_cases import folder_of
from tidegauge.expectations.implications import closure, direct
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import fold
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.snapshots.cluster_answers import ANSWERS_NAME, CapturedAnswers, to_json

SCENES: Final[Mapping[tuple[str, str], str]] = {
    ("kip-101-divergence", "truncate-to-high-watermark"): "D04",
    ("leader-epoch-truncation", "a-is-away"): "D05",
    ("kip-101-divergence", "kip-101"): "D19",
    ("hanging-transaction", "hanging"): "F09",
    ("unclean-election-min-isr", "a-is-back"): "K07",
    ("unclean-election-off", "a-is-away"): "K10",
}
"""A scenario's moments, and the only root of each."""
APART: Final[Mapping[str, object]] = {
    "C05": test_upkeep_over_time.test_what_should_have_been_deleted_is_told,
    "D06": test_missing_evidence.test_a_committed_tail_that_goes_by_an_election_that_nobody_recorded_is_one_root,
    "G02": test_upkeep_over_time.test_a_part_that_is_called_clean_and_is_not_is_told,
    "G05": test_upkeep_over_time.test_a_log_whose_last_batch_the_cleaner_took_is_told,
    "F12": test_transaction_breaks.test_a_last_stable_offset_that_stays_for_longer_than_a_transaction_may_run,
    "F13": test_transaction_breaks.test_a_transaction_in_the_last_epoch,
    "F14": test_transaction_breaks.test_commits_of_an_older_epoch_than_the_open_transaction,
    "H05": test_storage_breaks.test_what_was_copied_to_the_tier_before_it_was_committed_is_told,
}
"""Those that have a test of their own."""
NEVER_ALONE: Final = {code: i.consequence_of for code, i in CATALOGUE.items() if i.consequence_of is not None}
"""What is always another one's consequence, and that one."""


def proofs_in_folders() -> Iterator[tuple[Break, str]]:
    """The breaks of the small cluster that stand beside the invariant that they prove: `break_it` of its `proof.py`."""
    for code in CATALOGUE:
        if (folder_of(code) / "proof.py").exists():
            proof = import_module(f"tidegauge.expectations.invariants.{folder_of(code).name}.proof")
            yield partial(proof.break_it, tools=breaking), code


PROOFS: Final = dict(proofs_in_folders())

pytestmark = pytest.mark.slow
FAMILIES: Final = {code[0] for code in CATALOGUE}
BEHIND: Final = closure(direct(CATALOGUE))


def proven() -> Iterator[str]:
    """The codes that are the only root of a break, from all tables of breaks."""
    for table in (LONE, LONE_LOG_BREAKS, LONE_CLUSTER_BREAKS, LONE_HISTORY_BREAKS, LONE_WORLD_BREAKS):
        yield from table.values()
    yield from LONE_ANSWER_BREAKS.values()
    yield from SCENES.values()
    for *_, codes in DAMAGED:
        yield from codes
    yield from test_storage_breaks.STOPPED.values()
    yield from test_storage_breaks.TIER.values()
    yield from (code for code, _ in test_transaction_breaks.BREAKS.values())
    yield from (code for code, _ in test_upkeep_over_time.CHANGED.values())
    yield from APART
    yield from PROOFS.values()


# --------------------------------------------------------------------------------------------------- golden captures


def part_of_healthy(golden: Golden, directory: Path, break_it: Break) -> Path:
    """A copy of some partitions with one thing broken."""
    copy = copy_of(golden("healthy"), directory / "copy", *PARTITIONS)
    only_what_is_there(copy)
    break_it(copy)
    return copy


@pytest.mark.parametrize(("break_it", "code"), LONE.items(), ids=LONE.values())
def test_one_break_in_a_golden_capture_is_one_root(
    break_it: Break, code: str, golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    copy = part_of_healthy(golden, tmp_path, break_it)
    assert {b.code for b in roots(judge, copy, a_part=True)} == {code}


# ------------------------------------------------------------------------------------------------- the small cluster


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its files, sound: only to be copied."""
    return written(tmp_path_factory.mktemp("small") / "sound", small_world())


def test_the_small_cluster_is_sound(small: Path, tmp_path: Path, judge: Judge) -> None:
    def nothing(_: Path) -> None:
        pass

    assert roots(judge, broken(small, tmp_path / "sound", nothing)) == []


ALONE: Final = {
    break_it: code
    for break_it, code in {**LONE_LOG_BREAKS, **LONE_CLUSTER_BREAKS, **PROOFS}.items()
    if code not in NEVER_ALONE
}


@pytest.mark.parametrize(("break_it", "code"), ALONE.items(), ids=ALONE.values())
def test_one_break_in_the_small_cluster_is_one_root(
    break_it: Break, code: str, small: Path, tmp_path: Path, judge: Judge
) -> None:
    assert {b.code for b in roots(judge, broken(small, tmp_path / "broken", break_it))} == {code}


@pytest.mark.parametrize(("change", "code"), LONE_HISTORY_BREAKS.items(), ids=LONE_HISTORY_BREAKS.values())
def test_one_thing_that_happened_to_the_small_cluster_is_one_root(
    change: Change, code: str, small: Path, tmp_path: Path, judge: Judge
) -> None:
    before, after = (
        Path(shutil.copytree(small, tmp_path / name, copy_function=with_holes)) for name in ("before", "after")
    )
    change(before, after)
    assert {b.code for b in roots(judge, taken(after), taken(before))} == {code}


# ------------------------------------------------------------------------------------------------------- the answers


@dataclass(frozen=True)
class Answered:
    """The small cluster, and what it answered just before and just after it was read."""

    snapshot: Path
    answers: CapturedAnswers


@pytest.fixture(scope="module")
def answered(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Answered:
    copy = tmp_path_factory.mktemp("answered") / "copy"
    now_ms = small_world().now_ms
    snapshot = taken(Path(shutil.copytree(small, copy, copy_function=with_holes)), at_ms=now_ms - 1_500)
    answers = answers_of(derived(snapshot), before_ms=now_ms - 3_000, after_ms=now_ms - 800)
    return Answered(snapshot=snapshot, answers=answers)


def roots_with(judge: Judge, answered: Answered, say: Answer) -> set[str]:
    assert answered.answers.before is not None
    assert answered.answers.after is not None
    said = CapturedAnswers(before=say(answered.answers.before), after=say(answered.answers.after))
    (answered.snapshot / ANSWERS_NAME).write_text(to_json(said))
    return {b.code for b in roots(judge, answered.snapshot)}


def test_answers_that_are_what_the_files_say_breach_nothing(answered: Answered, judge: Judge) -> None:
    assert roots_with(judge, answered, lambda answers: answers) == set()
    facts = derived(answered.snapshot)
    kinds = {row["kind"] for row in facts.all("cluster_answers", comparable=True)}
    assert {"high_watermark", "leadership", "producer", "committed_offset", "transaction", "broker"} <= kinds


@pytest.mark.parametrize(("say", "code"), LONE_ANSWER_BREAKS.items(), ids=LONE_ANSWER_BREAKS.values())
def test_one_answer_that_no_file_bears_out_is_one_root(
    say: Answer, code: str, answered: Answered, judge: Judge
) -> None:
    assert roots_with(judge, answered, say) == {code}


# ---------------------------------------------------------------------------------------------------- the simulator


@pytest.mark.parametrize(("make", "code"), LONE_WORLD_BREAKS.items(), ids=LONE_WORLD_BREAKS.values())
def test_what_a_simulated_cluster_leaves_is_one_root(
    make: Callable[[Path], Path], code: str, tmp_path: Path, judge: Judge
) -> None:
    assert {b.code for b in roots(judge, make(tmp_path / "s"))} == {code}


def scene(scenario: str, name: str, directory: Path) -> tuple[Path, Path | None]:
    """A scenario's moment, and the earlier one that it is compared with."""
    moments = {moment.name: moment for moment in SCENARIOS[scenario].play(1).moments}
    files = {
        each: taken(written(directory / each, moments[each].world, truth=moments[each].truth.to_json()))
        for each in (name, moments[name].previous)
        if each is not None
    }
    return files[name], files.get(moments[name].previous or "")


@pytest.mark.parametrize(("at", "code"), SCENES.items(), ids=SCENES.values())
def test_a_scenarios_moment_has_one_root(at: tuple[str, str], code: str, tmp_path: Path, judge: Judge) -> None:
    assert {b.code for b in roots(judge, *scene(*at, tmp_path))} == {code}


# ------------------------------------------------------------------------------------------------------- never alone


@pytest.mark.parametrize("code", NEVER_ALONE)
def test_what_is_never_alone_is_folded_under_its_root(
    code: str, golden: Golden, small: Path, tmp_path: Path, judge: Judge
) -> None:
    in_small = {
        "C01": log_start_above_the_log,
        "C03": producer_snapshot_with_a_transaction_that_nobody_began,
        "D02": more_of_an_epoch_than_its_leader,
        "D13": epoch_that_no_controller_gave,
        **{code: break_it for break_it, code in PROOFS.items()},
    }
    in_healthy = {"A16": cut_active, "C02": flip_in_records_of_the_last_batch_after_a_crash}
    if code in in_healthy:
        directory = part_of_healthy(golden, tmp_path, in_healthy[code])
    elif code == "D18":
        directory, _ = scene("unclean-election", "b-is-elected", tmp_path)
    else:
        directory = broken(small, tmp_path / "broken", in_small[code])
    _, breaches = judge.verdicts(derived(directory), FAMILIES)
    folded = fold(breaches, CATALOGUE)
    by_id = {breach.breach_id: breach for breach in folded}
    of_code = [breach for breach in folded if breach.code == code]
    assert of_code
    for breach in of_code:
        assert breach.implied_by is not None
        assert code in BEHIND[by_id[breach.implied_by].code]
