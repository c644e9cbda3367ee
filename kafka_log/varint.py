"""Variable-length numbers: seven bits a byte, the lowest first, the top bit says that more follow.

In: bytes and an index. Out: the number and the index after it. Records use the signed form (zigzag: 0, -1, 1, -2, …
become 0, 1, 2, 3, …), Kafka's flexible message versions the unsigned one (KIP-482). The rule that must hold: never read
past the end, never more bytes than the widest number takes; where one is cut short or too long, the index is `BROKEN`.
"""

from typing import Final

BROKEN: Final = -1
"""Index that comes back when there is no number; it never is one of the input's."""

INT_BYTES: Final = 5
LONG_BYTES: Final = 10


def read_unsigned(data: bytes | memoryview, at: int, max_bytes: int = INT_BYTES) -> tuple[int, int]:
    """Read an unsigned number at an index; return it and the index after it, or (0, BROKEN)."""
    value = 0
    for i in range(max_bytes):
        if not 0 <= at + i < len(data):
            return 0, BROKEN
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            # The last byte has more bits than a 32- or 64-bit number has room for.
            return (value, at + i + 1) if value >> (32 if max_bytes == INT_BYTES else 64) == 0 else (0, BROKEN)
    return 0, BROKEN


def read_signed(data: bytes | memoryview, at: int, max_bytes: int = INT_BYTES) -> tuple[int, int]:
    """Read a zigzag number at an index; return it and the index after it, or (0, BROKEN)."""
    value, after = read_unsigned(data, at, max_bytes)
    return (value >> 1) ^ -(value & 1), after


def write_unsigned(value: int) -> bytes:
    """Encode a number that is not negative."""
    assert value >= 0
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_signed(value: int) -> bytes:
    """Encode a signed number of up to 64 bits in zigzag form."""
    return write_unsigned((value << 1) ^ (value >> 63))
