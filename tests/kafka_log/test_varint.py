"""Variable-length numbers: round trips, Kafka's own bytes, damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.kafka_log.varint import BROKEN, LONG_BYTES, read_signed, read_unsigned, write_signed, write_unsigned


@given(value=st.integers(-(1 << 31), (1 << 31) - 1), before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_signed_numbers_come_back(value: int, before: bytes, after: bytes) -> None:
    written = write_signed(value)
    assert read_signed(before + written + after, len(before)) == (value, len(before) + len(written))


@given(value=st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_long_numbers_come_back(value: int) -> None:
    written = write_signed(value)
    assert len(written) <= LONG_BYTES
    assert read_signed(written, 0, LONG_BYTES) == (value, len(written))


@given(value=st.integers(0, (1 << 32) - 1))
def test_unsigned_numbers_come_back(value: int) -> None:
    written = write_unsigned(value)
    assert read_unsigned(written, 0) == (value, len(written))


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (2147483647, "feffffff0f")],
)
def test_the_bytes_are_those_that_kafka_writes(value: int, written: str) -> None:
    assert write_signed(value) == bytes.fromhex(written)
    assert read_signed(bytes.fromhex(written), 0) == (value, len(written) // 2)


@pytest.mark.parametrize("broken", [b"", b"\x80", b"\xff" * 4, b"\xff" * 5 + b"\1", b"\xff\xff\xff\xff\x1f"])
def test_a_number_cut_short_or_too_long_is_broken(broken: bytes) -> None:
    assert read_unsigned(broken, 0)[1] == BROKEN
    assert read_signed(broken, 0)[1] == BROKEN


def test_an_index_outside_is_broken() -> None:
    assert read_unsigned(b"\1", 1)[1] == BROKEN
    assert read_unsigned(b"\1", BROKEN)[1] == BROKEN


@given(data=st.binary(max_size=12), at=st.integers(0, 12))
def test_any_bytes_are_read_without_an_exception(data: bytes, at: int) -> None:
    _, after = read_unsigned(data, at, LONG_BYTES)
    assert after == BROKEN or at < after <= len(data)
