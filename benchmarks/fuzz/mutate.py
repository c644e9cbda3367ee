"""What may happen to bytes, to lines and to JSON, chosen by a random generator that whoever calls has seeded.

In: a `Random`, something whole, and others of its kind to take pieces from. Out: the same, damaged. Nothing but the
generator decides, so that a seed makes the same damage on every machine.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

NUMBERS: Final = (
    0, 1, 2, 3, -1, -2, 7, 8, 15, 16, 49, 61, 127, 128, 255, 256, 1000, 4095, 4096, 32767, 32768, 65535, 65536, 1 << 20,
    (1 << 24) - 1, (1 << 31) - 1, 1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 32, (1 << 53) + 1, (1 << 62), (1 << 63) - 1,
    -(1 << 63), 1 << 63, (1 << 64) - 1,
)  # fmt: skip
"""What sizes, counts, ids and offsets break on: powers of two and what stands beside them."""
TEXTS: Final = (
    "", " ", "0", "-1", "\0", "a\0b", "\n", "..", "../..", "/", "é", "\U0001f600", "\udcff", "\ufffd", "\u202e", "'",
    '"', "{}", "null", "NaN", "x" * 300, "٣", "²", "1_0", "+1", "1e9", "0x10", "99999999999999999999", "<b>",
    "@all", "%s",
)  # fmt: skip
_LONGEST: Final = 1 << 18
"""Bytes of an input, at most: what is damaged again and again must not grow without end."""

Edit = Callable[[Random, bytearray, Sequence[bytes]], None]


def damaged(rng: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The bytes with one edit, or a few."""
    changed = bytearray(data)
    for _ in range(_few(rng)):
        rng.choice(_EDITS)(rng, changed, others)
    return bytes(changed[:_LONGEST])


def number_near(rng: Random, size: int) -> int:
    """A number that breaks things, or one beside a size."""
    return rng.choice(NUMBERS) if rng.random() < 0.7 else size + rng.randrange(-4, 5)


def packed_number(rng: Random, value: int, size: int) -> bytes:
    """A number cut to so many bytes, big-endian but for one in four."""
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "big" if rng.random() < 0.75 else "little")


def varint(value: int) -> bytes:
    """An unsigned varint of up to ten bytes, as the protocol writes one."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _few(rng: Random) -> int:
    count = 1
    while count < 8 and rng.random() < 0.45:
        count += 1
    return count


def _at(rng: Random, data: bytearray) -> int:
    """A place; the first bytes, where headers and counts are, more often than the rest."""
    if not data:
        return 0
    return rng.randrange(min(len(data), 64)) if rng.random() < 0.3 else rng.randrange(len(data))


def _span(rng: Random, data: bytearray) -> tuple[int, int]:
    start = _at(rng, data)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 12, 34, 46, 61, 200, len(data))))


def _flip_bits(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        if data:
            data[_at(rng, data)] ^= 1 << rng.randrange(8)


def _set_bytes(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    start, end = _span(rng, data)
    end = min(end, start + 16)
    data[start:end] = rng.randbytes(end - start)


def _set_number(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    size = rng.choice((1, 2, 4, 8))
    start = _at(rng, data)
    value = number_near(rng, len(data) - start)
    data[start : start + size] = packed_number(rng, value, size)[: max(len(data) - start, 0)]


def _set_varint(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    start = _at(rng, data)
    value = varint(number_near(rng, rng.choice((1, 2)) * (len(data) - start)))
    data[start : start + rng.choice((1, 1, len(value)))] = value


def _cut(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _lengthen(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    size = rng.choice((1, 3, 8, 64, 4096))
    data += bytes(size) if rng.random() < 0.5 else rng.randbytes(size)


def _delete(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    start, end = _span(rng, data)
    del data[start:end]


def _repeat(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    start, end = _span(rng, data)
    at = _at(rng, data)
    data[at:at] = data[start:end] * (1 if len(data) > 4096 else rng.choice((1, 1, 2, 20)))


def _exchange(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Two spans of one size change places, as pages of a disk do."""
    size = rng.choice((1, 4, 8, 46, 61, 512))
    if len(data) >= 2 * size:
        one, other = rng.randrange(len(data) - size + 1), rng.randrange(len(data) - size + 1)
        data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]


def _zero(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    start, end = _span(rng, data)
    data[start:end] = bytes(end - start)


def _splice(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """A piece of another file of this kind comes in."""
    if others:
        other = rng.choice(others)
        start = rng.randrange(len(other) + 1)
        at, end = _span(rng, data)
        data[at : rng.choice((at, end))] = other[start : start + rng.choice((8, 61, 512, len(other)))]


_EDITS: Final[tuple[Edit, ...]] = (
    _flip_bits, _flip_bits, _set_bytes, _set_number, _set_number, _set_number, _set_varint, _set_varint, _cut,
    _lengthen, _delete, _repeat, _exchange, _zero, _splice,
)  # fmt: skip


def damaged_lines(rng: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """A file of lines: words become other words, lines go, come twice or change places; or its bytes are damaged."""
    if rng.random() < 0.3:
        return damaged(rng, data, others)
    lines = data.split(b"\n")
    for _ in range(_few(rng)):
        at = rng.randrange(len(lines))
        match rng.randrange(5):
            case 0:
                words = lines[at].replace(b"=", b" = ").split() or [b""]
                words[rng.randrange(len(words))] = _word(rng)
                lines[at] = b" ".join(words)
            case 1:
                lines.insert(at, lines[rng.randrange(len(lines))])
            case 2 if len(lines) > 1:
                del lines[at]
            case 3:
                other = rng.choice(others).split(b"\n") if others else lines
                lines[at] = rng.choice(other)
            case _:
                lines[at] = damaged(rng, lines[at])
    return rng.choice((b"\n", b"\n", b"\n", b"\r\n", b"\r")).join(lines)[:_LONGEST]


def _word(rng: Random) -> bytes:
    if rng.random() < 0.6:
        return str(rng.choice(NUMBERS)).encode()
    return rng.choice(TEXTS).encode("utf-8", "surrogatepass")


def damaged_json(rng: Random, value: Any) -> Any:
    """A value of JSON with some of its parts changed for others, dropped, doubled or wrapped. Changes `value`."""
    for _ in range(_few(rng)):
        value = _changed_part(rng, value)
    return value


def _changed_part(rng: Random, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.08:
        return _other_value(rng, value)
    key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    if rng.random() < 0.75:
        value[key] = _changed_part(rng, value[key])
    elif rng.random() < 0.5:
        del value[key]
    elif isinstance(value, list):
        value.insert(rng.randrange(len(value) + 1), value[key])
    else:
        value[rng.choice([*value, *TEXTS])] = value[key]
    return value


def _other_value(rng: Random, value: Any) -> Any:
    match rng.randrange(7):
        case 0:
            return rng.choice((None, True, False, 0.5, 1e308, float("inf"), float("nan"), [], {}))
        case 1:
            return rng.choice(TEXTS)
        case 2:
            return [value]
        case 3:
            return {rng.choice(TEXTS): value}
        case 4 if isinstance(value, str):
            return value + rng.choice(TEXTS)
        case 5 if isinstance(value, int):
            return value + rng.choice((-1, 1))
        case _:
            return rng.choice(NUMBERS)
