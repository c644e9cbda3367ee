"""The step of the search for the next batch: over how many bytes, at least one, it may pass.

In: an address where no batch begins, and where the buffer ends. Out: the next address at which one might, and whether
all bytes before it are zero. Compiled, that is the next byte. Plain Python takes microseconds to look at one, so there
numpy first leaves out, many at a time, those at which no header of any format has its magic and its length.
"""

import ctypes
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.kernels import COMPILED, i32, kernel, u8

_LENGTH: Final = layout.BATCH_LENGTH_AT
_MAGIC: Final = layout.MAGIC_AT
_RECORDS: Final = layout.RECORDS_AT
_FEW: Final = 64
_MANY: Final = 1 << 16


def _next_byte(at: Any, stop: Any) -> Any:
    return at + 1, u8(at) == 0


def _next_likely(at: int, stop: int) -> tuple[int, bool]:
    """Looks at more bytes at a time as long as it finds nothing, so that its work grows with the bytes that it passes.
    Where less than a header is left, who searches has to decide: that place is always the next one.
    """
    last, many, all_zero = stop - _RECORDS + 1, _FEW, True
    while True:
        all_zero = all_zero and u8(at) == 0
        at += 1
        if at >= last or (u8(at + _MAGIC) <= layout.CURRENT_MAGIC and i32(at + _LENGTH) > 0):
            return at, all_zero
        places = min(many, last - at)
        many = min(2 * many, _MANY)
        data = np.ctypeslib.as_array((ctypes.c_uint8 * (places + _MAGIC)).from_address(at))
        likely = _may_begin(data, places)
        passed = int(likely.argmax()) if likely.any() else places - 1
        all_zero = all_zero and not data[:passed].any()
        at += passed
        if likely[passed]:
            return at, all_zero


def _may_begin(data: NDArray[np.uint8], places: int) -> NDArray[np.bool_]:
    """At which of the first places there is a magic that a format has, and a length above zero."""
    first, *others = (data[_LENGTH + i : _LENGTH + i + places] for i in range(4))
    above_zero = (first < 0x80) & ((first | others[0] | others[1] | others[2]) != 0)
    return np.asarray((data[_MAGIC : _MAGIC + places] <= layout.CURRENT_MAGIC) & above_zero)


next_place: Any = kernel(_next_byte) if COMPILED else _next_likely
"""In a kernel: `next_place(at, stop)`."""
