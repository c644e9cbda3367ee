"""Child processes that cannot outlive the tests, and ports that nobody else takes.

In: a command. Out: a running process of its own group. The rule that must hold: whatever happens to pytest, kill -9
included, nothing that was started here is left.
"""

import atexit
import ctypes
import os
import random
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Final

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PORTS: Final = range(12_000, 32_000)
"""Below the range of which the system hands out ports to outgoing connections (/proc/sys/net/ipv4/ip_local_port_range):
a broker that was killed must find its port free when it comes back."""

# The parent-death signal is sent when the thread ends that made the child, so one thread makes all of them, and lives
# as long as Python does.
_STARTER: Final = ThreadPoolExecutor(1, thread_name_prefix="starts-processes")
_taken_ports: set[int] = set()


def start(command: list[str], *, output: IO[bytes] | int, **options: object) -> "subprocess.Popen[bytes]":
    """Starts a process in its own session; `output` receives what it prints."""

    def popen() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=options.pop("stderr", subprocess.STDOUT),
            stdin=options.pop("stdin", subprocess.DEVNULL),
            start_new_session=True,
            preexec_fn=_die_with_the_parent if hasattr(_LIBC, "prctl") else None,
            **options,
        )  # type: ignore[call-overload, no-any-return]

    process = _STARTER.submit(popen).result()
    atexit.register(kill, process)
    return process


def kill(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL to the process and to whatever it started, and waits."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """A port that nobody listens on and that was not given before."""
    for _ in range(1_000):
        port = random.choice(_PORTS)
        if port in _taken_ports:
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _taken_ports.add(port)
            return port
    raise RuntimeError("no free port found on this machine")


def _die_with_the_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
