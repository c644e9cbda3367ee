"""A stream of chance of its own for each purpose, from a seed.

In: seed, purpose. Out: numbers, choices. The rule that must hold: the same seed and purpose give the same stream in
every process and every version of Python, and what one stream gives does not move another one.
"""

from collections.abc import Sequence
from typing import TypeVar

from tidegauge.sim_engine.dice import draw

Some = TypeVar("Some")


class Chance:
    """A stream. Each call takes the next number."""

    __slots__ = ("_purpose", "_seed", "_taken")

    def __init__(self, seed: int, purpose: str) -> None:
        self._seed, self._purpose, self._taken = seed, purpose, 0

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        self._taken += 1
        return draw(self._seed, self._taken, self._purpose) % limit

    def between(self, first: int, last: int) -> int:
        """A number from `first` to `last`, both included."""
        return first + self.below(last - first + 1)

    def percent(self, share: int) -> bool:
        """True in so many of a hundred cases."""
        return self.below(100) < share

    def one_of(self, some: Sequence[Some]) -> Some:
        """One of them."""
        return some[self.below(len(some))]

    def some_of(self, some: Sequence[Some], count: int) -> list[Some]:
        """So many of them, none twice, in the order of chance."""
        left, found = list(some), list[Some]()
        while left and len(found) < count:
            found.append(left.pop(self.below(len(left))))
        return found
