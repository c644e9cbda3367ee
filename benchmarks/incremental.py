"""What a second audit costs when a hundredth of the bytes are new: processor time of the index and the derive step.

In: the seeded logs of `benchmarks/scan.py`, cut into segments. Out: a table on standard output; the exit status is 1
when the second audit takes more than `BAR` of the first. Three replicas have a hundred sealed segments and an active
one; before the second audit each gets one segment more. Each audit is a call in this process, after one that warms up;
a third, which reads everything of the second snapshot, shows that the facts are the same.

    PYTHONPATH=. python benchmarks/incremental.py --size-mb 1600
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.audit import META_PROPERTIES, REPLICAS
from benchmarks.scan import SHAPES, cached_log, template
from tidegauge.derivation.in_process import Derived, derive_here
from tidegauge.kafka_log.batch import HEADER_BYTES
from tidegauge.runs.run import NO_SUMMARIES, AuditedSnapshot
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import MANIFEST_NAME

BAR = 0.05
"""Share of the first audit's processor time that the second may take."""
SEGMENTS = 100
CLUSTER = "bench"


def main() -> int:
    """Measure both shapes of logs; return the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size-mb", type=int, default=1600, help="size of a replica (default 1600)")
    chosen = arguments.parse_args()
    cache = Path(tempfile.gettempdir()) / "tidegauge-benchmarks"
    cache.mkdir(exist_ok=True)
    worst = 0.0
    print(f"{REPLICAS} replicas of {chosen.size_mb} MB in {SEGMENTS} segments; processor seconds of index and derive")
    print(f"{'batches':8}  {'reads all':>9}  {'first':>7}  {'second':>7}  {'second/first':>12}  reused")
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        for shape in SHAPES:
            first, second, whole, reused = measured(cache, Path(scratch, shape), shape, chosen.size_mb)
            worst = max(worst, second / first)
            print(f"{shape:8}  {whole:9.2f}  {first:7.2f}  {second:7.2f}  {second / first:12.3f}  {reused}")
    print(f"the second takes at most {worst:.3f} of the first (bar {BAR})")
    return 0 if worst <= BAR else 1


def measured(cache: Path, scratch: Path, shape: str, size_mb: int) -> tuple[float, float, float, int]:
    """Processor seconds of the first audit, of the second, of one that reads all of the first; segments reused."""
    log, kept = cached_log(cache, shape, size_mb), str(scratch / "kept")
    derived(laid_out(log, scratch / "warm", shape, 2), NO_SUMMARIES)
    before = laid_out(log, scratch / "first", shape, SEGMENTS)
    whole, _ = derived(before, NO_SUMMARIES)
    first, _ = derived(before, kept)
    after = laid_out(log, scratch / "second", shape, SEGMENTS + 1)
    second, made = derived(after, kept)
    _, read = derived(after, NO_SUMMARIES)
    if made.tables.keys() != read.tables.keys() or any(
        not table.equals(read.tables[name]) for name, table in made.tables.items()
    ):
        sys.exit("The facts are others: there is nothing to compare.")
    reused = sum(bool(row["reused"]) for row in made.index.values())
    shutil.rmtree(scratch)
    return first, second, whole, reused


def derived(snapshot: AuditedSnapshot, kept: str) -> tuple[float, Derived]:
    """Processor seconds, and what was derived."""
    begin = time.process_time()
    made = derive_here(snapshot, kept_summaries=kept)
    return time.process_time() - begin, made


def laid_out(log: Path, root: Path, shape: str, segments: int) -> AuditedSnapshot:
    """A snapshot of that many segments a replica, and an active one."""
    records, value_bytes = SHAPES[shape]
    batch = HEADER_BYTES + len(template(records, value_bytes)[0])
    data = memoryview(log.read_bytes())
    of_segment = len(data) // batch // (SEGMENTS + 2)
    for node_id in range(1, REPLICAS + 1):
        replica = root / f"broker-{node_id}" / "bench-0"
        replica.mkdir(parents=True)
        (root / f"broker-{node_id}" / "meta.properties").write_text(META_PROPERTIES.format(node_id=node_id))
        for number in range(segments + 1):
            start = number * of_segment
            (replica / f"{start * records:020d}.log").write_bytes(data[start * batch : (start + of_segment) * batch])
    os.sync()  # What is still to be written would be counted to the audit.
    found = adopt(root, cluster=CLUSTER, snapshot_id=root.name)
    assert (root / MANIFEST_NAME).exists()
    return AuditedSnapshot(root=found.root, manifest=found.manifest, target=root.parent / "run")


if __name__ == "__main__":
    sys.exit(main())
