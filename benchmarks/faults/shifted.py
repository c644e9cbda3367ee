"""A command whose clock is wrong, unaware of it.

    env LD_PRELOAD=… FAKETIME=… python -m benchmarks.faults.shifted audit …

libfaketime moves the clock of this process alone, for Python and for every library in it: what it starts (Postgres, the
JVM, Spark's workers) has the machine's clock, as it might on another machine.
"""

import os
import select
import time
from typing import Final

from tidegauge.cli.start import run

LIBRARIES: Final = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
)


def shifting(library: str, seconds: int) -> tuple[str, ...]:
    """The command that runs another one with a clock that is ahead by some seconds (below 0: behind)."""
    variables = {"LD_PRELOAD": library, "FAKETIME": f"{seconds:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                 "NO_FAKE_STAT": "1"}  # fmt: skip
    return ("env", *(f"{name}={value}" for name, value in variables.items()))


def slept(seconds: float) -> None:
    """`time.sleep`: libfaketime 0.9.10 refuses to wait for an instant of the monotonic clock, as Python's own does."""
    select.select([], [], [], max(0.0, seconds))


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD")  # The other variables are read again and again, and mean nothing without it.
    time.sleep = slept  # type: ignore[assignment]
    run()
