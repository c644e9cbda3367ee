"""`tidegauge up` and `tidegauge console` as processes: what they start answers, and Ctrl-C stops all of it."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.store.helpers import audit, breach
from tidegauge import store
from tidegauge.embedded import postgres

pytestmark = [pytest.mark.slow, pytest.mark.postgres, pytest.mark.airflow]

PATIENCE_S = 240


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory for state, whose embedded store holds one run. Its path is short: sockets have no long names."""
    with tempfile.TemporaryDirectory(prefix="tidegauge-up-") as directory:
        with postgres.running(Path(directory) / "postgres") as server:
            url = server.ensure_database("tidegauge")
            store.migrate(url)
            audit(url, "production", "s1", breach("b1"))
        yield Path(directory)


def started(home: Path, *arguments: str) -> subprocess.Popen[str]:
    # Root's data lie where the fixture's server has them: a link to anywhere else is refused.
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TIDEGAUGE_") or k == "TIDEGAUGE_ROOT_POSTGRES"}
    environ = kept | {"TIDEGAUGE_HOME": str(home)}
    return subprocess.Popen(
        [sys.executable, "-m", "tidegauge", *arguments], env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def told(process: subprocess.Popen[str], last: str) -> dict[str, str]:
    """What it says until the line that begins so, by first words."""
    assert process.stdout
    said: dict[str, str] = {}
    deadline = time.monotonic() + PATIENCE_S
    for line in process.stdout:
        first, _, rest = line.strip().partition("  ")
        said[first] = rest.strip()
        if line.startswith(last) or time.monotonic() > deadline:
            return said
    raise AssertionError(f"it ended with {process.wait()} after saying {said}")


def stopped(process: subprocess.Popen[str], home: Path) -> None:
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    assert "Traceback" not in output
    listing = subprocess.run(["ps", "-Ao", "args="], capture_output=True, text=True, check=True).stdout
    assert [line for line in listing.splitlines() if str(home) in line] == []


def test_everything_to_look_at_starts_and_stops(home: Path) -> None:
    process = started(home, "up", "--port", "0")
    try:
        said = told(process, "Ctrl-C")
        console, airflow = said["console"], said["airflow"].split()[0]
        assert "production" in httpx.get(console, trust_env=False, timeout=60).text
        assert httpx.get(f"{console}data-docs", trust_env=False, timeout=60).status_code == 200
        assert httpx.get(f"{airflow}api/v2/version", trust_env=False, timeout=60).status_code == 200
        status = subprocess.run(
            [sys.executable, "-m", "tidegauge", "status", "--json"], capture_output=True, text=True, check=True,
            env=os.environ | {"TIDEGAUGE_HOME": str(home), "TIDEGAUGE_STORE_URL": ""},
        )  # fmt: skip
        running = {process["name"]: process["address"] for process in json.loads(status.stdout)["processes"]}
        assert running.keys() >= {"postgres", "console", "airflow-scheduler", "airflow-api-server"}
        assert (running["console"], running["airflow-api-server"]) == (console, airflow)
        backfill = subprocess.run(
            [sys.executable, "-m", "tidegauge", "airflow", "backfill", "create", "--dag-id", "replication_audit",
             "--from-date", "2026-11-01", "--to-date", "2026-11-03", "--dry-run"],
            capture_output=True, text=True, check=False,
            env=os.environ | {"TIDEGAUGE_HOME": str(home), "TIDEGAUGE_STORE_URL": ""},
        )  # fmt: skip
        assert backfill.returncode == 0, backfill.stderr
        assert "2026-11-02" in backfill.stdout, "the schedule is daily, so there are dates"
        user, password = re.findall(r"(?:user|password) ([^ ,]+)", said["airflow"])
        login = {"username": user, "password": password}
        token = httpx.post(f"{airflow}auth/token", json=login, trust_env=False, timeout=60).json()["access_token"]
        place = f"{airflow}tidegauge/clusters/production/breaches/b1"
        page = httpx.get(place, cookies={"_token": token}, trust_env=False, timeout=60).text
        assert f"You are <bdi>{user}</bdi>" in page, "Airflow and the console share a secret"
        assert 'name="who"' in httpx.get(f"{console}clusters/production/breaches/b1", trust_env=False, timeout=60).text
    finally:
        stopped(process, home)


def test_the_console_alone_serves_the_embedded_store_and_stops(home: Path) -> None:
    process = started(home, "console", "--port", "0")
    try:
        address = told(process, "console")["console"].split()[0]
        assert httpx.get(f"{address}readyz", trust_env=False, timeout=60).json() == {"status": "ready"}
    finally:
        stopped(process, home)


@pytest.mark.parametrize(
    ("store", "words", "code"),
    [
        ("none", "Name a Postgres", 3),
        ("mysql://u:s3cret@h/d", "is no Postgres", 2),
        ("postgresql://u:s3cret@h:s3cret/d", "cannot be read as a URL", 2),
    ],
)
def test_a_console_without_a_store_says_so(home: Path, store: str, words: str, code: int) -> None:
    process = started(home, "console", "--store", store)
    output = process.communicate(timeout=300)[0]
    assert process.returncode == code
    assert words in output
    assert "s3cret" not in output
