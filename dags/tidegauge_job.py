"""The one factory for tasks that run a job: a step's name in, an Airflow operator out that runs it as a process.

Captures run likewise: `ShareOperator` where a broker's disks are, `SnapshotOperator` where shares become a snapshot.
So do scores, by `ShareOperator`, here.

A step without Spark runs the `tidegauge` command. A Spark step goes through `spark-submit`: on this machine
(`local[N]`), on a cluster (`spark://…`, `yarn`), or on Kubernetes (`k8s://…`, in cluster mode, where the driver is a
pod). Steps exchange nothing but a directory; its path is all they are told.

How a step ended decides what Airflow does, by its exit code alone.

    0   done                                            success
    1   done, and invariants do not hold                success: a breach is a result, not a failed task; unless asked
    2   the snapshot or the arguments cannot be used    failed at once: it would not get better
    99  nothing to do                                   skipped, with what follows
    *   the environment: store, Spark, disk, a signal   retried

Nothing here imports PySpark, Great Expectations or Tidegauge: Airflow may run from an image that has none of them.
"""

import importlib.util
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

Outcome = Literal["done", "breached"]

SNAPSHOT: Final = Asset("tidegauge_snapshot")
"""A finished snapshot of any cluster. Its events say which: `snapshot` (directory or URL), `cluster`, `snapshot_id`."""

VERDICT: Final = "verdict: "
"""How the line begins in which `tidegauge job publish` says what it found (audit/headline.py)."""
_ERRORS: Final = ("tidegauge: ", "Error: ")
_LONGEST_WORDS: Final = 1000

BREACHED: Final = 1
UNUSABLE: Final = 2
NOTHING_TO_DO: Final = 99
NOTHING_MORE: Final[Mapping[str, str]] = {}


def reason_last(context: Any) -> None:
    """Says once more why a task failed, below the traceback that Airflow prints."""
    logging.getLogger("airflow.task").error("%s", context.get("exception"))


DEFAULTS: Final[Mapping[str, Any]] = {
    "on_failure_callback": reason_last,
    "on_retry_callback": reason_last,
    "owner": "tidegauge",
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=15),
    "execution_timeout": timedelta(hours=6),
}
"""Of every task: what the environment did is tried again, later and later."""

_OF_AIRFLOW: Final = ("AIRFLOW__", "_AIRFLOW_", "AIRFLOW_CONN_", "AIRFLOW_VAR_")
"""How names begin of Airflow's own settings and secrets: none of what a task starts is Airflow's."""
_OF_THE_STORE: Final = (
    "TIDEGAUGE_STORE_URL",
    "TIDEGAUGE_CONSOLE_TOKENS",
    "TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN",
    "PGPASSWORD",
    "PGPASSFILE",
)
"""Of the store's and the console's, which a Spark application has no use for."""

_IMAGE_JOB: Final = "local:///opt/tidegauge/spark_jobs/job.py"
_POD_EXIT_CODE: Final = re.compile(r"exit code:\s*(\d+)", re.IGNORECASE)


def command_step(step: str, *arguments: Any, may_breach: bool = False, **task: Any) -> "JobOperator":
    """A task that runs `tidegauge job <step> <arguments>`. Arguments are templates, or what a task before answered: a
    word, or a list of words.
    """
    return JobOperator(task_id=step, steps=(step,), arguments=arguments, spark=False, may_breach=may_breach, **task)


def spark_step(*steps: str, arguments: Sequence[Any], **task: Any) -> "JobOperator":
    """A task that runs one or more steps in one Spark application: starting Spark costs more than a small step."""
    return JobOperator(
        task_id="_and_".join(steps), steps=steps, arguments=arguments, spark=True, may_breach=False, **task
    )


class ProcessOperator(BaseOperator):
    """Runs a command as a process of its own, its output in the task's log, and answers as its exit code says."""

    template_fields: Sequence[str] = ("arguments",)
    ui_color = "#d9ecf2"

    def __init__(self, *, arguments: Sequence[Any] = (), **task: Any) -> None:
        super().__init__(**task)
        self.arguments = list(arguments) if isinstance(arguments, list | tuple) else arguments
        self._process: subprocess.Popen[str] | None = None
        self._killing: list[str] = []
        self.error = ""
        self.verdicts: list[str] = []

    def _run(
        self,
        command: Sequence[str],
        *,
        pod_decides: bool,
        without: tuple[str, ...] = _OF_AIRFLOW,
        also: Mapping[str, str] = NOTHING_MORE,
    ) -> int:
        self.log.info("Running %s", shlex.join(command))
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace", start_new_session=True,
                env={name: value for name, value in os.environ.items() if not name.startswith(without)} | dict(also),
            )  # fmt: skip
        except OSError as error:
            raise AirflowException(f"Cannot run {command[0]}: {error}") from error
        except ValueError as error:  # A NUL, or half of a surrogate pair: no system takes that for an argument.
            raise AirflowFailException(f"An argument is none that a command can be given: {error}.") from error
        assert self._process.stdout is not None
        pod_code = last_pod_exit_code(self._heard(_through(self._process.stdout, self.log.info)))
        code = self._process.wait()
        return pod_code or code if pod_decides else code

    def _heard(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines, of which the error and the verdicts are kept: what a task's log ends with, and what a run is."""
        self.error, self.verdicts = "", []
        for line in lines:
            text = message_of(line)
            if text.startswith(_ERRORS):
                self.error = text[:_LONGEST_WORDS]
            elif text.startswith(VERDICT):
                self.verdicts.append(text.removeprefix(VERDICT)[:_LONGEST_WORDS])
            yield line

    def on_kill(self) -> None:
        """Ends the process and all it started; on Kubernetes the driver's pod too."""
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
        if self._killing:
            subprocess.run(self._killing, check=False, timeout=60)


class JobOperator(ProcessOperator):
    """Runs steps of an audit: by the `tidegauge` command, or by spark-submit. `subject` is whose audit it is."""

    template_fields = ("arguments", "subject", "breach_fails")

    def __init__(
        self,
        *,
        steps: Sequence[str],
        arguments: Sequence[Any],
        spark: bool,
        may_breach: bool,
        breach_fails: bool | str = False,
        subject: Any = "",
        **task: Any,
    ) -> None:
        super().__init__(arguments=arguments, **task)
        self.steps = list(steps)
        self.spark = spark
        self.may_breach = may_breach
        self.breach_fails = breach_fails
        self.subject = subject

    def execute(self, context: Any) -> Outcome:
        """Runs the job to its end; "breached" where it found something, else "done"."""
        answer = self._submitted(context) if self.spark else self._run_here()
        if self.verdicts:
            context["ti"].xcom_push(key="verdict", value=self.verdicts)  # The plugin makes it the run's note.
        if answer == "breached" and str(self.breach_fails).lower() == "true":
            raise AirflowFailException(
                "Invariants do not hold, and this run was asked to fail then. The report is there."
            )
        return answer

    def _submitted(self, context: Any) -> Outcome:
        master, ti = os.environ.get("TIDEGAUGE_SPARK_MASTER") or "local[*]", context["ti"]
        about = "-".join(filter(None, (ti.run_id, self.subject, ti.dag_id)))
        pod = pod_name(self.task_id, about, ti.try_number) if is_kubernetes(master) else None
        words = [*self.steps, *flat(self.arguments)]
        with settings_file(os.environ) as given:
            command = spark_submit(master, words, os.environ, name=self.task_id, pod=pod, given=given)
            self._killing = [command[0], "--master", master, "--kill", f"{_namespace(os.environ)}:{pod}"] if pod else []
            code = self._run(
                command, pod_decides=pod is not None, without=(*_OF_AIRFLOW, *_OF_THE_STORE),
                also=python_of_jobs(master, os.environ),
            )  # fmt: skip
            return outcome(code, may_breach=self.may_breach, said=self.error)

    def _run_here(self) -> Outcome:
        command = [*tidegauge_command(os.environ), "job", *self.steps, *flat(self.arguments)]
        return outcome(self._run(command, pod_decides=False), may_breach=self.may_breach, said=self.error)


class ShareOperator(ProcessOperator):
    """Runs `tidegauge <arguments>` where a broker's disks are: here, or by a command that stands for `tidegauge`."""

    def __init__(self, *, command: str | None = None, subject: str = "", may_breach: bool = False, **task: Any) -> None:
        super().__init__(**task)
        self.command = command
        self.subject = subject
        self.may_breach = may_breach

    def execute(self, context: Any) -> Outcome:
        """Runs it to its end."""
        words = list(flat(self.arguments))
        command = remote_command(self.command, words) if self.command else None
        command = command or [*tidegauge_command(os.environ), *words]
        return outcome(self._run(command, pod_decides=False), may_breach=self.may_breach, said=self.error)


class SnapshotOperator(ShareOperator):
    """Runs `tidegauge <arguments>`, which finishes a snapshot, and tells of it by an event of the asset `SNAPSHOT`."""

    template_fields = ("arguments", "snapshot", "snapshot_id")

    def __init__(self, *, cluster: str, snapshot: str, snapshot_id: str, **task: Any) -> None:
        super().__init__(outlets=[SNAPSHOT], **task)
        self.cluster = cluster
        self.snapshot = snapshot
        self.snapshot_id = snapshot_id

    def execute(self, context: Any) -> Outcome:
        """Runs it to its end; the event tells which snapshot there is now."""
        done = super().execute(context)
        context["outlet_events"][SNAPSHOT].extra = {
            "cluster": self.cluster, "snapshot": self.snapshot, "snapshot_id": self.snapshot_id,
        }  # fmt: skip
        return done


def message_of(line: str) -> str:
    """What a command says in a line, also where `TIDEGAUGE_LOG_FORMAT` makes objects of its lines."""
    text = line.strip()
    if not text.startswith('{"at": '):
        return text
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError):
        return text


def flat(arguments: Iterable[Any]) -> Iterable[str]:
    """Words, and words in lists, as words."""
    for argument in arguments:
        if isinstance(argument, list | tuple):
            yield from flat(argument)
        else:
            yield str(argument)


def remote_command(command: str, arguments: Sequence[str]) -> list[str]:
    """The command line by which a prefix such as `ssh broker-1 tidegauge` runs. A shell at the other end of ssh splits
    what it is given once more, so it is given quoted words.
    """
    prefix = shlex.split(command)
    at_shell = Path(prefix[0]).name == "ssh"
    return [*prefix, *(shlex.quote(argument) if at_shell else argument for argument in arguments)]


def outcome(code: int, *, may_breach: bool, said: str = "") -> Outcome:
    """What an exit code means. Raises `AirflowFailException` (never retried), `AirflowSkipException`, or
    `AirflowException` (retried), with what the command said last: a task's log ends with it, below the traceback.
    """
    words = said or "Its message is above."
    if code == 0:
        return "done"
    if code == BREACHED and may_breach:
        return "breached"
    if code == UNUSABLE:
        raise AirflowFailException(f"The snapshot or the arguments cannot be used (exit code 2). {words}")
    if code == NOTHING_TO_DO:
        raise AirflowSkipException("There is nothing to do; the message above says why.")
    ended = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    raise AirflowException(f"The job {ended}, and is retried. {words}")


def tidegauge_command(environ: Mapping[str, str]) -> list[str]:
    """What runs a step without Spark: `TIDEGAUGE_COMMAND`, the command beside this Python, or the one on the PATH."""
    if command := environ.get("TIDEGAUGE_COMMAND"):
        return shlex.split(command)
    return [_installed("tidegauge")]


@contextmanager
def settings_file(environ: Mapping[str, str]) -> Iterator[Path | None]:
    """A file of its owner alone with the settings of TIDEGAUGE_SPARK_CONF, while it is needed; None if there are none.

    A command line is shown to every user of the machine, and stands in the task's log. No name tells which setting is a
    secret: an Azure account's key is called by the account, and a URL may have a password in it.
    """
    settings = _settings(environ)
    if not settings:
        yield None
        return
    with TemporaryDirectory(prefix="tidegauge-") as directory:
        path = Path(directory, "spark.properties")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="latin-1") as file:
            file.writelines(f"{_property(setting)}\n" for setting in settings)
        yield path


def _settings(environ: Mapping[str, str]) -> list[str]:
    return shlex.split(environ.get("TIDEGAUGE_SPARK_CONF") or "")


def _property(setting: str) -> str:
    """As java.util.Properties reads it: what is no letter or digit escaped, so that blanks and signs are kept."""
    key, _, value = setting.partition("=")
    return f"{_escaped(key)}={_escaped(value)}"


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    characters = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(c) if chr(c).isascii() and chr(c).isalnum() else f"\\u{c:04x}" for c in characters)


def spark_submit(
    master: str,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    name: str,
    pod: str | None = None,
    given: Path | None = None,
) -> list[str]:
    """The command line that submits `spark_jobs/job.py` to a master; `pod` names the driver's pod on Kubernetes,
    `given` is the file of what TIDEGAUGE_SPARK_CONF says.
    """
    said = {setting.partition("=")[0] for setting in _settings(environ)}
    settings = [f"{key}={value}" for key, value in _safe_settings(master).items() if key not in said]
    if pod:
        settings.append(f"spark.kubernetes.driver.pod.name={pod}")
    binary = _spark_submit_program(environ)
    mode = "cluster" if is_kubernetes(master) else "client"
    return [
        binary, "--master", master, "--deploy-mode", mode, "--name", f"tidegauge-{name}",
        *(("--properties-file", str(given), "--load-spark-defaults") if given else ()),
        *(part for setting in settings for part in ("--conf", setting)),
        job_file(master, environ), *arguments,
    ]  # fmt: skip


def _spark_submit_program(environ: Mapping[str, str]) -> str:
    """That of `SPARK_HOME`, else of the PySpark beside this Python, else the one on the PATH. The script that pip puts
    beside a Python asks the PATH's `python3` where PySpark is, which need not know.
    """
    if home := environ.get("SPARK_HOME"):
        return str(Path(home, "bin", "spark-submit"))
    package = importlib.util.find_spec("pyspark")
    if package is not None and package.submodule_search_locations:
        return str(Path(package.submodule_search_locations[0], "bin", "spark-submit"))
    return "spark-submit"


def python_of_jobs(master: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variable by which a job runs in this Python, unless another is named or the job is another's: Spark would
    take the PATH's `python3`. On Kubernetes the image says which.
    """
    named = any(environ.get(name) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "TIDEGAUGE_JOB"))
    return {} if named or is_kubernetes(master) or master == "yarn" else {"PYSPARK_PYTHON": sys.executable}


def _safe_settings(master: str) -> dict[str, str]:
    """What holds where TIDEGAUGE_SPARK_CONF does not say otherwise. Spark by itself listens on every interface, to
    everybody.
    """
    quiet = {"spark.ui.enabled": "false"}
    if master == "local" or master.startswith("local["):
        return quiet | {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if is_kubernetes(master) or master == "yarn":
        # There Spark makes a secret for each application; for a standalone cluster somebody has to.
        return quiet | {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    return quiet


def job_file(master: str, environ: Mapping[str, str]) -> str:
    """What spark-submit runs: `TIDEGAUGE_JOB`, or the installed one; on Kubernetes it is in the driver's image."""
    if job := environ.get("TIDEGAUGE_JOB"):
        return job
    if is_kubernetes(master):
        return _IMAGE_JOB
    package = importlib.util.find_spec("tidegauge")
    if package is None or not package.submodule_search_locations:
        raise AirflowException("Tidegauge is not installed beside Airflow: set TIDEGAUGE_JOB to its spark_jobs/job.py.")
    return str(Path(package.submodule_search_locations[0], "spark_jobs", "job.py"))


def is_kubernetes(master: str) -> bool:
    """Whether a master is a Kubernetes API server."""
    return master.startswith("k8s://")


def pod_name(step: str, about: str, try_number: int) -> str:
    """A name for the driver's pod that is the same for the same try, and that Kubernetes accepts."""
    letters = re.sub(r"[^a-z0-9]+", "-", f"tidegauge-{step}-{about}".lower()).strip("-")
    if len(letters) > 55:  # What is cut off may be all that tells two runs apart.
        letters = f"{letters[:46].rstrip('-')}-{sha256(about.encode()).hexdigest()[:8]}"
    return f"{letters}-{try_number}"


def last_pod_exit_code(lines: Iterable[str]) -> int | None:
    """The driver container's exit code, which spark-submit prints and does not pass on."""
    code = None
    for line in lines:
        if found := _POD_EXIT_CODE.search(line):
            code = int(found.group(1))
    return code


def _through(lines: Iterable[str], write: Callable[..., object]) -> Iterable[str]:
    for line in lines:
        write("%s", line.rstrip())
        yield line


def _namespace(environ: Mapping[str, str]) -> str:
    key = "spark.kubernetes.namespace="
    return next((s.removeprefix(key) for s in _settings(environ) if s.startswith(key)), "default")


def _installed(command: str) -> str:
    beside = Path(sys.executable).with_name(command)
    return str(beside) if beside.exists() else command
