"""What headers mode saves: bytes of a headers snapshot beside those of the logs, and the time that writing it takes.

In: a seed, and a directory of captures. Out: two tables on standard output; the exit status is 1 if writing the headers
of large batches takes more than twice a plain read with a CRC-32C over it. The two logs are those of `scan.py` (batches
of 161 bytes with one record, batches of 16.4 KB with 130); the captures are the golden ones of the tests. Bytes are
those that lie on disk (allocated blocks), since indexes are preallocated and mostly holes. One process, one core, warm
page cache; compare ratios within one run, never seconds between runs.

    python benchmarks/headers.py --size-mb 500 --runs 5
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scan import SHAPES, cached_log, google_chunks, kernel

from tidegauge.embedded.archive import unpack
from tidegauge.kafka_log.headers_file import scan_headers, write_headers
from tidegauge.snapshots.headers import How, treatment, write_treated
from tidegauge.snapshots.topic_names import TopicNames

BAR = 2.0
"""How many times the time of a plain read and CRC-32C the headers of large batches may take."""
GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
BLOCK = 512


class Sink:
    """Counts the bytes that are written to it, and keeps them."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        """Takes what is written."""
        self.data += data


def headers(path: Path) -> bytes:
    """The headers file of a log."""
    sink = Sink()
    with path.open("rb", buffering=0) as log:
        write_headers(log.readinto, sink.write)
    return bytes(sink.data)


def read_again(file: Path) -> int:
    """Reads a headers file; returns its batches."""
    with file.open("rb", buffering=0) as log:
        return sum(len(block.headers) for block in scan_headers(log.readinto))


def median(runs: int, measured: Callable[[], object]) -> float:
    """Median seconds of some runs, after one that does not count."""
    measured()
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        measured()
        taken.append(time.perf_counter() - begin)
    return float(np.median(taken))


def of_logs(cache: Path, size_mb: int, runs: int) -> float:
    """Prints the table of the two logs; returns the ratio of times for large batches."""
    ratio = 0.0
    titles = ("log MB", "headers MB", "saved", "B/batch", "write", "read", "plain read")
    print(f"{'log':8}" + "".join(f"{t:>{w}}" for t, w in zip(titles, (10, 12, 9, 9, 16, 16, 12), strict=True)))
    for name in SHAPES:
        log = cached_log(cache, name, size_mb)
        file = log.with_suffix(".headers")
        file.write_bytes(headers(log))
        size, kept, batches = log.stat().st_size, file.stat().st_size, kernel(log)
        plain = median(runs, lambda log=log: google_chunks(log))
        write = median(runs, lambda log=log: headers(log))
        read = median(runs, lambda file=file: read_again(file))
        ratio = write / plain
        print(
            f"{name:8}{size / 1e6:10.1f}{kept / 1e6:12.2f}{1 - kept / size:9.2%}{kept / batches:9.2f}"
            f"{write:8.3f} s {ratio:5.2f}x{read:8.3f} s {read / plain:5.2f}x{plain:10.3f} s"
        )
    return ratio


def on_disk(path: Path) -> int:
    """Bytes that a file takes, without its holes."""
    return min(path.stat().st_blocks * BLOCK, path.stat().st_size)


def of_captures(directory: Path) -> None:
    """Prints the table of the golden captures."""
    names = TopicNames(b"a key of the benchmark")
    titles = ("full KB", "headers KB", "saved", "hashed KB", "users' logs KB", "become KB")
    print(f"\n{'capture':16}" + "".join(f"{t:>{w}}" for t, w in zip(titles, (10, 12, 9, 12, 16, 11), strict=True)))
    for archive in sorted(GOLDEN.glob("*.tar.gz")):
        name = archive.name.removesuffix(".tar.gz")
        root = unpack(archive, directory / name)
        full = kept = hashed = logs = logs_kept = 0
        for broker in sorted(root.glob("broker-*")):
            for path in sorted(p for p in broker.rglob("*") if p.is_file()):
                relative, size = path.relative_to(broker).as_posix(), on_disk(path)
                full += size
                plain = treated_size(path, relative, size, None)
                kept += plain
                hashed += treated_size(path, relative, size, names)
                if treatment(relative).how is How.HEADERS:
                    logs, logs_kept = logs + size, logs_kept + plain
        print(
            f"{name:16}{full / 1e3:10.0f}{kept / 1e3:12.0f}{1 - kept / full:9.1%}{hashed / 1e3:12.0f}"
            f"{logs / 1e3:16.0f}{logs_kept / 1e3:11.0f}"
        )


def treated_size(path: Path, relative: str, size: int, names: TopicNames | None) -> int:
    """Bytes that headers mode keeps of a file."""
    treated = treatment(relative, names)
    if treated.how is How.LEFT_OUT:
        return 0
    if treated.how is How.COPIED:
        return size
    sink = Sink()
    with path.open("rb", buffering=0) as file:
        write_treated(treated, file.readinto, sink.write, names)
    return len(sink.data)


def main() -> int:
    """Measures; returns the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size-mb", type=int, default=500, help="size of each log (default 500)")
    arguments.add_argument("--runs", type=int, default=5, help="measured rounds, the median counts (default 5)")
    arguments.add_argument(
        "--cache-dir",
        type=Path,
        default=Path(tempfile.gettempdir()) / "tidegauge-benchmarks",
        help="where the generated logs are kept (default: under the system's temporary directory)",
    )
    options = arguments.parse_args()
    options.cache_dir.mkdir(parents=True, exist_ok=True)
    ratio = of_logs(options.cache_dir, options.size_mb, options.runs)
    with tempfile.TemporaryDirectory() as directory:
        of_captures(Path(directory))
    reached = ratio <= BAR
    print(f"\nbar: large batches at most {BAR:.1f}x a plain read and CRC-32C: {'reached' if reached else 'MISSED'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
