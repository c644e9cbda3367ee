"""Processes that tests start, and end."""

import subprocess


def ended(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """Ends what a test started."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
