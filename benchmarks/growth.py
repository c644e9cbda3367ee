"""What an audit on Spark costs as partitions grow: a simulated cluster of three brokers, three replicas a partition.

In: numbers of partitions. Out: a table on standard output, a row a size: seconds from start to end, processor seconds
of each kind of process, and the most memory that one of them had. The exit status is 1 when a replica of the largest
cluster costs more than `GROWTH` times one of the smallest, or a Python worker has more memory than `WORKER_BYTES`.

    PYTHONPATH=. python benchmarks/growth.py [--partitions 1000 10000]

Ten thousand partitions take some minutes to simulate, and 540 MB below the directory for temporary files.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.cost import KINDS, Cost, cost_of
from benchmarks.simulate import simulated
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.snapshots.manifest import Consistency

GROWTH: Final = 1.1
WORKER_BYTES: Final = 1 << 30
_REPLICAS: Final = 3


def audited(snapshot: Path, out: Path, home: Path) -> Cost:
    """Audits it on Spark."""
    environment = {**os.environ, "TIDEGAUGE_HOME": str(home), "TIDEGAUGE_STORE_URL": ""}
    command = [sys.executable, "-m", "tidegauge", "audit", str(snapshot), "--out", str(out), "--master", "local[*]"]
    return cost_of(command, environment, home, makes=out / "report.json")


def processor_ms_a_replica(cost: Cost, partitions: int) -> float:
    """Processor time of all processes."""
    return 1000 * cost.all_processor_s / (_REPLICAS * partitions)


def main() -> int:
    """Measures each size; returns the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--partitions", type=int, nargs="+", default=[1_000, 10_000])
    sizes: list[int] = sorted(arguments.parse_args().partitions)
    costs: dict[int, Cost] = {}
    kinds = "".join(f"{kind:>18}" for kind in KINDS)
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
            print(f"{size:>10}{cost.whole_s:9.1f}{processor_ms_a_replica(cost, size):14.2f}{cost}", flush=True)
    largest, smallest = (processor_ms_a_replica(costs[size], size) for size in (sizes[-1], sizes[0]))
    ratio = largest / smallest
    most = max(cost.bytes_at_most.get("python", 0) for cost in costs.values())
    print(f"a replica of the largest costs {ratio:.2f} of one of the smallest (bar {GROWTH})")
    print(f"a worker has {most >> 20} MB at most (bar {WORKER_BYTES >> 20})")
    return int(ratio > GROWTH or most > WORKER_BYTES)


if __name__ == "__main__":
    sys.exit(main())
