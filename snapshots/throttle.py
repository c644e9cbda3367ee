"""A rate limit: a bucket that fills with time and is emptied by bytes.

In: bytes just read, by any number of threads. Out: a pause that keeps their mean at or below the limit. No more than
one second's worth is ever read at once, and a limit of None never waits.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

_SAVED_UP_S: Final = 0.5
"""Time in which less was read than might have been is made up for, up to this."""


class Throttle:
    """Lets at most `bytes_per_second` through. `clock` is monotonic, in seconds."""

    def __init__(
        self,
        bytes_per_second: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate, self._clock, self._sleep = bytes_per_second, clock, sleep
        self._free_at = clock()
        self._lock = threading.Lock()

    @property
    def chunk_bytes(self) -> int:
        """How much to read at once: a tenth of a second's worth, at most a mebibyte."""
        return 1 << 20 if self._rate is None else max(4096, min(1 << 20, int(self._rate / 10) & ~4095))

    def take(self, size: int) -> None:
        """Accounts for bytes that were read, and waits until the next may be."""
        if self._rate is None:
            return
        with self._lock:
            now = self._clock()
            free_at = self._free_at = max(self._free_at, now - _SAVED_UP_S) + size / self._rate
        if free_at > now:
            self._sleep(free_at - now)
