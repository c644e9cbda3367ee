"""Signals that would end a command, while something is done that must not be left half begun or half cleared up."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[Sequence[int]]:
    """A signal waits until the block is done, and is heard then, by whoever heard it before, whatever the block did. In
    the main thread alone, for no other hears signals. A long block sees in what it is given whether one waits.

    Handlers are exchanged, not signals blocked: another thread would take a blocked one, and children inherit a mask.
    """
    if threading.current_thread() is not threading.main_thread():
        yield ()
        return
    heard: list[int] = []
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    waiting = {number: handler for number, handler in found.items() if callable(handler)}
    for number in waiting:
        signal.signal(number, lambda number, frame: heard.append(number))
    try:
        yield heard
    finally:
        for number, handler in found.items():
            if handler is not None:  # Else it is none of Python's.
                signal.signal(number, handler)
        if heard:
            signal.raise_signal(heard[0])
