"""A real standalone cluster of Spark with a secret, on this machine: an audit in its executors, and who is kept out."""

import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Golden
from tests.security.command import started
from tidegauge.spark_jobs.java import find_java
from tidegauge.spark_jobs.spark_home import spark_home

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]

SECONDS = 180
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Daemon:
    """A master or a worker: its process, and where it says what."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, words: str) -> bool:
        return words in self.log.read_text(errors="replace")

    def wait_for(self, *words: str) -> None:
        until = time.monotonic() + SECONDS
        while not any(self.said(each) for each in words):
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{self.log.name} never said {words}: {self.log.read_text(errors='replace')}")
            time.sleep(0.2)


@dataclass
class Cluster:
    """A master, and the workers that were started for it."""

    place: Path
    port: int
    web_port: int
    master: Daemon | None = None
    running: ExitStack = field(default_factory=ExitStack)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def state(self) -> dict[str, Any]:
        """What the master tells of its workers and applications."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}/json/", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def worker(self, name: str, settings: Mapping[str, str]) -> Daemon:
        """A worker of two cores, begun."""
        return self._daemon(
            name, "org.apache.spark.deploy.worker.Worker", settings, self.url, "--host", "127.0.0.1", "--webui-port",
            "0", "--cores", "2", "--memory", "1g", "--work-dir", str(self.place / f"work-of-{name}"),
        )  # fmt: skip

    def begin(self, settings: Mapping[str, str]) -> None:
        """Starts the master."""
        self.master = self._daemon(
            "master", "org.apache.spark.deploy.master.Master", settings, "--host", "127.0.0.1", "--port",
            str(self.port), "--webui-port", str(self.web_port),
        )  # fmt: skip
        self.master.wait_for("New state: ALIVE")

    def _daemon(self, name: str, main: str, settings: Mapping[str, str], *arguments: str) -> Daemon:
        # A file of its owner's: a command line would show the secret to everybody on the machine.
        properties = self.place / f"{name}.properties"
        with os.fdopen(os.open(properties, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.writelines(f"{key} {value}\n" for key, value in settings.items())
        log = self.place / f"{name}.log"
        environ = {
            **os.environ, "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "PYTHONPATH": str(REPOSITORY),
        }  # fmt: skip
        command = [spark_home() / "bin" / "spark-class", main, *arguments, "--properties-file", str(properties)]
        with log.open("wb") as said:
            process = subprocess.Popen(command, env=environ, stdout=said, stderr=subprocess.STDOUT, cwd=self.place)
        self.running.callback(_end, process)
        return Daemon(process, log)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextmanager
def standalone(place: Path, settings: Mapping[str, str]) -> Iterator[Cluster]:
    """A cluster with one worker, all on loopback; nothing of it is left."""
    port, web_port = free_ports(2)
    cluster = Cluster(place, port, web_port)
    with cluster.running:
        cluster.begin(settings)
        cluster.worker("worker", settings).wait_for("Successfully registered with master")
        yield cluster


def authenticated(secret: str) -> dict[str, str]:
    return {
        "spark.authenticate": "true", "spark.authenticate.secret": secret, "spark.network.crypto.enabled": "true",
    }  # fmt: skip


@dataclass
class Audit:
    """`tidegauge audit --master spark://…` as somebody would run it on a machine of the cluster, and what is heard of
    it meanwhile.
    """

    process: subprocess.Popen[str]
    listened: set[tuple[str, int]] = field(default_factory=set)
    """Addresses at which it listened."""
    pages: set[int] = field(default_factory=set)
    """Ports that answered as a web server."""
    shown: set[str] = field(default_factory=set)
    """Command lines of everything that runs below this test, its executors too: every user of the machine sees them."""

    def watch(self) -> None:
        """To its end."""
        while self.process.poll() is None:
            for address in self._listening() - self.listened:
                self.listened.add(address)
                if _is_web(address[1]):
                    self.pages.add(address[1])
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    self.shown.add(shlex.join(process.cmdline()))
            time.sleep(0.5)

    def _listening(self) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        with suppress(psutil.NoSuchProcess):
            own = psutil.Process(self.process.pid)
            for process in (own, *own.children(recursive=True)):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    connections = process.net_connections("tcp")
                    found |= {(c.laddr.ip, c.laddr.port) for c in connections if c.status == psutil.CONN_LISTEN}
        return found


def _is_web(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(8).startswith(b"HTTP/")
    except OSError:
        return False


def begun(cluster: Cluster, snapshot: Path, out: Path, settings: Mapping[str, str], **more: Any) -> Audit:
    given = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m",
        **settings,
    }  # fmt: skip
    environ = {
        "TIDEGAUGE_SPARK_CONF": shlex.join(f"{key}={value}" for key, value in given.items()),
        "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        arguments: Sequence[object] = (
            "audit", snapshot, "--master", cluster.url, "--out", out, "--store", "none", "--fail-on", "never",
        )  # fmt: skip
        return Audit(started(*arguments, home=out.parent / "home", **more))


def intruder(cluster: Cluster, driver_port: int) -> subprocess.Popen[bytes]:
    """An executor that nobody asked for, and that knows no secret: it offers itself to the driver."""
    environ = {**os.environ, "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(spark_home())}
    backend = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    command = [
        spark_home() / "bin" / "spark-class", backend, "--driver-url",
        f"spark://CoarseGrainedScheduler@127.0.0.1:{driver_port}", "--executor-id", "99", "--bind-address", "127.0.0.1",
        "--hostname", "127.0.0.1", "--cores", "1", "--app-id", "app-0", "--resourceProfileId", "0",
    ]  # fmt: skip
    with (cluster.place / "intruder.log").open("wb") as said:
        process = subprocess.Popen(command, env=environ, stdout=said, stderr=subprocess.STDOUT)
    cluster.running.callback(_end, process)
    return process


def test_an_audit_runs_in_the_executors_of_who_knows_the_secret_and_of_nobody_else(
    golden: Golden, tmp_path: Path
) -> None:
    secret = secrets.token_urlsafe(24)
    (driver_port,) = free_ports(1)
    with standalone(tmp_path, authenticated(secret)) as cluster:
        strangers = [cluster.worker("stranger", {}), cluster.worker("guesser", authenticated("a guess"))]
        settings = {**authenticated(secret), "spark.driver.port": str(driver_port)}
        told = (tmp_path / "told").open("w+")
        cluster.running.enter_context(told)
        audit = begun(cluster, golden("unclean-before"), tmp_path / "out", settings, stdout=told, stderr=told)
        cluster.running.callback(_end, audit.process)
        watching = threading.Thread(target=audit.watch)
        watching.start()
        _wait_until(lambda: any(port == driver_port for _, port in audit.listened), "the driver to listen")
        offered = intruder(cluster, driver_port)
        assert offered.wait(SECONDS) != 0
        assert audit.process.wait(2 * SECONDS) == 0, (tmp_path / "told").read_text()
        watching.join()
        for stranger in strangers:
            stranger.wait_for("Failed to connect to master")
            assert not stranger.said("Successfully registered with master")
        state = cluster.state()
    assert len(json.loads((tmp_path / "out" / "report.json").read_text())["losses"]) == 3
    assert [worker["state"] for worker in state["workers"]] == ["ALIVE"], "nobody else was let in"
    (application,) = state["completedapps"]
    assert application["name"] == "tidegauge"
    executors = list((tmp_path / "work-of-worker").glob("app-*/*/stderr"))
    assert executors
    for log in executors:
        assert "Running task " in log.read_text(), "a master that is a cluster runs none in the driver"
    assert not [log for log in executors if log.parent.name == "99"]
    assert not list(tmp_path.glob("work-of-[!w]*/app-*"))
    assert {ip.removeprefix("::ffff:") for ip, _ in audit.listened} == {"127.0.0.1"}
    assert audit.pages == set(), "a UI would show everybody what is audited"
    assert any("CoarseGrainedExecutorBackend" in line and "--executor-id 0" in line for line in audit.shown)
    assert not [line for line in audit.shown if secret in line]
    assert secret not in (tmp_path / "told").read_text()


def test_who_does_not_know_the_secret_has_nothing_audited(golden: Golden, tmp_path: Path) -> None:
    with standalone(tmp_path, authenticated(secrets.token_urlsafe(24))) as cluster:
        audit = begun(cluster, golden("unclean-before"), tmp_path / "out", {}, stderr=subprocess.PIPE)
        cluster.running.callback(_end, audit.process)
        _, told = audit.process.communicate(timeout=2 * SECONDS)
        assert audit.process.returncode == 3, told
        assert "with another secret" in told
        assert cluster.state()["completedapps"] == []
    assert not list((tmp_path / "work-of-worker").glob("app-*"))


def _wait_until(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until, f"waited for {what}"
        time.sleep(0.2)
