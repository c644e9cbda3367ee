"""How fast a capture is, beside `dd` reading the same files.

In: seeded logs of `benchmarks/scan.py`, as the log dir of one broker. Out: a table on standard output, and with --write
benchmarks/capture.json; the exit status is 1 when a capture has less than `BAR` of the speed of `dd`.

Before each contender the files leave the page cache, so that they come from the disk; they take turns, so that a slow
moment hits all of them, and the median ratio of the rounds counts. A capture writes as well: into memory, so that the
disk's writing does not hide what reading costs, and once more onto the disk, beside `dd` that copies with conv=fsync.

    dd          dd if=FILE of=/dev/null bs=1M, file after file
    full        a capture in mode full: each byte read, hashed, written
    headers     a capture in mode headers: each batch checked, its header kept

    .venv/bin/python benchmarks/capture.py [--size-mb 250 --partitions 8 --runs 5]
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scan import SHAPES, cached_log

from tidegauge.snapshots.capture import READERS, Capture, capture
from tidegauge.snapshots.copying import Meter
from tidegauge.snapshots.file_taking import Way
from tidegauge.snapshots.manifest import Mode
from tidegauge.snapshots.sources import broker_sources
from tidegauge.snapshots.throttle import Throttle

BAR: Final = 0.8
"""Of dd's speed."""
KEPT: Final = Path(__file__).with_name("capture.json")
META_PROPERTIES: Final = (
    "version=1\nnode.id=1\ncluster.id=benchmark-cluster-0000\ndirectory.id=benchmark-directory-00\n"
)
MEMORY: Final = Path("/dev/shm")  # noqa: S108 - where the system has one, it is memory
SMALL_FILES: Final = 2_000
_SMALL_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Seconds from start to end, and seconds of processors."""

    whole_s: float
    processor_s: float


def broker(directory: Path, logs: Iterator[bytes | Path]) -> list[Path]:
    """A log dir of one partition for each log, a segment each; the logs' paths."""
    directory.mkdir(parents=True)
    (directory / "meta.properties").write_text(META_PROPERTIES)
    made = []
    for number, log in enumerate(logs):
        place = directory / f"orders-{number}" / f"{0:020d}.log"
        place.parent.mkdir()
        if isinstance(log, Path):
            shutil.copyfile(log, place)
        else:
            place.write_bytes(log)
        made.append(place)
    return made


def forget(paths: list[Path]) -> None:
    """Takes the files out of the page cache."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def dd(paths: list[Path], target: Path | None = None) -> None:
    """Reads the files one after the other; with a target, copies them there and forces them to disk."""
    for number, path in enumerate(paths):
        to = "/dev/null" if target is None else str(target / str(number))
        kept = () if target is None else ("conv=fsync",)
        subprocess.run(["dd", f"if={path}", f"of={to}", "bs=1M", *kept], check=True, stderr=subprocess.DEVNULL)


def captured(source: Path, target: Path, mode: Mode) -> None:
    """A whole capture."""
    sources, cluster_id = broker_sources([f"1={source}"])
    wanted = Capture(
        cluster="benchmark", snapshot_id="one", out=target / "one", sources=sources, cluster_id=cluster_id,
        way=Way(mode=mode),
    )  # fmt: skip
    capture(wanted, Meter(throttle=Throttle(None)))


@contextmanager
def empty(below: Path) -> Iterator[Path]:
    """A directory that is gone again."""
    with tempfile.TemporaryDirectory(prefix="tgc-", dir=below) as made:
        yield Path(made)


def took(work: Callable[[], None]) -> Took:
    """Runs it."""
    before, began = _processor_s(), time.perf_counter()
    work()
    return Took(whole_s=time.perf_counter() - began, processor_s=_processor_s() - before)


def _processor_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def rounds(source: Path, logs: list[Path], runs: int, memory: Path, disk: Path) -> dict[str, list[Took]]:
    """What each contender took, round by round."""

    def full(below: Path) -> Took:
        with empty(below) as target:
            return took(lambda: captured(source, target, Mode.FULL))

    def headers() -> Took:
        with empty(disk) as target:
            return took(lambda: captured(source, target, Mode.HEADERS))

    def copied() -> Took:
        with empty(disk) as target:
            return took(lambda: dd(logs, target))

    contenders: dict[str, Callable[[], Took]] = {
        "dd": lambda: took(lambda: dd(logs)),
        "headers": headers,
        "full": lambda: full(memory),
        "dd to disk": copied,
        "full to disk": lambda: full(disk),
    }
    found: dict[str, list[Took]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, contender in contenders.items():
            forget(logs)
            found[name].append(contender())
    return found


def speed(found: dict[str, list[Took]], name: str, peer: str) -> float:
    """The median, over the rounds, of how fast it is in speeds of the peer."""
    return statistics.median(
        theirs.whole_s / ours.whole_s for ours, theirs in zip(found[name], found[peer], strict=True)
    )


PEERS: Final = {"dd": "dd", "headers": "dd", "full": "dd", "dd to disk": "dd to disk", "full to disk": "dd to disk"}


def main() -> int:
    """Measures; returns the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size-mb", type=int, default=250, help="of each log (default 250)")
    arguments.add_argument("--partitions", type=int, default=8, help="logs (default 8)")
    arguments.add_argument("--runs", type=int, default=5, help="measured rounds (default 5)")
    arguments.add_argument("--write", action="store_true", help=f"keep the figures in {KEPT.name}")
    arguments.add_argument(
        "--cache-dir", type=Path, default=Path(tempfile.gettempdir()) / "tidegauge-benchmarks",
        help="where the logs are made (default: under the system's temporary directory)",
    )  # fmt: skip
    options = arguments.parse_args()
    options.cache_dir.mkdir(parents=True, exist_ok=True)
    memory = MEMORY if MEMORY.is_dir() else options.cache_dir
    kept: dict[str, dict[str, dict[str, float]]] = {}
    missed = False
    print(f"{os.cpu_count()} cores, {READERS} partitions at once, {options.runs} rounds; medians")
    for shape in SHAPES:
        log = cached_log(options.cache_dir, shape, options.size_mb)
        with empty(options.cache_dir) as place:
            source = place / "broker"
            logs = broker(source, (log for _ in range(options.partitions)))
            found = rounds(source, logs, options.runs, memory, place)
            size = sum(path.stat().st_size for path in logs)
        print(f"\n{shape} batches, {options.partitions} partitions, {size / 1e6:.0f} MB")
        kept[shape] = {}
        for name, all_took in found.items():
            whole = statistics.median(one.whole_s for one in all_took)
            processor = statistics.median(one.processor_s for one in all_took)
            ratio = speed(found, name, PEERS[name])
            missed |= PEERS[name] == "dd" and ratio < BAR
            kept[shape][name] = {
                "mb_per_s": round(size / 1e6 / whole), "processor_s_per_gb": round(processor / size * 1e9, 3),
                "of_dd": round(ratio, 3),
            }  # fmt: skip
            told = f"{whole:8.2f} s {size / 1e6 / whole:8.0f} MB/s{processor / size * 1e9:8.2f} processor s a GB"
            print(f"  {name:14}{told}{ratio:8.2f} of the speed of {PEERS[name]}")
    with empty(options.cache_dir) as place:
        files = broker(place / "broker", (os.urandom(_SMALL_BYTES) for _ in range(SMALL_FILES)))
        forget(files)
        small = took(lambda: captured(place / "broker", place, Mode.FULL))
        print(f"\n{SMALL_FILES} partitions of {_SMALL_BYTES} bytes: {small.whole_s / SMALL_FILES * 1e3:.2f} ms each")
        kept["small files"] = {"full": {"ms_each": round(small.whole_s / SMALL_FILES * 1e3, 3)}}
    print(f"\nbar: {BAR} of the speed of dd: {'MISSED' if missed else 'reached'}")
    if options.write:
        KEPT.write_text(json.dumps({"cores": os.cpu_count(), "runs": options.runs, "found": kept}, indent=1) + "\n")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
