"""The demonstration: a real cluster's copy that ships with the project in, a report on the terminal out.

    unpack the capture -> embedded Postgres -> Airflow, which runs the DAG `replication_audit` -> the report

Everything it makes is in the home that every command has (TIDEGAUGE_HOME), so the console shows what it found beside
the audits of one's own; everything it starts it stops. A second run does no work that the first one finished, and its
report is the same.
"""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from tidegauge import settings
from tidegauge.embedded import airflow, postgres
from tidegauge.embedded.archive import unpack
from tidegauge.embedded.store_in_use import store_words
from tidegauge.runs.errors import UnavailableError
from tidegauge.spark_jobs import session

DAG: Final = "replication_audit"
CAPTURE: Final = "unclean-before"
CLUSTER: Final = "demo"

Say = Callable[[str], None]


def demo() -> int:
    """Runs the demonstration and prints its report; the exit code is 0: that something is found is the point of it.

    Raises `UnavailableError` when a step fails; the step's own words are in it.
    """
    from tidegauge.cli.present import print_report

    run = run_dag(settings.home(), lambda line: print(line, file=sys.stderr, flush=True))
    # After `make demo` the command is in an environment that nobody has on the PATH yet.
    command = shlex.quote(str(Path(sys.executable).with_name("tidegauge")))
    print_report(run / "report.json", run / "data_docs" / "index.html", command=command)
    print(f"Console    {command} up")
    return 0


def run_dag(state: Path, say: Say) -> Path:
    """The DAG on the shipped capture, all state under `state`: the run's directory, with `report.json` and
    `data_docs/`.
    """
    previous = signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        return _run_dag(state, say)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _run_dag(state: Path, say: Say) -> Path:
    say(f"store      {store_words(settings.store_url())}")
    with airflow.alone(state / "airflow"), postgres.running(state / "postgres") as server:
        environ = task_environment(state, store_url=server.ensure_database("tidegauge"), schedule="none")
        with airflow_of(server, state, environ, say) as scheduler:
            return audit_shipped(scheduler, state, say)


@contextmanager
def airflow_of(
    server: postgres.EmbeddedPostgres, state: Path, environ: Mapping[str, str], say: Say
) -> Iterator[airflow.Airflow]:
    """An Airflow with the project's DAGs, its metadata on the server, while the block lasts."""
    settled, made = _settled(server, state, environ)
    say("postgres   ready, Airflow's tables made" if made else "postgres   ready")
    with airflow.running(state / "airflow", settled) as scheduler:
        yield scheduler


def _settled(server: postgres.EmbeddedPostgres, state: Path, environ: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """That Airflow's settings, and whether its tables were made just now."""
    version = airflow.installed_version()
    database, directory = server.ensure_database("airflow"), state / "airflow"
    settled = airflow.environment(
        home=directory,
        dags=shipped("dags"),
        database_url=database,
        environ=environ,
        also=_named_by_alerts(),
    )
    return settled, airflow.migrate(directory, settled, f"{version} {database}")


def run_airflow(words: Sequence[str]) -> int:
    """Runs a command of Airflow's own on the Airflow of `tidegauge up`; its exit code."""
    state = settings.home()
    with postgres.running(state / "postgres") as server:
        environ = task_environment(
            state, store_url=server.ensure_database("tidegauge"), schedule=settings.schedule_of_up()
        )
        settled, _ = _settled(server, state, environ)
        return airflow.run_command(words, settled)


def _named_by_alerts() -> frozenset[str]:
    """The variables that the alerts file takes its secrets from; the task that reads it says what is wrong with it."""
    from tidegauge.alerts.config import AlertsFileError, variables

    path = settings.alerts_file()
    try:
        return variables(path) if path is not None else frozenset()
    except AlertsFileError:
        return frozenset()


def audit_shipped(scheduler: airflow.Airflow, state: Path, say: Say) -> Path:
    """Runs the DAG on the shipped capture; the run's directory. Raises `UnavailableError`."""
    capture = unpack(shipped(f"{CAPTURE}.tar.gz"), state / "captures" / CAPTURE)
    say(f"capture    {capture}")
    result = scheduler.run(DAG, {"cluster": CLUSTER, "snapshot": str(capture)}, _progress(say))
    failed = [task for task, state in result.tasks.items() if state in ("failed", "up_for_retry")]
    if result.state != "success":
        lines = [line for task in failed for line in scheduler.log_of(DAG, task).splitlines()[-5:]]
        raise UnavailableError(f"The DAG {DAG} failed in {', '.join(failed)}: " + " / ".join(lines))
    return state / "runs" / result.run_id / CLUSTER


def shipped(name: str) -> Path:
    """A file or folder that ships with the project, in a checkout or in an installed wheel."""
    checkout = _checkout()
    if checkout is None:
        return Path(__file__).parents[1] / "shipped" / name
    return checkout / ("tests/golden" if name.endswith(".tar.gz") else "") / name


def _checkout() -> Path | None:
    root = Path(__file__).parents[2]
    return root if (root / "dags").is_dir() and (root / "tests" / "golden").is_dir() else None


def task_environment(state: Path, *, store_url: str, schedule: str) -> dict[str, str]:
    """What the DAG's tasks see: where state is, which store, which Spark, when it runs by itself."""
    master = settings.spark_master()
    return {
        **os.environ,
        **session.submit_environment(master),
        "TIDEGAUGE_HOME": str(state),
        "TIDEGAUGE_SCHEDULE": schedule,
        "TIDEGAUGE_SPARK_MASTER": master,
        "TIDEGAUGE_STORE_URL": settings.store_url() or store_url,
    }


def _progress(say: Say) -> Callable[[airflow.TaskStates], None]:
    told: dict[str, str | None] = {}

    def on_change(tasks: Mapping[str, str | None]) -> None:
        for task, state in tasks.items():
            if task == "subjects":  # which clusters: here it is one
                continue
            if told.get(task) != state and state in ("running", "success", "failed", "up_for_retry"):
                say(f"airflow    {task} {state}")
            told[task] = state

    return on_change


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
