"""A verdict in one line, as a task's log and a DAG run's note have it."""

from typing import Any

import pytest

from tidegauge.audit.headline import headline

LOSSES = [{"state": "at_risk", "records": 700}, {"state": "at_risk", "records": 500}, {"state": "lost", "records": 3}]


def report(**more: Any) -> dict[str, Any]:
    run = {"cluster": "demo", "snapshot_id": "s\x1b1"}
    return {
        "run": run,
        "breaches": [],
        "losses": [],
        "invariants": [{"verdict": "unknown"}, {"verdict": "holds"}],
    } | more


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (report(), "verdict: demo/s\\x1b1: nothing is breached; 1 invariants not known"),
        (
            report(
                losses=LOSSES,
                breaches=[
                    {"severity": "critical", "implied_by": None},
                    {"severity": "critical", "implied_by": "x"},
                    {"severity": "warning", "implied_by": None},
                    {"severity": "warning", "implied_by": None},
                    {"severity": "info", "implied_by": None},
                ],
            ),
            "verdict: demo/s\\x1b1: 3 records lost, 1,200 records at risk, 1 critical breach, 2 warning breaches; "
            "1 invariants not known",
        ),
    ],
)
def test_a_report_in_one_line(found: dict[str, Any], line: str) -> None:
    assert headline(found) == line
