"""`tidegauge status`: it tells what there is and what runs, and starts nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.conftest import Golden
from tests.console.filling import publish_capture
from tests.store.helpers import START, audit, breach, key, opened
from tidegauge import store
from tidegauge.cli.main import main
from tidegauge.embedded import postgres
from tidegauge.embedded.announced import RunningProcess, announced, announced_in
from tidegauge.snapshots.adopt import adopt


def status(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["status", *arguments])


def told(*arguments: str, code: int = 0) -> dict[str, Any]:
    done = status("--json", *arguments)
    assert done.exit_code == code, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Short, for a socket's path; reached by whom root's Postgres runs as."""
    with tempfile.TemporaryDirectory(prefix="tidegauge-status-") as directory:
        monkeypatch.setenv("TIDEGAUGE_HOME", directory)
        for name in ("TIDEGAUGE_STORE_URL", "TIDEGAUGE_SNAPSHOTS"):
            monkeypatch.delenv(name, raising=False)
        yield Path(directory)


def test_where_nothing_is_nothing_is_made(home: Path) -> None:
    found = told()
    assert (found["store"]["state"], found["snapshots"], found["runs_by_cluster"], found["processes"]) == (
        "not_made", [], [], [],
    )  # fmt: skip
    assert found["home"] == str(home)
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "not made yet" in status().stdout
    assert list(home.iterdir()) == []


def test_snapshots_are_counted_by_cluster(home: Path, golden: Golden) -> None:
    for number in (1, 2):
        copy = shutil.copytree(golden("one-controller"), home / "snapshots" / "payments" / f"s{number}")
        adopt(copy, cluster="payments", snapshot_id=f"s{number}")
    (home / "snapshots" / "half" / "unfinished").mkdir(parents=True)
    (found,) = told()["snapshots"]
    assert (found["cluster"], found["count"], found["newest_snapshot_id"]) == ("payments", 2, "s2")
    assert found["captured_at"].startswith("202")
    assert "payments: 2, the newest s2, captured 202" in status().stdout


@pytest.mark.postgres
def test_a_stopped_store_stays_stopped_and_a_running_one_is_asked(home: Path) -> None:
    with postgres.running(home / "postgres") as server:
        url = server.ensure_database("tidegauge")
        assert "store migrate" in told()["store"]["why"]
        store.migrate(url)
        audit(url, "production", "s1", breach("b1"))
        opened(url, key("production", "s2"))
        found = told()
        assert found["store"]["state"] == "reachable"
        assert found["store"]["schema"].startswith("r")
        (run,) = found["runs_by_cluster"]
        assert (run["cluster"], run["snapshot_id"], run["verdict"], run["critical"]) == (
            "production",
            "s1",
            "breached",
            1,
        )
        assert (run["staged"], run["failed"], run["captured_at"]) == (1, 0, START.isoformat().replace("+00:00", "Z"))
        (process,) = found["processes"]
        os.kill(process["pid"], 0)
        words = status().stdout
        assert "production: breached, 1 critical and 0 warning breaches open" in words
        assert "1 staged" in words
    found = told()
    assert (found["store"]["state"], found["processes"]) == ("stopped", [])
    assert found["store"]["size_bytes"] > 1_000_000
    assert found["store"]["server_version"].isdecimal()
    assert "is stopped" in status().stdout


@pytest.mark.postgres
def test_waiting_losses_are_told(home: Path, golden: Golden, empty_store: str) -> None:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    publish_capture(empty_store, golden("unclean-before"), cluster="payments", snapshot_id="s1", captured_at=at)
    (run,) = told("--store", empty_store)["runs_by_cluster"]
    assert (run["losses_undecided"], run["records_undecided"]) == (3, 1200)
    assert "3 losses, 1,200 records, wait for a decision: tidegauge losses" in status("--store", empty_store).stdout


def test_a_store_that_should_run_and_cannot_be_asked_is_exit_3(home: Path) -> None:
    found = told("--store", "postgresql+psycopg2://u:s3cret@127.0.0.1:1/d", code=3)
    assert found["store"]["state"] == "unreachable"
    assert "127.0.0.1" in found["store"]["why"]
    assert "s3cret" not in json.dumps(found)
    assert told("--store", "none")["store"]["state"] == "none"


HOLDS = """
import os, sys, time
from pathlib import Path
from tidegauge.embedded.announced import RunningProcess, announced

with announced(Path(sys.argv[1]), [RunningProcess(name="console", pid=os.getpid(), address="http://127.0.0.1:1/")]):
    print("held", flush=True)
    time.sleep(600)
"""


def test_what_is_told_runs_and_what_was_killed_is_told_no_more(home: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(home)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    (found,) = told()["processes"]
    assert found == {"name": "console", "pid": process.pid, "address": "http://127.0.0.1:1/"}
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert told()["processes"] == []
    with announced(home, [RunningProcess(name="x", pid=os.getpid(), address="y")]):
        assert [one.name for one in announced_in(home)] == ["x"]
        assert len(list((home / "processes").iterdir())) == 1  # what the killed one left is gone
    assert announced_in(home) == []


def test_a_home_that_cannot_be_written_to_keeps_nobody_from_serving(tmp_path: Path) -> None:
    (tmp_path / "processes").write_text("in the way")
    with announced(tmp_path, [RunningProcess(name="x", pid=os.getpid(), address="y")]):
        assert announced_in(tmp_path) == []
