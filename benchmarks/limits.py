"""What few bytes that unpack to many, or claim to, cost: each in a process of its own; and what large inputs cost.

    PYTHONPATH=. .venv/bin/python benchmarks/limits.py [--large]

Prints bytes, memory taken and seconds. The bar is that of docs/guides/limits.md: 256 MiB, and 1,100 bytes for each.

With --large, whole audits on Spark of the inputs of `large_inputs`, each with the most memory that one process of each
kind had. The bars are `growth.WORKER_BYTES` for a Python worker and `DRIVER_BYTES` for the driver. They take minutes,
and 500 MB below the directory for temporary files.
"""

import argparse
import io
import os
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import cramjam
from large_inputs import LARGE, cluster

from benchmarks.growth import WORKER_BYTES, Cost, audited
from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.derivation.key_reading import _Taker
from tidegauge.facts.cleanup.key_table import KeyTableBuilder
from tidegauge.facts.segments.record_check import RecordChecker
from tidegauge.kafka_log.checkpoints import parse_offset_checkpoint
from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.headers_file import HeadersReader
from tidegauge.kafka_log.records import read_batch
from tidegauge.kafka_log.scan import scan_batches

_LOG: Final = f"{0:020d}.log"
_ZSTD: Final = 4
_RECORD: Final = b"\x0c\0\0\0\1\1\0"
_KEYED: Final = b"\x10\0\0\0\2k\2v\0"
_FREE_BYTES: Final = 256 << 20
_BYTES_EACH: Final = 1100


def _batch(base_offset: int, records: bytes, count: int) -> bytes:
    covered = struct.pack(">hiqqqhii", _ZSTD, count - 1, 0, 0, -1, -1, -1, count) + cramjam.zstd.compress(records)
    return struct.pack(">qiibI", base_offset, 9 + len(covered), 0, 2, crc32c(covered)) + covered


def _large(size: int) -> bytes:
    """A record with a value of zeros."""
    body = b"\0\0\0\1" + _varint(size) + bytes(size) + b"\0"
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out, left = bytearray(), value << 1
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*out, left))


def _frames(count: int) -> bytes:
    return b"TGHEADER" + struct.pack("<H", 1) + b"".join(map(_frame, range(count)))


def _frame(position: int) -> bytes:
    """Of one kept batch of zeros."""
    kept = struct.pack("<qI", position, 4 << 20) + bytes(4 << 20)
    payload = bytes(cramjam.zstd.compress(kept))
    head = struct.pack("<cII", b"K", len(payload), len(kept))
    return head + struct.pack("<I", crc32c(head + payload)) + payload


def _checked(log: bytes) -> None:
    checker = RecordChecker(log_size_bytes=len(log))
    for _ in scan_batches(io.BytesIO(log).readinto, on_rows=checker.take):
        pass


def _digested(log: bytes) -> None:
    builder = KeyTableBuilder()
    for _ in SegmentFile(_LOG, io.BytesIO(log)).blocks(_Taker(builder).take):
        pass
    builder.table(())


def _internal(log: bytes) -> None:
    for _ in SegmentFile(_LOG, io.BytesIO(log)).records():
        pass


def _framed(file: bytes) -> None:
    for _ in HeadersReader(io.BytesIO(file).readinto).blocks():
        pass


_MANY: Final = 1 << 22
CASES: Final[Mapping[str, tuple[Callable[[], bytes], Callable[[bytes], Any]]]] = {
    "a batch of 4 million records, taken apart": (lambda: _batch(0, _RECORD * _MANY, _MANY), read_batch),
    "an internal topic's log of 20 such batches": (lambda: _batch(0, _RECORD * _MANY, _MANY) * 20, _internal),
    "a user's segment of 20 batches of 200 MB": (lambda: _batch(0, _large(200 << 20), 1) * 20, _checked),
    "a compacted segment of 8 million records": (lambda: _batch(0, _KEYED * _MANY, _MANY) * 2, _digested),
    "a headers file of 100 frames of 4 MB": (lambda: _frames(100), _framed),
    "a checkpoint of line ends, 16 MB": (lambda: b"0\n1\n" + b"\n" * (16 << 20), parse_offset_checkpoint),
    "a checkpoint of wrong lines, 4 MB": (lambda: b"0\n1\n" + b"x\n" * (2 << 20), parse_offset_checkpoint),
}


def _measured(data: bytes, work: Callable[[bytes], Any]) -> tuple[int, float]:
    """Bytes taken beyond what the process had, and seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        began, before = time.perf_counter(), _resident()
        work(data)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        os.write(writer, struct.pack("<qd", max(0, peak - before), time.perf_counter() - began))
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as said:
        return struct.unpack("<qd", said.read())


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


DRIVER_BYTES: Final = 2 << 30
_KINDS: Final = ("driver", "python", "java", "validation", "postgres")


def large() -> int:
    """Prints the table of whole audits; 1 where a bar is missed."""
    missed = False
    print(f"| input | {' | '.join(_KINDS)} | seconds | processor s |\n| --- |{' --- |' * (len(_KINDS) + 2)}")
    with tempfile.TemporaryDirectory(prefix="tgl-") as scratch:
        home = Path(scratch, "home")
        audited(cluster(Path(scratch, "small")), Path(scratch, "first"), home)  # Makes the embedded Postgres.
        for number, (name, make) in enumerate(LARGE.items()):
            snapshot = cluster(Path(scratch, f"in-{number}"))
            make(snapshot)
            cost = audited(snapshot, Path(scratch, f"out-{number}"), home)
            missed |= _over(cost)
            most = " | ".join(f"{cost.bytes_at_most.get(kind, 0) >> 20} MB" for kind in _KINDS)
            print(f"| {name} | {most} | {cost.whole_s:.0f} | {sum(cost.processor_s.values()):.0f} |", flush=True)
    return int(missed)


def _over(cost: Cost) -> bool:
    return cost.bytes_at_most.get("python", 0) > WORKER_BYTES or cost.bytes_at_most.get("driver", 0) > DRIVER_BYTES


def main() -> int:
    """Prints a table; 1 where the bar is missed."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--large", action="store_true", help="whole audits of large inputs")
    if arguments.parse_args().large:
        return large()
    sound = _batch(0, _KEYED, 1)
    for warm in (_checked, _digested, _internal):
        warm(sound)
    missed = False
    print("| few bytes | bytes | memory | seconds |\n| --- | --- | --- | --- |")
    for name, (make, work) in CASES.items():
        data = make()
        taken, seconds = _measured(data, work)
        missed |= taken > _FREE_BYTES + _BYTES_EACH * len(data)
        print(f"| {name} | {len(data):,} | {taken / 1e6:,.0f} MB | {seconds:.1f} |", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
