"""What kernels are made of: compiled by numba where that is installed, and plain Python where it is not.

In: a function of numbers, of addresses and of arrays. Out: the same, compiled or as it stands; its results are equal.
`tidegauge` brings numba. `tidegauge-capture`, which is for brokers' machines, does not: numba and its compiler are
200 MB, and a capture scans no more than headers. What is plain takes seven times as long for a sound log, and forty
times for a badly damaged one (docs/decisions/0088).
"""

import ctypes
import importlib.util
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np

_F = TypeVar("_F", bound=Callable[..., Any])

COMPILED: Final = importlib.util.find_spec("numba") is not None
"""Whether numba is installed. One that is, and cannot be imported, is an error and no reason to be slow."""

kernel: Callable[[_F], _F]
"""Makes a function a kernel."""
int64: Any
"""In a kernel: a number as a signed one of 64 bits."""
uint32: Any
"""In a kernel: a number as an unsigned one of 32 bits, which it is."""
u8: Any
i8: Any
i16: Any
i32: Any
u32: Any
i64: Any
"""In a kernel: the big-endian number at an address. The caller answers for the memory."""


def plain_load(size: int, *, signed: bool) -> Callable[[int], int]:
    """What reads the big-endian number of so many bytes at an address, in plain Python."""

    def load(address: int) -> int:
        return int.from_bytes(ctypes.string_at(address, size), "big", signed=signed)

    return load


def _as_it_stands(function: _F) -> _F:
    return function


if COMPILED:
    from numba import njit

    from tidegauge.kafka_log import compiled_loads

    kernel = cast(Any, njit(cache=True, nogil=True, error_model="numpy"))
    int64, uint32 = np.int64, np.uint32
    u8, i8, i16 = compiled_loads.u8, compiled_loads.i8, compiled_loads.i16
    i32, u32, i64 = compiled_loads.i32, compiled_loads.u32, compiled_loads.i64
else:
    kernel = _as_it_stands
    int64 = uint32 = int
    u8, i8, i16 = plain_load(1, signed=False), plain_load(1, signed=True), plain_load(2, signed=True)
    i32, u32, i64 = plain_load(4, signed=True), plain_load(4, signed=False), plain_load(8, signed=True)
