"""The Spark session: a master's URL in, a session out, quickly.

Half of a small audit is Spark getting ready, so what costs time there is switched off, the JVM maps its classes from an
archive (`spark_jobs.class_archive`) instead of unpacking and verifying them, and Python workers do not compile PySpark
anew (`spark_jobs.spark_home`). Measured on two cores, from nothing to the first rows of a Python data source: 11 to 15
s as Spark comes, 4.5 s so.

A session is started by whoever needs one, from any thread (it may overlap with Postgres starting). Under `spark-submit`
the JVM is there already, so its flags have to come with the command: `submit_environment` says how.
"""

import atexit
import logging
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from tidegauge.runs.errors import SparkError, UnavailableError
from tidegauge.runs.signals import held_back
from tidegauge.snapshots.child_environment import OBJECT_STORES, PYTHON, SPARK, only
from tidegauge.snapshots.errors import StorageError
from tidegauge.snapshots.safe_path import SAFE_PATH
from tidegauge.spark_jobs import class_archive
from tidegauge.spark_jobs.java import Java, find_java
from tidegauge.spark_jobs.reach import must_answer, registering
from tidegauge.spark_jobs.scratch import Scratch, new_scratch
from tidegauge.spark_jobs.spark_home import spark_home

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"

_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    # A row of the index step may have 2,000 entries of a list (`derivation.segment_pieces`): some hundred KB.
    "spark.sql.parquet.columnarReaderBatchSize": "128",
    "spark.sql.execution.arrow.maxBytesPerBatch": "32m",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    **{f"spark.executorEnv.{name}": value for name, value in SAFE_PATH.items()},
}

_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

_CLUSTER: Final = {"spark.ui.enabled": "false"}
"""There the driver has to be reached from other machines; its pages, which ask nobody who they are, need not be."""
_AUTHENTICATED: Final = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}

# Jobs here are short and their work is done in Python: the first compiler tier and the plainest collector start
# fastest.
_LOCAL_JAVA_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


_ENVIRONMENT_SIGNS: Final = (
    "No space left on device",
    "OutOfMemoryError",
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "Connection refused",
    "SparkContext was shut down",
    "stopped SparkContext",
    "UnsatisfiedLinkError",  # A codec's native library is unpacked among temporary files: no room, or `noexec`.
)
"""What Spark's words hold when the machine failed it, not our code."""


def _last_words(error: type[Exception]) -> re.Pattern[str]:
    """How a worker's traceback ends that this error ended."""
    return re.compile(rf"^{re.escape(f'{error.__module__}.{error.__qualname__}')}: (.+)$", re.MULTILINE)


_STORAGE_ERROR: Final = _last_words(StorageError)
"""How an object store's silence ends a Python worker's traceback, which is all that the driver gets to see."""
_UNAVAILABLE_ERROR: Final = _last_words(UnavailableError)
"""How a worker's missing mount does."""

_ENDS_WITHIN_S: Final = 30
"""A JVM that was told to end and has not by then is killed."""
_LETS_GO_S: Final = 2
"""A process that was killed closes its connections a moment before it can be waited for."""

_STORE_VARIABLES: Final = ("AWS_", "FSSPEC_")
_OF_THE_JVM: Final = (*SPARK, *PYTHON, "PYTHONSAFEPATH", "_PYSPARK_")
"""How names begin that the JVM is told, and by it the Python workers on this machine."""


@contextmanager
def spark_errors(doing: str) -> Iterator[None]:
    """What Spark raises because of the machine comes out as a `SparkError`; a mistake of ours stays what it is."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        if not isinstance(error, (PySparkException, Py4JJavaError)) and _jvm_is_gone():
            raise SparkError(
                f"Spark could not {doing}: its Java process was killed. If nobody did, the system may have, for want "
                "of memory: its log says so. Run the same again."
            ) from error
        if isinstance(error, ConnectionError):
            raise
        text = str(error)
        if told := _STORAGE_ERROR.search(text):
            raise StorageError(told[1]) from error
        if told := _UNAVAILABLE_ERROR.search(text):
            raise UnavailableError(told[1]) from error
        sign = next((sign for sign in _ENVIRONMENT_SIGNS if sign in text), None)
        if sign is None:
            raise
        raise SparkError(
            f"Spark could not {doing}: {sign}. Check free disk and memory where Spark runs, then run the same again."
        ) from error


def _is_not_py4js(record: logging.LogRecord) -> bool:
    """Py4j logs a traceback of each call that a signal or a dead JVM broke off, and then raises it all the same."""
    return "py4j" not in Path(record.pathname).parts


def _quiet_when_the_jvm_goes(session: "SparkSession") -> None:
    """PySpark's server of accumulators shows a traceback when the JVM hangs up, be it at Ctrl-C; whoever needed the JVM
    says so himself.
    """
    server: Any = session.sparkContext._accumulatorServer
    shown = server.handle_error

    def handle_error(request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            shown(request, client_address)

    server.handle_error = handle_error


def _jvm_is_gone() -> bool:
    """Whether the JVM that this process started has ended: then what py4j raises says no more than that."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(_LETS_GO_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def stop(session: "SparkSession") -> None:
    """Ends a session. Of a JVM that was killed there is nothing left to end; whoever needed it has said so."""
    from py4j.protocol import Py4JError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # PySpark's, of such a JVM
        try:
            session.stop()
        except (Py4JError, ConnectionError):
            if not _jvm_is_gone():
                raise


def is_local(master: str) -> bool:
    """Whether Spark runs in this process's own JVM."""
    return master == "local" or master.startswith("local[")


def settings(master: str) -> dict[str, str]:
    """Spark's configuration for a master, but for what must be known before the JVM starts."""
    if not is_local(master):
        makes_secrets = master == "yarn" or master.startswith("k8s://")  # For a standalone cluster somebody has to.
        return {**_EVERYWHERE, **_CLUSTER, **(_AUTHENTICATED if makes_secrets else {})}
    return {**_EVERYWHERE, **_LOCAL, "spark.sql.shuffle.partitions": str(_local_cores(master))}


def _given(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """What TIDEGAUGE_SPARK_CONF sets. Raises `SparkError` for what is no `key=value`, which it does not show."""
    found = []
    for number, setting in enumerate(shlex.split(environ.get("TIDEGAUGE_SPARK_CONF") or ""), 1):
        key, is_one, value = setting.partition("=")
        if not is_one:
            raise SparkError(f"TIDEGAUGE_SPARK_CONF: its word {number} is no key=value. Quote it as for a shell.")
        found.append((key, value))
    return found


def java_options(master: str, java: Java) -> str:
    """What the driver's JVM is started with, beyond Spark's own."""
    if not is_local(master):
        return ""
    return " ".join((*_LOCAL_JAVA_OPTIONS, *class_archive.options(java)))


def start(
    master: str = LOCAL,
    *,
    name: str = "tidegauge",
    extra: Mapping[str, str] | None = None,
    asks_object_stores: bool = False,
) -> "SparkSession":
    """A session on `master`, or the one that runs already. Raises `SparkError`.

    `extra` are Spark settings that win over ours; `asks_object_stores`: it is told where they are, and who asks.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    logging.getLogger().addFilter(_is_not_py4js)
    configuration = SparkConf(loadDefaults=False).setMaster(master).setAppName(name)
    configuration.setAll([*settings(master).items(), *(extra or {}).items()])
    given = [] if is_local(master) else _given(os.environ)
    must_answer(master)
    # PySpark takes Ctrl-C for itself: its answer asks the JVM, which may have heard it, too, and be gone.
    with TemporaryFile() as log, held_back():
        try:
            if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
                SparkContext._ensure_initialized(gateway=_launch(configuration, master, log, asks_object_stores))
            # Told to the JVM that runs: what it is started with stands on its command line, for everybody to read.
            for name, value in _store_settings(os.environ, asks_object_stores).items():
                configuration.setIfMissing(name, value)
            configuration.setAll(given)
            with registering(master, _kill_the_jvm):
                session = SparkSession.builder.config(conf=configuration).getOrCreate()
            _quiet_when_the_jvm_goes(session)
            return session
        except (PySparkException, Py4JError, OSError, RuntimeError) as error:
            raise SparkError(f"Spark did not start on {master}: {_in_short(error)}.{_tail(log)}") from error


def _kill_the_jvm() -> None:
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()


def _in_short(error: Exception) -> str:
    """What was raised, without the Java stacks below it."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line.startswith(": ")]  # py4j's own first line says where it happened
    return (told or lines or [type(error).__name__])[0].removeprefix(": ").rstrip(".")


def attach(*, name: str = "tidegauge", asks_object_stores: bool = False) -> "SparkSession":
    """The session of a driver that spark-submit started: its master and flags stand, ours are added where none are
    given. `asks_object_stores` as in `start`.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in (_EVERYWHERE | _store_settings(os.environ, asks_object_stores)).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _store_settings(environ: Mapping[str, str], asks: bool) -> dict[str, str]:
    """Where object stores are and who asks, as the driver was told: Python workers on other machines know no more."""
    wanted = _STORE_VARIABLES if asks else ()
    return {f"spark.executorEnv.{name}": v for name, v in environ.items() if name.startswith(wanted)}


class _Inherited(dict[str, object]):
    """What the JVM's process is made with. PySpark puts its own environment in, all of it, whatever is given."""

    def __init__(self, beginnings: Sequence[str], **given: object) -> None:
        super().__init__(given)
        self._beginnings = beginnings

    def __setitem__(self, name: str, value: object) -> None:
        """A setting of `Popen`; of an environment what the JVM needs."""
        if name == "env":
            assert isinstance(value, dict)
            value = only(*self._beginnings, environ=value)
        super().__setitem__(name, value)


def _launch(configuration: "SparkConf", master: str, log: BinaryIO, asks_object_stores: bool) -> "JavaGateway":
    """Starts the JVM. What it says on standard error goes to `log`: it greets with warnings that concern nobody."""
    from pyspark.java_gateway import launch_gateway

    java = find_java()
    os.environ.update(environment(java, master))
    scratch = new_scratch()
    options = java_options(master, java)
    if is_local(master):
        configuration.setIfMissing("spark.local.dir", str(scratch.directory))
        options = f'{options} "-Djava.io.tmpdir={scratch.directory}"'
    if options:
        configuration.setIfMissing("spark.driver.extraJavaOptions", options)
    beginnings = (*_OF_THE_JVM, *(OBJECT_STORES if asks_object_stores else ()))
    inherited = _Inherited(beginnings, stderr=log, pass_fds=(scratch.lock,))
    try:
        # A signal in the middle would leave a JVM that nobody knows.
        with held_back(), scratch.for_temporary_files():
            gateway: JavaGateway = launch_gateway(configuration, popen_kwargs=inherited)  # type: ignore[no-untyped-call]
            atexit.register(_ended, os.getpid(), gateway.proc, scratch)
    except Exception:
        scratch.remove()
        raise
    return gateway


def _ended(starter: int, jvm: "subprocess.Popen[bytes]", scratch: Scratch) -> None:
    """Waits for the JVM to end, as it does when its standard input does, and removes what was temporary."""
    if os.getpid() != starter:
        return  # A fork of it ends.
    if jvm.stdin is not None:
        jvm.stdin.close()
    try:
        jvm.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
    scratch.remove()


def _tail(log: BinaryIO) -> str:
    """What the JVM said of an error, else its last lines."""
    log.seek(0)
    said = log.read().decode(errors="replace").splitlines()
    signs = (" ERROR ", "Error:", "Error occurred", "Exception")
    lines = ([line for line in said if any(sign in line for sign in signs)] or said)[-5:]
    return " Java said: " + " / ".join(lines) if lines else ""


def environment(java: Java, master: str = LOCAL) -> dict[str, str]:
    """Environment variables for a process that starts Spark: which Java, which Spark, which Python, which interface."""
    variables = {"JAVA_HOME": str(java.home), **SAFE_PATH}
    if is_local(master):
        variables |= {
            "SPARK_HOME": str(spark_home()),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LAUNCHER_OPTS": " ".join(_LOCAL_JAVA_OPTIONS),
        }
    elif master.startswith(("spark://", "local-cluster[")):
        # Its workers run the path that the driver names. Spark's own choice is the first `python3` on their PATH, which
        # need not know this package; YARN and Kubernetes bring an environment of their own.
        variables["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    return variables


def submit_environment(master: str = LOCAL) -> dict[str, str]:
    """The environment in which a DAG's spark-submit starts as fast as `start` does. Raises `SparkError` without a Java.

    Settings go along one by one: a directory with a `spark-defaults.conf` would stand on the class path, and a JVM
    takes no class archive when a directory there has anything in it.
    """
    java = find_java()
    configuration = {**settings(master), "spark.driver.extraJavaOptions": java_options(master, java)}
    pairs = [f"{key}={value}" for key, value in sorted(configuration.items()) if value]
    return {**environment(java, master), "TIDEGAUGE_SPARK_CONF": shlex.join(pairs)}


def _local_cores(master: str) -> int:
    """How many tasks `local[N]`, `local[N,F]` or `local[*]` runs at once."""
    inside = master.removeprefix("local").strip("[]").split(",")[0]
    if inside == "":
        return 1
    return int(inside) if inside.isdigit() else os.cpu_count() or 1
