"""Big-endian numbers at an address, for compiled code.

In: an address. Out: the number there. The caller has made sure that the bytes are its own.
"""

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_intrinsic: Any = intrinsic


def big_endian_load(bits: int, result: Any) -> Any:
    """Make a compiled function that reads one big-endian number of `bits` bits at any address, aligned or not."""

    def load(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = ir.IntType(bits)
            value = builder.load(builder.inttoptr(arguments[0], number.as_pointer()), align=1)
            if bits > 8 and sys.byteorder == "little":
                value = builder.bswap(value)
            return value

        return result(types.intp), generate

    return _intrinsic(load)


u8 = big_endian_load(8, types.uint8)
i8 = big_endian_load(8, types.int8)
i16 = big_endian_load(16, types.int16)
i32 = big_endian_load(32, types.int32)
u32 = big_endian_load(32, types.uint32)
i64 = big_endian_load(64, types.int64)
