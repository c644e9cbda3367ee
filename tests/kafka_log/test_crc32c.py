"""The checksum: its check value, and what a missing C library says."""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka_log.writing import batch
from tidegauge.kafka_log import crc32c as module
from tidegauge.kafka_log.crc32c import LIBRARY_PATH, crc32c
from tidegauge.kafka_log.scan import scan_buffer


def test_the_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(b"")) == 0


@given(data=st.binary(max_size=300))
def test_the_library_for_compiled_code_computes_the_same(data: bytes) -> None:
    value = ctypes.CDLL(LIBRARY_PATH).crc32c_value
    value.restype, value.argtypes = ctypes.c_uint32, (ctypes.c_char_p, ctypes.c_size_t)
    assert value(data, len(data)) == crc32c(data)
    rows, _ = scan_buffer(batch(0, data, 1))
    assert np.all(rows["crc_valid"] == 1)


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_candidates", lambda: iter(["/nowhere/libcrc32c.so"]))
    with pytest.raises(ImportError, match=r"google-crc32c wheel.*reinstall.*Tried: /nowhere/libcrc32c.so"):
        module._found()
    monkeypatch.setattr(module, "_candidates", lambda: iter([]))
    with pytest.raises(ImportError, match="no file of that name was found"):
        module._found()
