"""An Airflow for a test: our own DAGs, tasks as processes on this machine, Spark in two threads.

In: a directory, the URL of an empty database. Out: the environment that `tidegauge.embedded.airflow.running` and
Airflow's commands take; the database is migrated.
"""

import importlib.metadata
import os
from pathlib import Path

from tidegauge.cli.demo import shipped
from tidegauge.embedded import airflow
from tidegauge.spark_jobs import session


def prepared(state: Path, database: str, settings: dict[str, str]) -> dict[str, str]:
    """`settings` are variables of ours, `TIDEGAUGE_…`, that the test wants besides."""
    environ = airflow.environment(
        home=state / "airflow",
        dags=shipped("dags"),
        database_url=database,
        environ={
            **os.environ,
            **session.submit_environment("local[2]"),
            "TIDEGAUGE_HOME": str(state),
            "TIDEGAUGE_SPARK_MASTER": "local[2]",
            "TIDEGAUGE_COMMAND": "",
            **settings,
        },
    )
    airflow.migrate(state / "airflow", environ, f"{importlib.metadata.version('apache-airflow')} {database}")
    return environ
