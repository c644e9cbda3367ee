"""The scoring DAG, run by a real Airflow: worlds simulated, audited and scored, the score in the store."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.tidegauge.airflow_home import prepared
from tidegauge.embedded import airflow, postgres

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres, pytest.mark.airflow]

SHOWN = "SELECT first_seed, last_seed, first_sound_seed, last_sound_seed, code, caught FROM tidegauge.v_score"
PARAMETERS = {"worlds": 2, "fault_free": 2, "first_seed": 40}


@dataclass(frozen=True)
class Ran:
    """What one run of the DAG left behind."""

    run: airflow.RunResult
    score: dict[str, Any]
    published: list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def ran(postgres_server: postgres.EmbeddedPostgres) -> Iterator[Ran]:
    state = Path(tempfile.mkdtemp(prefix="tidegauge-score-"))
    store = postgres_server.fresh_database("scored")
    database = postgres_server.fresh_database("airflow_of_scores")
    settings = {
        "TIDEGAUGE_STORE_URL": store,
        "TIDEGAUGE_SCORE_SCHEDULE": "",
    }
    environ = prepared(state, database, settings)
    try:
        with airflow.running(state / "airflow", environ) as scheduler:
            run = scheduler.run("simulate_nightly", PARAMETERS, lambda _: None)
            assert run.state == "success", scheduler.log_of("simulate_nightly", "*")
        engine = create_engine(store)
        with engine.connect() as connection:
            rows = connection.execute(text(SHOWN)).fetchall()
        engine.dispose()
        (kept,) = (state / "scores").glob("*/score.json")
        yield Ran(run=run, score=json.loads(kept.read_text()), published=[tuple(row) for row in rows])
    finally:
        shutil.rmtree(state, ignore_errors=True)


def test_all_three_steps_succeed(ran: Ran) -> None:
    assert set(ran.run.tasks.values()) == {"success"}
    assert set(ran.run.tasks) == {"simulate", "audit", "publish"}


def test_the_nights_worlds_are_in_the_score(ran: Ran) -> None:
    assert (ran.score["worlds"], ran.score["fault_free_worlds"]) == (2, 2)
    assert ran.score["scenarios"] >= 16


def test_the_score_is_in_the_store(ran: Ran) -> None:
    assert {row[:4] for row in ran.published} == {(40, 41, 42, 43)}
    assert {row[4]: row[5] for row in ran.published} == {i["code"]: i["caught"] for i in ran.score["invariants"]}
