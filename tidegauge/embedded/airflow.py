"""An Airflow of our own on this machine: a directory and a metadata database in, a running scheduler out.

Three processes, as `airflow standalone` has them (without its triggerer, which our DAG does not need): the API server,
through which tasks report, the DAG processor and the scheduler with its LocalExecutor. We speak to it as anybody would,
over its REST API, bound to 127.0.0.1 and behind a password that is made anew each time.

What is started here is stopped here, with everything below it; each process leads a process group of its own, since
Airflow's children outlive a signal to their parent alone. Airflow is never imported.
"""

import importlib.metadata
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tidegauge.runs.errors import UnavailableError
from tidegauge.runs.run_lock import free
from tidegauge.snapshots.child_environment import LIBPQ, OBJECT_STORES, PYTHON, SPARK, only
from tidegauge.snapshots.local_path import really
from tidegauge.snapshots.places_above import made_safe
from tidegauge.snapshots.whole_files import appearing, write_whole

_COMPONENTS: Final = ("api-server", "dag-processor", "scheduler")
_PATIENCE_S: Final = 180.0
_POLL_S: Final = 0.2
_FINAL: Final = ("success", "failed")
_TELLING: Final = {"success": 1, "running": 2, "upstream_failed": 3, "up_for_retry": 4, "failed": 5}

TaskStates = Mapping[str, str | None]


class AirflowError(UnavailableError):
    """Airflow did not start, did not answer, or does not know the DAG."""


def installed_version() -> str:
    """Which Airflow is installed beside this. Raises `AirflowError` where there is none."""
    try:
        return importlib.metadata.version("apache-airflow")
    except importlib.metadata.PackageNotFoundError as error:
        raise AirflowError(
            "Airflow is not installed beside Tidegauge. It comes with an extra: pip install 'tidegauge[airflow]'."
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a DAG run ended: its id, its state, its tasks' states."""

    run_id: str
    state: str
    tasks: Mapping[str, str | None]


@dataclass(slots=True)
class Airflow:
    """A running Airflow; made by `running`."""

    home: Path
    port: int
    _password: str
    _started_at: datetime
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _token: str = ""

    @property
    def url(self) -> str:
        """Where its pages are."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def login(self) -> tuple[str, str]:
        """The user and the password that it takes."""
        return "admin", self._password

    @property
    def pids(self) -> Mapping[str, int]:
        """Its processes, by what Airflow calls them."""
        return {name: process.pid for name, process in self._processes.items()}

    def check_alive(self) -> None:
        """Raises `AirflowError` if one of its processes has ended."""
        self._check_alive()

    def wait_for(self, dag_id: str) -> None:
        """Waits until it answers and knows the DAG. Raises `AirflowError`."""
        self._wait_for(dag_id)

    def run(self, dag_id: str, conf: Mapping[str, Any], on_progress: Callable[[TaskStates], None]) -> RunResult:
        """Triggers a run and waits for its end; `on_progress` hears of every change. Raises `AirflowError`."""
        self._wait_for(dag_id)
        run_id = f"demo__{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}"
        runs = f"/api/v2/dags/{dag_id}/dagRuns"
        self._call("POST", runs, {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)})
        seen: TaskStates = {}
        while True:
            self._check_alive()
            tasks = self._tasks(f"{runs}/{run_id}")
            if tasks != seen:
                on_progress(seen := tasks)
            state = self._call("GET", f"{runs}/{run_id}")["state"]
            if state in _FINAL:
                return RunResult(run_id=run_id, state=state, tasks=self._tasks(f"{runs}/{run_id}"))
            time.sleep(_POLL_S)

    def log_of(self, dag_id: str, task_id: str) -> str:
        """What a task last wrote, from the file that holds it; empty when there is none."""
        logs = sorted(
            (self.home / "logs").glob(f"dag_id={dag_id}/run_id=*/task_id={task_id}/**/*.log"), key=os.path.getmtime
        )
        return logs[-1].read_text(errors="replace") if logs else ""

    def _tasks(self, run: str) -> dict[str, str | None]:
        instances = self._call("GET", f"{run}/taskInstances")["task_instances"]
        states: dict[str, str | None] = {}
        for instance in instances:  # of a mapped task the one that tells most
            known = states.get(instance["task_id"])
            if known is None or _TELLING.get(known, 0) < _TELLING.get(instance["state"], 0):
                states[instance["task_id"]] = instance["state"]
        return states

    def _wait_for(self, dag_id: str) -> None:
        """Waits until the API answers and the DAG file has been read by this Airflow, not an earlier one."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            self._check_alive()
            with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                dag = self._call("GET", f"/api/v2/dags/{dag_id}", missing_is_fine=True)
                parsed = dag.get("last_parsed_time")
                if parsed and datetime.fromisoformat(parsed) >= self._started_at:
                    return
            time.sleep(_POLL_S)
        errors = [e["stack_trace"] for e in self._call("GET", "/api/v2/importErrors").get("import_errors", [])]
        raise AirflowError(f"Airflow did not read the DAG {dag_id} within {_PATIENCE_S:.0f} s. " + " ".join(errors))

    def _call(self, method: str, path: str, body: Any = None, *, missing_is_fine: bool = False) -> dict[str, Any]:
        if not self._token and path != "/auth/token":
            answer = self._call("POST", "/auth/token", {"username": "admin", "password": self._password})
            self._token = answer["access_token"]
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", f"Bearer {self._token}")
        data = None if body is None else json.dumps(body).encode()
        try:
            with _no_proxy.open(request, data=data, timeout=30) as response:
                answer = json.load(response)
                assert isinstance(answer, dict)
                return answer
        except urllib.error.HTTPError as error:
            if error.code == 404 and missing_is_fine:
                return {}
            text = error.read().decode(errors="replace")[:500]
            raise AirflowError(f"Airflow answered {error.code} to {method} {path}: {text}") from error

    def _check_alive(self) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                log = self.home / f"{name}.log"
                tail = " / ".join(log.read_text(errors="replace").splitlines()[-3:])
                raise AirflowError(f"Airflow's {name} ended with exit code {process.returncode}; {log} ends: {tail}")


_no_proxy: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))

_NO_LOG_SERVER: Final = {"scheduler": ("--skip-serve-logs",)}
"""It would serve the logs of tasks to the whole network; here the API server reads the files."""

_OF_TASKS: Final = ("TIDEGAUGE_", "SSH_AUTH_SOCK", *LIBPQ, *OBJECT_STORES, *PYTHON, *SPARK)
"""How names begin that tasks may need, which are the scheduler's children."""
_OF_PAGES: Final = ("AIRFLOW_", "TIDEGAUGE_", "NO_PROXY", "no_proxy", *PYTHON)
"""That the processes need which run no task."""
_NOT_OF_TASKS: Final = frozenset({"TIDEGAUGE_CONSOLE_TOKENS"})
_NOT_OF_PAGES: Final = frozenset({"TIDEGAUGE_STORE_URL"})


def _told(component: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What a component sees of what tasks see."""
    if component == "scheduler":
        return dict(environ)
    return {key: value for key, value in only(*_OF_PAGES, environ=environ).items() if key not in _NOT_OF_PAGES}


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """No other Airflow runs in this home for the block. Raises `AirflowError` where one does: two would write each
    other's password and tables, and refuse each other's tasks.
    """
    made_safe(home)
    with free(really(home)) as is_free:
        if not is_free:
            raise AirflowError(
                f"Another `tidegauge demo` or `tidegauge up` is running Airflow in {home}. Wait for its end, stop it, "
                "or give this one a home of its own (TIDEGAUGE_HOME)."
            )
        yield


@contextmanager
def running(home: Path, environ: Mapping[str, str]) -> Iterator[Airflow]:
    """An Airflow for as long as the block lasts; `environ` is what `environment` gave, and what tasks should see."""
    password = secrets.token_urlsafe(24)
    _write_password(home, password)
    airflow = Airflow(home, int(environ["AIRFLOW__API__PORT"]), password, datetime.now(UTC))
    try:
        for component in _COMPONENTS:
            (home / f"{component}.log").unlink(missing_ok=True)
            with (home / f"{component}.log").open("xb") as log:
                airflow._processes[component] = subprocess.Popen(
                    [_command(), component, *_NO_LOG_SERVER.get(component, ())],
                    env=_told(component, environ), stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        yield airflow
    except OSError as error:
        raise AirflowError(f"Airflow could not be started: {error}") from error
    finally:
        _stop(airflow._processes.values())


def environment(
    *, home: Path, dags: Path, database_url: str, environ: Mapping[str, str], also: Collection[str] = ()
) -> dict[str, str]:
    """Airflow's settings for one machine, and what of `environ` our tasks may need, `also` among it; whatever Airflow
    settings that held are left out.
    """
    port = _free_port()
    ours = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(48),
        "AIRFLOW__CORE__AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(dags / "plugins"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database_url,
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # a busy machine is not a broken one
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        # Nobody's laptop simulates clusters at night unless it was told to.
        "TIDEGAUGE_SCORE_SCHEDULE": environ.get("TIDEGAUGE_SCORE_SCHEDULE") or "none",
    }
    kept = only(*_OF_TASKS, environ=environ) | {name: environ[name] for name in also if name in environ}
    return {key: value for key, value in kept.items() if key not in _NOT_OF_TASKS} | ours


def migrate(home: Path, environ: Mapping[str, str], installed: str) -> bool:
    """Brings the metadata database up to the installed Airflow; False where that was done before. Raises
    `AirflowError`.

    `installed` says which Airflow, and which database: Airflow itself takes seconds to find that nothing is to be done.
    """
    stamp = home / "migrated"
    if stamp.is_file() and stamp.read_text() == installed:
        return False
    made_safe(home)
    try:
        done = subprocess.run(
            [_command(), "db", "migrate"], env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True
        )
    except OSError as error:
        raise AirflowError(f"Airflow could not be started: {error}. Is the extra `airflow` installed?") from error
    if done.returncode:
        said = " / ".join((done.stderr or done.stdout).decode(errors="replace").splitlines()[-3:])
        raise AirflowError(f"Airflow could not prepare its metadata database: {said}")
    write_whole(stamp, installed)
    return True


def run_command(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Runs a command of Airflow's command line to its end, on this terminal; its exit code. Raises `AirflowError`."""
    try:
        return subprocess.run([_command(), *words], env=dict(environ), check=False).returncode
    except OSError as error:
        raise AirflowError(f"Airflow could not be started: {error}. Is the extra `airflow` installed?") from error


def _stop(processes: Any) -> None:
    for process in processes:
        _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + 20
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, deadline - time.monotonic()))
    for process in processes:
        _signal(process, signal.SIGKILL)  # what of its group is left
        process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _write_password(home: Path, password: str) -> None:
    """Where Airflow's simple auth manager looks for its users' passwords."""
    made_safe(home)
    with appearing(home / "simple_auth_manager_passwords.json.generated") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(json.dumps({"admin": password}).encode())


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _command() -> str:
    beside = Path(sys.executable).with_name("airflow")
    return str(beside) if beside.exists() else "airflow"
