"""55 things that look like a breach in sound files and are not: each is a case, and each is really there.

`look_alikes.yaml` names them. A case counts only if a naive rule would have cried: its predicate has to be true of the
case's row. A snapshot counts only if the thing is in it: a query over its facts, or a look at its files, finds it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from tests.conftest import Golden
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.expectations.look_alike_looks import LOOKS
from tests.expectations.look_alike_made import MADE, Made
from tests.expectations.test_cases import SOUND_ROWS, cases_of
from tests.fact_tables import made_anew
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import count_query, results

LOOK_ALIKES: list[dict[str, Any]] = yaml.load(
    (Path(__file__).parent / "look_alikes.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
)
ROWS = [(each["name"], case, naive) for each in LOOK_ALIKES for case, naive in each.get("rows", {}).items()]
FILES = [
    pytest.param(each, file, id=f"{each['name']}-{file.get('capture') or file['made']}-{number}")
    for each in LOOK_ALIKES
    for number, file in enumerate(each.get("files", []))
]
OF_A_PART = {"D17", "D20"}
"""What a copy of some partitions breaches by itself: replicas are missing."""
UNSOUND = {"unclean-before"}
"""Captures in which other things are truly wrong."""


# ------------------------------------------------------------------------------------------------------- the list


def test_there_are_55_and_each_has_a_name_of_its_own() -> None:
    assert [each["number"] for each in LOOK_ALIKES] == list(range(1, 56))
    assert len({each["name"] for each in LOOK_ALIKES}) == 55
    assert len({each["says"] for each in LOOK_ALIKES}) == 55


def test_each_is_shown_for_every_invariant_that_it_might_deceive(subtests: pytest.Subtests) -> None:
    for look_alike in LOOK_ALIKES:
        with subtests.test(look_alike["name"]):
            it_is_shown_for_every_invariant_that_it_might_deceive(look_alike)


def it_is_shown_for_every_invariant_that_it_might_deceive(look_alike: Mapping[str, Any]) -> None:
    rows, files = look_alike.get("rows", {}), look_alike.get("files", [])
    accused = set(look_alike["accused"])
    assert accused <= set(CATALOGUE)
    assert {case.split("/")[0] for case in rows} <= accused
    assert rows or files
    if not files:
        assert {case.split("/")[0] for case in rows} == accused, "only a snapshot shows it for the others"
    for case in rows:
        code, name = case.split("/")
        assert name in cases_of(code)
    for file in files:
        assert ("seen" in file) != ("looks" in file)
        assert file.get("looks", next(iter(LOOKS))) in LOOKS
        assert file.get("made", next(iter(MADE))) in MADE


# -------------------------------------------------------------------------------------------------------- the rows


@pytest.fixture(scope="module")
def staged(store_url: str) -> Iterator[sa.Connection]:
    """Each case's row, in a run of the case's name."""
    engine = sa.create_engine(store_url)
    with engine.begin() as connection:
        tables = made_anew(connection, "look_alikes")
        for case in {case for each in LOOK_ALIKES for case in each.get("rows", {})}:
            code, name = case.split("/")
            relation = CATALOGUE[code].relation
            row = {"cluster": "c", "snapshot_id": "s"} | SOUND_ROWS[relation] | cases_of(code)[name]["row"]
            connection.execute(tables[relation].insert().values(run_id=case, **row))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_a_naive_rule_would_cry_and_ours_does_not(staged: sa.Connection, subtests: pytest.Subtests) -> None:
    for name, case, naive in ROWS:
        with subtests.test(name, case=case):
            a_naive_rule_would_cry_and_ours_does_not(staged, case, naive)


def a_naive_rule_would_cry_and_ours_does_not(staged: sa.Connection, case: str, naive: str) -> None:
    invariant = CATALOGUE[case.split("/")[0]]
    run = {"run_ids": [case]}
    asked = f"SELECT {naive} FROM look_alikes.{invariant.relation} WHERE run_id = ANY(:run_ids)"
    assert staged.execute(sa.text(asked), run).scalar_one() is True
    counted = staged.execute(sa.text(count_query(invariant.relation, [invariant], schema="look_alikes")), run)
    (result,) = results([invariant], counted.mappings().one())
    assert result.breached == 0 or result.severity == "info"


# ----------------------------------------------------------------------------------------------------- the snapshots


@dataclass(frozen=True)
class Looked:
    """A snapshot that was judged: its breaches' codes above info, and the run that its facts are in."""

    made: Made
    alarms: set[str]
    run_id: str


@pytest.fixture(scope="module")
def looked(golden: Golden, judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Looked]:
    """Each snapshot is made and judged once."""

    @cache
    def look(capture: str | None, before: str | None, made: str | None) -> Looked:
        if capture is not None:
            snapshot = Made(snapshot=golden(capture), previous=golden(before) if before else None)
        else:
            assert made is not None
            snapshot = MADE[made](golden, tmp_path_factory.mktemp(made))
        facts = derived(snapshot.snapshot, previous=snapshot.previous)
        _, breaches = judge.verdicts(facts, {code[0] for code in CATALOGUE})
        alarms = {b.code for b in breaches if b.severity != "info"}
        return Looked(made=snapshot, alarms=alarms, run_id=judge.last_run)

    return look


@pytest.mark.slow
@pytest.mark.parametrize(("look_alike", "file"), FILES)
def test_it_is_in_sound_files_and_nothing_is_said_of_it(
    look_alike: Mapping[str, Any], file: Mapping[str, str], looked: Callable[..., Looked], judge: Judge
) -> None:
    snapshot = looked(file.get("capture"), file.get("before"), file.get("made"))
    if "looks" in file:
        assert LOOKS[file["looks"]](snapshot.made.snapshot, snapshot.made.previous), "it is not there"
    else:
        assert judge.ask(file["seen"], snapshot.run_id), "it is not there"
    accused = set(look_alike["accused"]) - (OF_A_PART if snapshot.made.partial else set())
    assert snapshot.alarms & accused == set()
    if file.get("capture") not in UNSOUND:
        assert snapshot.alarms <= (OF_A_PART if snapshot.made.partial else set())
