"""How far long work is: on a terminal a line that is rewritten, elsewhere a line each half minute, or nothing at all.

In: what is done, and of how much. Out: text on standard error. Whoever works says only what was done (`work`), and
whoever owns the standard error says once how it is shown (`show`); nothing is shown before that. A line is never wider
than its terminal, and work that is over soon is not spoken of where lines stay.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TextIO, TypeVar

from tidegauge import log

LINE_EVERY_S: Final = 30.0
_TELLING_AFTER_S: Final = 3.0
"""Before that, what was done says little about how long the rest takes."""
_BAR_CELLS: Final = 16

T = TypeVar("T")


class Advance(Protocol):
    """Who hears of what was done."""

    def __call__(self, parts: int, size_bytes: int = 0) -> None:
        """So many parts more are done, and so many bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Something long: what it is, how many parts and bytes it has, what its parts are called. Zero: not known."""

    what: str
    unit: str
    parts: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How much of it is done, after how many seconds."""

    parts: int = 0
    size_bytes: int = 0
    seconds: float = 0.0

    def share_of(self, work: Work) -> float | None:
        """From 0 to 1: by bytes where these are known, since parts differ in size."""
        done, of = (self.size_bytes, work.size_bytes) if work.size_bytes else (self.parts, work.parts)
        return min(1.0, done / of) if of else None


def in_words(work: Work, done: Done) -> str:
    """`index: 12 of 300 segments, 1.2 of 4.8 GB, 3 min left`."""
    told = []
    if work.parts or done.parts:
        told.append(f"{done.parts:,}{f' of {work.parts:,}' if work.parts else ''} {work.unit}")
    if work.size_bytes:
        told.append(_of_bytes(done.size_bytes, work.size_bytes))
    left = seconds_left(work, done)
    if left is not None:
        told.append(f"{_duration(left)} left")
    return f"{work.what}: {', '.join(told)}" if told else work.what


def seconds_left(work: Work, done: Done) -> float | None:
    """If the rest goes as what is done went; None where that is nothing to go by."""
    share = done.share_of(work)
    if not share or done.seconds < _TELLING_AFTER_S:
        return None
    return done.seconds * (1 - share) / share


def _of_bytes(done: int, total: int) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9)):
        if total >= scale:
            return f"{done / scale:.1f} of {total / scale:.1f} {unit}"
    return f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Display(Protocol):
    """Where work is shown."""

    def shown(self, work: Work) -> AbstractContextManager[Callable[[Done], None]]:
        """While the block runs, this work; what is given is to be called with how much is done by now."""


class Lines:
    """A line each half minute, for logs. `clock` is monotonic, in seconds."""

    def __init__(self, say: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self.clock = say, clock

    @contextmanager
    def shown(self, work: Work) -> Iterator[Callable[[Done], None]]:
        """See `Display`."""
        said = self.clock()

        def tell(done: Done) -> None:
            nonlocal said
            if self.clock() - said >= LINE_EVERY_S:
                said = self.clock()
                self._say(in_words(work, done))

        yield tell


class OneLine:
    """A line of a terminal that is rewritten, and gone when the work is over, however it ends."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    @contextmanager
    def shown(self, work: Work) -> Iterator[Callable[[Done], None]]:
        """See `Display`."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        # Who prints meanwhile finds the line below what they print.
        words = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
        columns = (words, BarColumn(bar_width=_BAR_CELLS))
        console = Console(file=self._file, highlight=False)
        with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
            task = bar.add_task(in_words(work, Done()), total=1.0 if work.parts or work.size_bytes else None)
            yield lambda done: bar.update(task, description=in_words(work, done), completed=done.share_of(work) or 0.0)


_display: Display | None = None


def show(display: Display | None) -> None:
    """From now on work is shown so; None: not at all."""
    global _display
    _display = display


def display_for(file: TextIO | None = None) -> Display:
    """What suits a standard error: one line of a terminal that can rewrite it, else lines; these where a program reads
    it.
    """
    there = file or sys.stderr
    rewrites = not log.as_json() and there.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return (
        OneLine(there) if rewrites else Lines(lambda text: print(log.line(text), file=file or sys.stderr, flush=True))
    )


def is_shown() -> bool:
    """Whether anybody sees it: what is dear to find out need not be found out for nobody."""
    return _display is not None


@contextmanager
def working(
    what: str,
    unit: str,
    *,
    parts: int = 0,
    size_bytes: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Advance]:
    """Shows work while the block does it; what is given is called with each part that is done."""
    if _display is None:
        yield lambda parts, size_bytes=0: None
        return
    began = clock()
    of_parts = of_bytes = 0
    with _display.shown(Work(what=what, unit=unit, parts=parts, size_bytes=size_bytes)) as tell:

        def advance(parts: int, size_bytes: int = 0) -> None:
            nonlocal of_parts, of_bytes
            of_parts, of_bytes = of_parts + parts, of_bytes + size_bytes
            tell(Done(parts=of_parts, size_bytes=of_bytes, seconds=clock() - began))

        yield advance


def each(advance: Advance, parts: Iterable[T]) -> Iterator[T]:
    """The parts one by one, each of which is done when the next is asked for."""
    for part in parts:
        yield part
        advance(1)
