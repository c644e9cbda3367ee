"""
### Simulating, and scoring the audit

Plays a batch of simulated clusters whose truth is known, with faults and without, audits them like any other, and
publishes what was caught, what was missed, and what was a false alarm: the view `v_score`.

| task | what it does |
|---|---|
| `simulate` | plays random worlds by their seeds, and every scenario; writes their disks as snapshots |
| `audit` | audits all of them in one Spark application and one validation, and marks each report |
| `publish` | puts the score into the store: a row an invariant |

Every night has seeds of its own, counted from its date, so the same night tried again plays the same worlds. Each
missed finding and each false alarm stands in `score.json`, with the command that makes its world again; the snapshots
of these worlds stay beside it. A score that is not perfect is a result: the task succeeds and answers `breached`.
"""

import os
from datetime import UTC, datetime
from typing import Any, Final

from airflow.sdk import DAG, CronTriggerTimetable, Param

from tidegauge_job import DEFAULTS, ShareOperator

HOME = os.environ.get("TIDEGAUGE_HOME") or "~/.local/share/tidegauge"

SCHEDULE = os.environ.get("TIDEGAUGE_SCORE_SCHEDULE") or "0 2 * * *"

OUT = os.path.expanduser(HOME) + "/scores/{{ run_id | replace(':', '-') | replace('+', '-') }}"
"""The directory that the steps of one run share."""

_FIRST_NIGHT: Final = datetime(2026, 1, 1, tzinfo=UTC)


def seeds(run: Any, params: Any) -> str:
    """The night's seeds of worlds with faults, `A..B`."""
    first = _first_seed(run, params)
    return f"{first}..{first + params['worlds'] - 1}"


def fault_free_seeds(run: Any, params: Any) -> str:
    """Its seeds of worlds without; they follow on the others."""
    first = _first_seed(run, params) + params["worlds"]
    return f"{first}..{first + params['fault_free'] - 1}"


def _first_seed(run: Any, params: Any) -> int:
    if params["first_seed"] is not None:
        return int(params["first_seed"])
    night: datetime = run.logical_date or run.run_after
    return max((night.astimezone(UTC) - _FIRST_NIGHT).days, 0) * int(params["worlds"] + params["fault_free"])


with DAG(
    dag_id="simulate_nightly",
    description="Scores the audit on simulated clusters whose truth is known",
    doc_md=__doc__,
    schedule=None if SCHEDULE == "none" else CronTriggerTimetable(SCHEDULE, timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    user_defined_macros={"seeds": seeds, "fault_free_seeds": fault_free_seeds},
    tags=["kafka", "simulation", "tidegauge"],
    default_args=dict(DEFAULTS),
    params={
        "worlds": Param(
            200,
            type="integer",
            minimum=1,
            maximum=100_000,
            title="Worlds with faults",
            description="How many random worlds with up to three kinds of faults are played",
        ),
        "fault_free": Param(
            100,
            type="integer",
            minimum=1,
            maximum=100_000,
            title="Worlds without",
            description="How many random worlds in which nothing is done: nothing may be reported there",
        ),
        "first_seed": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="First seed",
            description="Of the worlds; empty: the night's own",
        ),
    },
) as dag:
    simulate = ShareOperator(
        task_id="simulate",
        arguments=[
            *("score", "--step", "simulate", "--out", OUT, "--scenarios"),
            *("--seeds", "{{ seeds(dag_run, params) }}", "--fault-free", "{{ fault_free_seeds(dag_run, params) }}"),
        ],
    )
    audit = ShareOperator(task_id="audit", arguments=["score", "--step", "audit", "--out", OUT], may_breach=True)
    publish = ShareOperator(task_id="publish", arguments=["score", "--step", "publish", "--out", OUT], may_breach=True)
    simulate >> audit >> publish
