"""A command whose clock is wrong: seconds in, by which it is ahead (below 0: behind); the command, unaware of it.

    python -m benchmarks.faults.shifted SECONDS audit …

The clock of this process alone: Postgres, the JVM and its Python workers have the machine's, as they might on
another machine. Our code asks `time.time_ns` and `datetime.now` what time it is; libraries ask `time.time`.
"""

import datetime
import sys
import time
from typing import Any

_true_time, _true_time_ns = time.time, time.time_ns
_TrueDatetime = datetime.datetime


def shift(seconds: int) -> None:
    """Moves the clock, for all that is imported from here on."""

    class Shifted(_TrueDatetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return _TrueDatetime.now(tz) + datetime.timedelta(seconds=seconds)

    time.time = lambda: _true_time() + seconds
    time.time_ns = lambda: _true_time_ns() + seconds * 1_000_000_000
    datetime.datetime = Shifted  # type: ignore[misc]


if __name__ == "__main__":
    shift(int(sys.argv.pop(1)))
    from tidegauge.cli import run

    run()
