"""Where a file's bytes come from: a function that fills a buffer and, where the file has holes, one that passes them.

In: the two functions. Out: the same, counted. What is passed over reads as zeros, so that who never passes anything
reads the same bytes.
"""

from collections.abc import Callable

ReadInto = Callable[[memoryview], int]
"""`io.RawIOBase.readinto`: fills the given memory as far as it likes; returns the bytes, 0 at the end of the file."""
PassZeros = Callable[[], int]
"""Passes over the zeros that come next and that nobody ever wrote; returns how many, 0 where none are known of."""


def no_zeros() -> int:
    """A source whose bytes all have to be read."""
    return 0


class Counted:
    """A source that knows how much it gave."""

    def __init__(self, readinto: ReadInto, pass_zeros: PassZeros) -> None:
        self._readinto = readinto
        self._pass_zeros = pass_zeros
        self.given = 0

    def readinto(self, target: memoryview) -> int:
        """The next bytes."""
        size = self._readinto(target)
        self.given += size
        return size

    def pass_zeros(self) -> int:
        """The next zeros, not read."""
        size = self._pass_zeros()
        self.given += size
        return size
