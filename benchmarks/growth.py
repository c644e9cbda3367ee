"""What an audit on Spark costs as partitions grow: a simulated cluster of three brokers, three replicas a partition.

In: numbers of partitions. Out: a table on standard output, a row a size: seconds from start to end, processor seconds
of each kind of process, and the most memory that one of them had. The exit status is 1 when a replica of the largest
cluster costs more than `GROWTH` times one of the smallest, or a Python worker has more memory than `WORKER_BYTES`.

    PYTHONPATH=. python benchmarks/growth.py [--partitions 1000 10000]

Ten thousand partitions take some minutes to simulate, and 540 MB below the directory for temporary files.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from benchmarks.faults.place import kind_of
from benchmarks.simulate import simulated
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.snapshots.manifest import Consistency

ROOT: Final = Path(__file__).resolve().parents[1]
GROWTH: Final = 1.1
WORKER_BYTES: Final = 1 << 30
_REPLICAS: Final = 3
_KINDS: Final = ("driver", "python", "java", "validation", "postgres")
"""`python`: Spark's workers, and the process that starts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one audit: seconds from start to end, and of each kind of process its processor seconds and the most bytes
    that one such process had.
    """

    whole_s: float
    processor_s: dict[str, float]
    bytes_at_most: dict[str, int]

    def processor_ms_a_replica(self, partitions: int) -> float:
        """Processor time of all processes."""
        return 1000 * sum(self.processor_s.values()) / (_REPLICAS * partitions)


def audited(snapshot: Path, out: Path, home: Path) -> Cost:
    """Audits it on Spark, and looks at its processes four times a second."""
    environment = {**os.environ, "TIDEGAUGE_HOME": str(home), "TIDEGAUGE_STORE_URL": ""}
    command = [sys.executable, "-m", "tidegauge", "audit", str(snapshot), "--out", str(out), "--master", "local[*]"]
    began = time.perf_counter()
    process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=ROOT)
    processor: dict[tuple[str, int], float] = {}
    most: dict[str, int] = defaultdict(int)
    while process.poll() is None:
        for one in _processes(process, home):
            try:
                kind = "driver" if one.pid == process.pid else kind_of(one)
                times, memory = one.cpu_times(), one.memory_info()
            except psutil.Error:  # It has ended since.
                continue
            processor[kind, one.pid] = times.user + times.system
            most[kind] = max(most[kind], memory.rss)
        time.sleep(0.25)
    if not (out / "report.json").exists():
        sys.exit(f"The audit failed with exit code {process.returncode}.")
    spent: dict[str, float] = defaultdict(float)
    for (kind, _), seconds in processor.items():
        spent[kind] += seconds
    return Cost(whole_s=time.perf_counter() - began, processor_s=dict(spent), bytes_at_most=dict(most))


def _processes(command: psutil.Process, home: Path) -> list[psutil.Process]:
    """The command's own, and those of the Postgres that it keeps in its home."""
    found = [command]
    try:
        found += command.children(recursive=True)
    except psutil.Error:
        return []
    for one in psutil.process_iter(["name", "cmdline"]):
        if one.info["name"] == "postgres" and str(home) in " ".join(one.info["cmdline"] or ()):
            found.append(one)
    return found


def main() -> int:
    """Measures each size; returns the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--partitions", type=int, nargs="+", default=[1_000, 10_000])
    sizes: list[int] = sorted(arguments.parse_args().partitions)
    costs: dict[int, Cost] = {}
    kinds = "".join(f"{kind:>18}" for kind in _KINDS)
    with tempfile.TemporaryDirectory(prefix="tgg-") as scratch:
        for size in sizes:
            snapshot = Path(scratch, f"cluster-{size}")
            # Many batches at once: what a simulated follower does costs by its partitions, each time it fetches.
            world = simulated(records=10 * size, partitions=size, batch=10, every_ms=0.001)
            write_snapshot(
                snapshot, snapshot_of(world), cluster="growth", snapshot_id=f"partitions-{size}",
                consistency=Consistency.ATOMIC, truth=world.truth.to_json(),
            )  # fmt: skip
            if not costs:  # Makes the embedded Postgres, and fills caches.
                audited(snapshot, Path(scratch, "first"), Path(scratch, "home"))
                print(f"{os.cpu_count()} cores; processor seconds and the most MB of one process")
                print(f"{'partitions':>10}{'seconds':>9}{'ms a replica':>14}{kinds}")
            cost = costs[size] = audited(snapshot, Path(scratch, f"out-{size}"), Path(scratch, "home"))
            told = "".join(
                f"{cost.processor_s.get(kind, 0.0):10.1f}{cost.bytes_at_most.get(kind, 0) >> 20:5d} MB"
                for kind in _KINDS
            )
            print(f"{size:>10}{cost.whole_s:9.1f}{cost.processor_ms_a_replica(size):14.2f}{told}", flush=True)
    ratio = costs[sizes[-1]].processor_ms_a_replica(sizes[-1]) / costs[sizes[0]].processor_ms_a_replica(sizes[0])
    most = max(cost.bytes_at_most.get("python", 0) for cost in costs.values())
    print(f"a replica of the largest costs {ratio:.2f} of one of the smallest (bar {GROWTH})")
    print(f"a worker has {most >> 20} MB at most (bar {WORKER_BYTES >> 20})")
    return int(ratio > GROWTH or most > WORKER_BYTES)


if __name__ == "__main__":
    sys.exit(main())
