"""CRC-32C, the checksum of Kafka's batches and producer snapshots, as compiled code can call it.

In: an address and a length. Out: the checksum. The work is done by the C library that comes inside the google-crc32c
wheel, which uses the processor's own instruction. The rule that must hold: a compiled kernel never holds the library's
address, only the symbol's name, because addresses change between processes and numba's on-disk cache outlives them.
Importing this module therefore gives the name its address in this process, and must come before a kernel is loaded.
"""

import ctypes
import importlib.metadata
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import google_crc32c

from tidegauge.kafka_log.kernels import COMPILED

_SYMBOL = "tidegauge_crc32c_value"
_CHECK_INPUT, _CHECK_VALUE = b"123456789", 0xE3069283
"""The check value of CRC-32C (Castagnoli) from the catalogue of CRC algorithms."""
_OF_THE_SYSTEM: Final = ("/usr/lib64", "/usr/lib", "/lib64", "/lib", "/usr/local/lib", "/opt/homebrew/lib")


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C of a few bytes at hand, as an unsigned number."""
    return int(google_crc32c.value(bytes(data)))


def shifted(crc: int, zero_bytes: int) -> int:
    """What becomes of a difference of two checksums when `zero_bytes` more bytes, the same in both, come behind.

    The checksum is linear: crc(a + c) ^ crc(b + c) = shifted(crc(a) ^ crc(b), len(c)), where a and b are of one length.
    """
    factor, square, left = _ONE, _X8, zero_bytes
    while left:
        if left & 1:
            factor = _product(factor, square)
        square = _product(square, square)
        left >>= 1
    return _product(factor, crc)


_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, the lowest bit for the highest power, as are the numbers below."""
_ONE = 1 << 31
_X8 = 1 << 23


def _product(one: int, other: int) -> int:
    """Two polynomials over GF(2), multiplied, modulo the checksum's."""
    product = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            product ^= other
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product


def _candidates() -> Iterator[str]:
    """Name the places where the library can be: inside the wheel as its RECORD says, beside it, then the system's.

    The system's are looked for by name: `ctypes.util.find_library` runs a compiler and a linker, which read what lies
    in the directory that the process stands in, and that may be a copy that somebody else made.
    """
    package = Path(google_crc32c.__file__).parent
    try:
        recorded = importlib.metadata.files("google-crc32c") or []
    except importlib.metadata.PackageNotFoundError:
        recorded = []
    for file in recorded:
        if file.name.removeprefix("lib").startswith("crc32c") and {".so", ".dylib", ".dll"} & set(file.suffixes):
            yield str(file.locate())
    for folder, pattern in (
        (package.parent / "google_crc32c.libs", "libcrc32c*.so*"),
        (package / ".dylibs", "libcrc32c*.dylib"),
        (package / "extra-dll", "crc32c*.dll"),
    ):
        yield from sorted(map(str, folder.glob(pattern)))
    several = sysconfig.get_config_var("MULTIARCH")  # Debian's x86_64-linux-gnu; None elsewhere
    for system in (*((f"/usr/lib/{several}",) if several else ()), *_OF_THE_SYSTEM):
        yield from sorted(map(str, Path(system).glob("libcrc32c.*")))


def _found() -> str:
    """The path of a library that serves, tried."""
    tried = []
    for path in dict.fromkeys(_candidates()):
        try:
            function = ctypes.CDLL(path).crc32c_value
        except (OSError, AttributeError) as error:
            tried.append(f"{path}: {error}")
            continue
        function.restype, function.argtypes = ctypes.c_uint32, (ctypes.c_char_p, ctypes.c_size_t)
        if function(_CHECK_INPUT, len(_CHECK_INPUT)) != _CHECK_VALUE:
            tried.append(f"{path}: wrong result for the check input")
            continue
        return path
    raise ImportError(
        "the C library libcrc32c (function crc32c_value) was not found. It comes inside the google-crc32c wheel; "
        f"google-crc32c is installed at {Path(google_crc32c.__file__).parent}, "
        "perhaps built without its library: reinstall it from a wheel, or install the system's libcrc32c. "
        f"Tried: {'; '.join(tried) or 'no file of that name was found'}"
    )


LIBRARY_PATH = _found()
"""Path of the C library in use."""


def _for_kernels() -> Any:
    """The library's function as kernels call it; this gives the symbol of compiled ones its address in this process."""
    function = ctypes.CDLL(LIBRARY_PATH).crc32c_value
    if not COMPILED:
        function.restype, function.argtypes = ctypes.c_uint32, (ctypes.c_void_p, ctypes.c_size_t)
        return function
    import llvmlite.binding
    from numba import types

    llvmlite.binding.add_symbol(_SYMBOL, ctypes.cast(function, ctypes.c_void_p).value)
    return types.ExternalFunction(_SYMBOL, types.uint32(types.uintp, types.uintp))


crc32c_at: Any = _for_kernels()
"""In a kernel: `crc32c_at(address, size_bytes)`. The caller answers for the memory."""
