"""Real end markers with other epochs and times in them: which is whose is told by order, outcome and epoch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.derivation.coordinator_breaks import everywhere, flipped_marker, header
from tests.derivation.damage import batches, copy_of, segments
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tidegauge.expectations.verdicts import InvariantResult
from tidegauge.kafka_log import batch as layout

pytestmark = pytest.mark.slow

METADATA = "__cluster_metadata-0"
STATES = ("__transaction_state-0", "__transaction_state-1", "__transaction_state-2")
TEN_MINUTES = 600_000


def judged(judge: Judge, copy: Path) -> dict[str, InvariantResult]:
    return judge.verdicts(derived(copy), "F")[0]


def counted(results: dict[str, InvariantResult], *codes: str) -> list[tuple[int, dict[str, int]]]:
    return [(results[code].breached, dict(results[code].reasons)) for code in codes]


def markers(path: Path) -> Any:
    rows = batches(path)
    return rows[rows["control_type"] >= 0]


# ------------------------------------------------------------------------ version 1: the leader's clock is not in step

OLD = (METADATA, *STATES, "transactions-0", "transactions-1")


def later(ms: int, *, only: Callable[[int], bool] = lambda number: True) -> Callable[[Path], None]:
    """The markers (the nth of a segment, as chosen) have so much later times than their coordinator's decisions."""

    def change(path: Path) -> None:
        for number, row in enumerate(markers(path)):
            for at, was in ((layout.BASE_TIMESTAMP_AT, "base_timestamp"), (layout.MAX_TIMESTAMP_AT, "max_timestamp")):
                header(path, row, at, ">q", int(row[was]) + (ms if only(number) else 0))

    return change


def of_nobody(nth: int) -> Callable[[Path], None]:
    """In the place of the nth marker stands a batch of nobody."""

    def change(path: Path) -> None:
        if path == segments(path.parent)[0]:
            row = markers(path)[nth]
            header(path, row, layout.ATTRIBUTES_AT, ">h", 0)
            header(path, row, layout.PRODUCER_ID_AT, ">q", -1)
            header(path, row, layout.PRODUCER_EPOCH_AT, ">h", -1)

    return change


@pytest.mark.parametrize("ms", [-TEN_MINUTES, 6_000, TEN_MINUTES])
def test_each_decision_has_its_marker_whatever_the_leaders_clock_says(
    golden: Golden, tmp_path: Path, judge: Judge, ms: int
) -> None:
    copy = copy_of(golden("kafka-3.9"), tmp_path / "c", *OLD)
    for partition in OLD[-2:]:
        everywhere(copy, partition, later(ms))
    assert counted(judged(judge, copy), "F07", "F10") == [(0, {}), (0, {})]


def test_a_clock_that_was_set_between_two_markers_changes_no_order(
    golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    copy = copy_of(golden("kafka-3.9"), tmp_path / "c", *OLD)
    everywhere(copy, "transactions-0", later(TEN_MINUTES, only=lambda number: number >= 3))
    assert counted(judged(judge, copy), "F07", "F10") == [(0, {}), (0, {})]


@pytest.mark.parametrize("ms", [0, TEN_MINUTES])
@pytest.mark.parametrize("nth", [1, -1])
def test_a_marker_that_is_gone_is_missing_by_any_clock(
    golden: Golden, tmp_path: Path, judge: Judge, ms: int, nth: int
) -> None:
    copy = copy_of(golden("kafka-3.9"), tmp_path / "c", *OLD)
    everywhere(copy, "transactions-0", later(ms))
    everywhere(copy, "transactions-0", of_nobody(nth))
    assert judged(judge, copy)["F10"].breached == 1


# ----------------------------------------------------------------------------- version 2: a marker in the data's epoch

NEW = (METADATA, *STATES, "livetx-0", "livetx-1")


def in_its_datas_epoch(*, aborts: bool) -> Callable[[Path], None]:
    """The last marker of its kind in the first segment is of the epoch of the data that it ends."""

    def change(path: Path) -> None:
        if path != segments(path.parent)[0]:
            return
        row = [m for m in markers(path) if (int(m["control_type"]) == 0) == aborts][-1]
        header(path, row, layout.PRODUCER_EPOCH_AT, ">h", int(row["producer_epoch"]) - 1)

    return change


def test_a_commit_in_its_datas_epoch_is_not_the_coordinators(golden: Golden, tmp_path: Path, judge: Judge) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "c", *NEW)
    everywhere(copy, "livetx-0", in_its_datas_epoch(aborts=False))
    assert judged(judge, copy)["F03"].breached == 1


def test_an_abort_in_its_datas_epoch_is_an_operators(golden: Golden, tmp_path: Path, judge: Judge) -> None:
    """Its coordinator wanted it aborted as well."""
    copy = copy_of(golden("healthy"), tmp_path / "c", *NEW)
    everywhere(copy, "livetx-0", in_its_datas_epoch(aborts=True))
    results = judged(judge, copy)
    assert [results[code].breached for code in ("F03", "F07", "F10")] == [0, 0, 0]
    assert results["F03"].unknown == 0


def test_an_operator_who_aborts_what_was_committed_elsewhere_takes_it_apart(
    golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    def change(path: Path) -> None:
        if path == segments(path.parent)[0]:
            row = [m for m in markers(path) if int(m["control_type"]) == 1][-1]
            header(path, row, layout.PRODUCER_EPOCH_AT, ">h", int(row["producer_epoch"]) - 1)
            flipped_marker(path, row)

    copy = copy_of(golden("healthy"), tmp_path / "c", *NEW)
    everywhere(copy, "livetx-0", change)
    results = judged(judge, copy)
    assert [results[code].breached for code in ("F03", "F07", "F10")] == [0, 1, 0]
