"""How a command ends when it is told to, or when others run beside it: nothing stays behind, nobody is in the way."""

import signal
import socket
import subprocess
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.derivation.small_cluster import small_world, taken, written
from tests.security.command import SECONDS, started
from tidegauge.embedded import postgres

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]

HEARD = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taken(written(tmp_path_factory.mktemp("ends") / "copy", small_world()))


def _serves(home: Path) -> Path:
    return home / "postgres" / "data" / "postmaster.pid"


def _server_of(process: subprocess.Popen[str], home: Path) -> int:
    """The id of the server's process, as soon as there is one."""
    while process.poll() is None:
        written_down = _serves(home).read_text().split() if _serves(home).exists() else []
        if "ready" in written_down:
            return int(written_down[0])
        time.sleep(0.05)
    raise AssertionError("it ended before it had a server")


def _is_gone(pid: int) -> bool:
    """Within a minute: a server takes its file away a moment before it ends, and somebody has to bury it."""
    for _ in range(600):
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.1)
                continue
        return True
    return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_ends_an_audit_and_what_it_started(
    number: signal.Signals, code: int, snapshot: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    process = started("audit", snapshot, "--out", tmp_path / "out", home=home, **HEARD)
    pid = _server_of(process, home)
    process.send_signal(number)
    said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == code, said
    assert not _serves(home).exists()
    assert _is_gone(pid)
    assert not list(tmp_path.glob("out/**/report.json"))


@pytest.mark.parametrize(
    ("numbers", "code"),
    [((signal.SIGTERM,), 143), ((signal.SIGHUP,), 129), ((signal.SIGHUP, signal.SIGHUP), 129)],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("asked", [False, True])
def test_a_signal_ends_the_console_in_peace(
    asked: bool, numbers: tuple[signal.Signals, ...], code: int, tmp_path: Path
) -> None:
    """Nobody's connection, and none of the server's loop, stands in its way or is told of with a traceback."""
    process = started("console", "--port", "0", home=tmp_path / "home", **HEARD)
    assert process.stdout is not None
    store, address = process.stdout.readline(), process.stdout.readline()
    said = store + address
    where = urlsplit(address.split()[1])
    with socket.create_connection((where.hostname, where.port)) if asked else nullcontext() as connection:
        if connection is not None:
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(64).startswith(b"HTTP/1.1 200")
        for number in numbers:
            process.send_signal(number)
        said += process.communicate(timeout=SECONDS)[0]
    assert process.returncode == code, said
    assert "Traceback" not in said
    assert len(said.splitlines()) == 2, said
    assert not _serves(tmp_path / "home").exists()


def test_several_that_come_first_at_once_all_get_their_database(tmp_path: Path) -> None:
    home = tmp_path / "home"
    several = [started("explain", "D06-0123456789ab", home=home, **HEARD) for _ in range(4)]
    said = [process.communicate(timeout=SECONDS)[0] for process in several]
    assert [process.returncode for process in several] == [2, 2, 2, 2], said
    assert len(set(said)) == 1, "each found the same: no such breach"
    with postgres.running(home / "postgres") as server:
        assert server.ensure_database("tidegauge")
