"""How many disks hold what is committed, and what producers were told: on captures that were damaged by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.conftest import Golden
from tests.spark_jobs.damage import copy_of, edit, segments
from tests.spark_jobs.judging import Judge
from tests.spark_jobs.pipeline import derived
from tidegauge.simulate import simulate


@pytest.fixture(scope="module")
def judge(store_url: str) -> Iterator[Judge]:
    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        yield Judge(connection)
    engine.dispose()


def cut(copy: Path, broker: int) -> None:
    """The last segment of a replica is gone, and half of the one before."""
    logs = segments(copy / f"broker-{broker}" / "idem-0")
    edit(logs[-1], lambda data: data.__delitem__(slice(len(data) // 2, None)))


def test_two_replicas_that_lost_their_tails_leave_one_disk(golden: Golden, tmp_path: Path, judge: Judge) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "copy", "idem-0", "__cluster_metadata-0")
    sound = derived(copy).one("partitions", topic="idem", partition=0)
    assert sound["complete_replicas"] == sorted(sound["replicas"]) == [1, 2, 3]
    for broker in (2, 3):
        cut(copy, broker)
    facts = derived(copy)
    assert facts.one("partitions", topic="idem", partition=0)["complete_replicas"] == [1]
    verdicts, breaches = judge.verdicts(facts, "D")
    assert verdicts["D20"].verdict == "breached"
    assert [b.subject for b in breaches if b.code == "D20"] == [{"topic": "idem", "partition": 0}]


def test_the_ledger_alone_is_the_truth_and_alone_judges_by_it(tmp_path: Path, judge: Judge) -> None:
    simulate("lossy-power-cut", seed=1, out=tmp_path / "sim")
    directory = tmp_path / "sim" / "back"
    row = derived(directory).one("partitions", topic="orders", partition=0)
    assert (row["acknowledged_missing"], row["acknowledged_missing_on"]) == (40, [1, 2, 3])
    assert (row["first_acknowledged_missing_offset"], row["acknowledged_missing_end_offset"]) == (60, 100)
    told, breaches = judge.verdicts(derived(directory), "ABCDEFGHJKL")
    assert [b.code for b in breaches if b.severity != "info"] == ["D19"]
    (directory / "TRUTH.json").unlink()
    silent, _ = judge.verdicts(derived(directory), "ABCDEFGHJKL")
    assert silent["D19"].verdict == "unknown"
    assert {code: v for code, v in told.items() if code != "D19"} == {c: v for c, v in silent.items() if c != "D19"}
