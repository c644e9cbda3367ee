"""A real standalone cluster of Spark with a secret, on this machine: an audit in its executors, and who is kept out."""

import json
import os
import secrets
import shlex
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.conftest import Golden
from tests.processes import ended
from tests.spark_jobs.standalone import (
    SECONDS,
    Cluster,
    authenticated,
    begun,
    free_ports,
    quick,
    standalone,
    wait_until,
)
from tidegauge.spark_jobs.java import find_java
from tidegauge.spark_jobs.spark_home import spark_home

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]


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


def intruder(cluster: Cluster, driver_port: int) -> subprocess.Popen[bytes]:
    """An executor that nobody asked for, and that knows no secret: it offers itself to the driver."""
    environ = {
        **os.environ, "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(spark_home()),
        "SPARK_EXECUTOR_OPTS": quick(),
    }  # fmt: skip
    backend = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    command = [
        spark_home() / "bin" / "spark-class", backend, "--driver-url",
        f"spark://CoarseGrainedScheduler@127.0.0.1:{driver_port}", "--executor-id", "99", "--bind-address", "127.0.0.1",
        "--hostname", "127.0.0.1", "--cores", "1", "--app-id", "app-0", "--resourceProfileId", "0",
    ]  # fmt: skip
    with (cluster.place / "intruder.log").open("wb") as said:
        process = subprocess.Popen(command, env=environ, stdout=said, stderr=subprocess.STDOUT)
    cluster.running.callback(ended, process)
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
        process = begun(
            golden("unclean-before"),
            cluster.url,
            "out",  # as people say it: an executor's working directory is another one
            tmp_path / "home",
            settings=settings,
            stdout=told,
            stderr=told,
            cwd=tmp_path,
        )
        audit = Audit(process)
        cluster.running.callback(ended, audit.process)
        watching = threading.Thread(target=audit.watch)
        watching.start()
        wait_until(lambda: any(port == driver_port for _, port in audit.listened), "the driver to listen")
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
        process = begun(
            golden("unclean-before"), cluster.url, tmp_path / "out", tmp_path / "home", stderr=subprocess.PIPE
        )
        cluster.running.callback(ended, process)
        _, told = process.communicate(timeout=2 * SECONDS)
        assert process.returncode == 3, told
        assert "with another secret" in told
        assert cluster.state()["completedapps"] == []
    assert not list((tmp_path / "work-of-worker").glob("app-*"))
