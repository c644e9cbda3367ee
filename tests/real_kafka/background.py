"""Work that goes on in a thread of its own while a test does something else.

In: work, which looks at an event to learn that it shall end. Out: nothing, but an error of the work. An error surfaces
where its test looks next, since who waits for what dead work was to bring waits in vain.
"""

import threading
from collections.abc import Callable

from tests.real_kafka.patience import PATIENCE_S


class Background:
    """Begins with `start`; every wait for what it does asks `still_well`."""

    def __init__(self, work: Callable[[threading.Event], None], *, name: str) -> None:
        self._work = work
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watched, name=name, daemon=True)
        self._error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, timeout_s: float = 2 * PATIENCE_S) -> None:
        """Ends the work and waits for that; says what went wrong. What does not end in time is left behind."""
        self._ended.set()
        self._thread.join(timeout_s)
        self.still_well()
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} goes on after {timeout_s:g} s")

    def still_well(self) -> None:
        """Raises what ended the work."""
        if self._error is not None:
            raise self._error

    def _watched(self) -> None:
        try:
            self._work(self._ended)
        except BaseException as error:
            self._error = error
