"""Numbers as a relation has room for them, where damage makes one that it has none for.

In: a whole number. Out: the same, or the nearest one that there is room for. A damaged base offset may be any number
from -2^63 up, so what lies between two offsets may need a 65th bit. The rule that must hold: what is written instead
keeps the order of any two numbers, so that it raises no alarm that the true one would not.
"""

from typing import Final

LARGEST: Final = (1 << 63) - 1


def within(number: int, *, bits: int = 64) -> int:
    """The nearest number of so many bits, one of which is the sign's."""
    bound = 1 << (bits - 1)
    return max(-bound, min(number, bound - 1))
