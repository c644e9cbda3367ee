"""Processes that tests start, and end."""

import subprocess
import time
from pathlib import Path

_PATIENCE_S = 60


def ended(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """Ends what a test started."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def environment_of(pid: int) -> dict[str, str]:
    """What a process was started with, as everybody sees it who may. The kernel shows a moment after a program's start
    what it was told; to a test that looks earlier it were told nothing.
    """
    until = time.monotonic() + _PATIENCE_S
    while not (told := Path(f"/proc/{pid}/environ").read_bytes()):
        assert time.monotonic() < until, f"process {pid} shows no environment"
        time.sleep(0.01)
    return dict(word.split("=", 1) for word in told.decode().split("\0") if "=" in word)
