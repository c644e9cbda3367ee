"""How fast the scan kernel is, against the least that any reader must do: read the file and checksum its bytes once.

In: a seed. Out: a table on standard output; the exit status is 1 when our kernel is below the bar. The logs are written
once into a cache directory: one of small batches (161 bytes, one record) and one of large ones (16 KB, 130 records),
valid message format 2 throughout. Everything is measured in this one process, on one core, with a warm page cache.

The peers read the same file with the two usual libraries, google-crc32c and fastcrc, each in two ways: the whole file
with one `read()`, and chunk by chunk with `readinto` of a reused buffer (the size that suits the peer best). The bar is
against the `read()` way of the quicker library; the chunked way, which spares the memory, is printed beside it.

    python benchmarks/scan.py --size-mb 500 --runs 7
"""

import argparse
import ctypes
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
from fastcrc import crc32 as fastcrc32
from numba import njit
from numpy.typing import NDArray

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.crc32c import LIBRARY_PATH, crc32c_at
from tidegauge.kafka_log.scan import BLOCK_ROWS, BUFFER_BYTES, scan_batches

BAR = 0.85
"""Share of the peers' speed that the kernel must reach."""
PEER_CHUNK_BYTES = 2 << 20
"""The chunk that suits the peers best; smaller ones are slower by up to half."""
SEED = 20_261_121

SHAPES = {"small": (1, 91), "large": (130, 117)}
"""Records a batch and bytes a value: batches of 161 bytes and of 16.4 KB."""

HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("partition_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)


def zigzag_varint(value: int) -> bytes:
    """Encode a signed number as Kafka's records do."""
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def template(records: int, value_bytes: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Build the records part of one batch: its bytes, and which of them are values, to be filled at random."""
    out, is_value = bytearray(), list[bool]()
    for delta in range(records):
        head = b"\0" + zigzag_varint(0) + zigzag_varint(delta) + zigzag_varint(-1) + zigzag_varint(value_bytes)
        head = zigzag_varint(len(head) + value_bytes + 1) + head
        out += head + bytes(value_bytes) + zigzag_varint(0)
        is_value += [False] * len(head) + [True] * value_bytes + [False]
    return np.frombuffer(bytes(out), np.uint8), np.array(is_value)


@njit(cache=True)
def checksums(address: int, size: int, count: int, crcs: NDArray[np.uint32]) -> None:
    """Compute the checksums of `count` batches of one size."""
    for i in range(count):
        crcs[i] = crc32c_at(address + i * size + layout.ATTRIBUTES_AT, size - layout.ATTRIBUTES_AT)


def write_log(path: Path, size_bytes: int, records: int, value_bytes: int) -> None:
    """Write one segment of at least `size_bytes`, the same bytes for the same arguments."""
    body, is_value = template(records, value_bytes)
    size = layout.HEADER_BYTES + len(body)
    values = layout.HEADER_BYTES + np.flatnonzero(is_value)
    random = np.random.default_rng(SEED)
    batches, written = -(-size_bytes // size), 0
    with path.open("wb") as log:
        while written < batches:
            count = min(batches - written, max(1, (8 << 20) // size))
            chunk = np.empty((count, size), np.uint8)
            chunk[:, layout.HEADER_BYTES :] = body
            chunk[:, values] = random.integers(0, 256, (count, len(values)), np.uint8)
            head = chunk[:, : layout.HEADER_BYTES].view(HEADER)[:, 0]
            index = np.arange(written, written + count)
            head["base_offset"] = index * records
            head["batch_length"] = size - layout.LOG_OVERHEAD
            head["partition_leader_epoch"], head["magic"], head["attributes"] = 3, layout.CURRENT_MAGIC, 0
            head["last_offset_delta"], head["record_count"] = records - 1, records
            head["base_timestamp"] = head["max_timestamp"] = 1_795_000_000_000 + index
            head["producer_id"], head["producer_epoch"] = 7, 0
            head["base_sequence"] = (index * records) % (1 << 31)
            crcs = np.empty(count, np.uint32)
            checksums(chunk.ctypes.data, size, count, crcs)
            head["crc"] = crcs
            log.write(chunk.tobytes())
            written += count


def cached_log(directory: Path, name: str, size_mb: int) -> Path:
    """Return the log of that shape, written if it is not in the cache yet."""
    path = directory / f"{name}-{size_mb}mb-{SEED}.log"
    if not path.exists():
        partial = path.with_suffix(f".{os.getpid()}.partial")
        write_log(partial, size_mb * 1_000_000, *SHAPES[name])
        partial.replace(path)
    return path


def kernel(path: Path) -> int:
    """Scan the log with our kernel; return the number of batches, or -1 if one is damaged."""
    batches = 0
    with path.open("rb", buffering=0) as log:
        for block in scan_batches(log.readinto):
            batches += len(block.headers)
            if block.corruptions:
                return -1
    return batches


def google_whole(path: Path) -> int:
    """Read the file at once, one CRC-32C over it by google-crc32c."""
    with path.open("rb", buffering=0) as log:
        return int(google_crc32c.value(log.read()))


def fastcrc_whole(path: Path) -> int:
    """Read the file at once, one CRC-32C over it by fastcrc."""
    with path.open("rb", buffering=0) as log:
        return int(fastcrc32.iscsi(log.read()))


def google_chunks(path: Path) -> int:
    """Read the file into one reused buffer, one CRC-32C over it by google-crc32c's C library.

    The wheel's Python function takes nothing but `bytes`; calling its library spares the peer the copies.
    """
    extend = ctypes.CDLL(LIBRARY_PATH).crc32c_extend
    extend.restype, extend.argtypes = ctypes.c_uint32, (ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)
    buffer, crc = np.empty(PEER_CHUNK_BYTES, np.uint8), 0
    with path.open("rb", buffering=0) as log:
        while size := log.readinto(buffer.data):
            crc = extend(crc, buffer.ctypes.data, size)
    return int(crc)


def fastcrc_chunks(path: Path) -> int:
    """Read the file into one reused buffer, one CRC-32C over it by fastcrc."""
    view, crc = memoryview(bytearray(PEER_CHUNK_BYTES)), 0
    with path.open("rb", buffering=0) as log:
        while size := log.readinto(view):
            crc = fastcrc32.iscsi(view[:size], crc)
    return crc


CONTENDERS: dict[str, Callable[[Path], int]] = {
    "kernel": kernel,
    "read() + google-crc32c": google_whole,
    "read() + fastcrc": fastcrc_whole,
    "readinto + google-crc32c": google_chunks,
    "readinto + fastcrc": fastcrc_chunks,
}
BAR_PEERS = ("read() + google-crc32c", "read() + fastcrc")


def measure(path: Path, runs: int) -> dict[str, float]:
    """Return each contender's median time in seconds; they take turns, so that a slow moment hits all of them."""
    for contender in CONTENDERS.values():  # warms the page cache and compiles
        contender(path)
    times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(runs):
        for name, contender in CONTENDERS.items():
            begin = time.perf_counter()
            contender(path)
            times[name].append(time.perf_counter() - begin)
    return {name: float(np.median(seconds)) for name, seconds in times.items()}


def main() -> int:
    """Measure both logs; return the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size-mb", type=int, default=500, help="size of each log (default 500)")
    arguments.add_argument("--runs", type=int, default=7, help="measured rounds, the median counts (default 7)")
    arguments.add_argument(
        "--cache-dir",
        type=Path,
        default=Path(tempfile.gettempdir()) / "tidegauge-benchmarks",
        help="where the generated logs are kept (default: under the system's temporary directory)",
    )
    options = arguments.parse_args()
    options.cache_dir.mkdir(parents=True, exist_ok=True)
    print(f"one core, warm cache, median of {options.runs}; {BUFFER_BYTES >> 10} KB buffer, {BLOCK_ROWS} rows a block")
    reached = True
    for name in SHAPES:
        path = cached_log(options.cache_dir, name, options.size_mb)
        batches, size_mb = kernel(path), path.stat().st_size / 1e6
        if batches < 0:
            print(f"{path}: the kernel found damage in a sound log; delete it to have it written anew", file=sys.stderr)
            return 1
        seconds = measure(path, options.runs)
        nanoseconds = seconds["kernel"] / batches * 1e9
        print(f"\n{name}: {size_mb:.0f} MB, {batches:,} batches; kernel {nanoseconds:.0f} ns a batch")
        for contender, taken in seconds.items():
            ratio = taken / seconds["kernel"]
            note = "" if contender == "kernel" else f"   kernel at {ratio:7.0%} of its speed"
            print(f"  {contender:26}{taken:8.3f} s {size_mb / taken:8.0f} MB/s{note}")
        reached &= min(seconds[peer] for peer in BAR_PEERS) / seconds["kernel"] >= BAR
    print(f"\nbar: {BAR:.0%} of the quicker of {' and '.join(BAR_PEERS)}: {'reached' if reached else 'MISSED'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
