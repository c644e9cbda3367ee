"""A standalone cluster of Spark on this machine: a master and workers, each a process of its own, all on loopback.

In: a directory, the daemons' settings. Out: a `Cluster` while the block lasts. Nothing that it started is left.
"""

import json
import os
import shlex
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from tests.processes import ended
from tests.security.command import started
from tidegauge.spark_jobs import session
from tidegauge.spark_jobs.java import find_java
from tidegauge.spark_jobs.spark_home import spark_home

SECONDS: Final = 180
REPOSITORY: Final = Path(__file__).parents[2]
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def quick() -> str:
    """JVM options of a session on this machine: what is started here lives for seconds, and there are many of them."""
    return session.java_options(session.LOCAL, find_java())


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
    workers: dict[str, Daemon] = field(default_factory=dict)
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
        self.workers[name] = self._daemon(
            name, "org.apache.spark.deploy.worker.Worker", settings, self.url, "--host", "127.0.0.1", "--webui-port",
            "0", "--cores", "2", "--memory", "1g", "--work-dir", str(self.place / f"work-of-{name}"),
        )  # fmt: skip
        return self.workers[name]

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
        # A directory for temporary files of its own, as a machine has.
        temporary = self.place / f"tmp-of-{name}"
        temporary.mkdir(exist_ok=True)
        environ = {
            **os.environ, "TMPDIR": str(temporary), "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "PYTHONPATH": str(REPOSITORY),
            "SPARK_DAEMON_JAVA_OPTS": quick(),
        }  # fmt: skip
        command = [spark_home() / "bin" / "spark-class", main, *arguments, "--properties-file", str(properties)]
        with log.open("wb") as said:
            process = subprocess.Popen(command, env=environ, stdout=said, stderr=subprocess.STDOUT, cwd=self.place)
        self.running.callback(ended, process)
        return Daemon(process, log)


def begun(
    snapshot: object,
    master: str,
    out: Path | str,
    home: Path,
    *,
    settings: Mapping[str, str] = NOTHING,
    store: str = "none",
    **more: Any,
) -> "subprocess.Popen[str]":
    """`tidegauge audit --master …` as somebody would run it on a machine of the cluster. `more` is for `Popen`."""
    given = {
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": quick(), **settings,
    }  # fmt: skip
    environ = {
        "TIDEGAUGE_SPARK_CONF": shlex.join(f"{key}={value}" for key, value in given.items()),
        "PYTHONPATH": str(REPOSITORY), "SPARK_SUBMIT_OPTS": quick(),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        return started(
            "audit", snapshot, "--master", master, "--out", out, "--store", store, "--fail-on", "never",
            home=home, **more,
        )  # fmt: skip


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Until something is so, which it soon is."""
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until, f"waited for {what}"
        time.sleep(0.02)


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
