"""How fast a cluster is simulated and rendered: 3 brokers, 20 partitions, 100,000 records in batches of 10.

    PYTHONPATH=. python benchmarks/simulate.py [--records 100000] [--partitions 20] [--batch 10] [--profile]

Prints records and events a second of wall-clock time, on one core, and how large the rendered directories are.
"""

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from pathlib import Path

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import new_world, run, run_for, scheduled_all, step
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.world import World
from tidegauge.snapshots.manifest import Consistency

_PRODUCERS = 4
_BATCH_EVERY_MS = 5
BAR_S = 60.0
"""How long simulating and rendering may take together."""


def traffic(world: World, *, records: int, partitions: int, batch: int, every_ms: float) -> tuple[World, int]:
    """The calls of the producers, one batch every so many milliseconds, and when the last one is."""
    batches = records // batch
    value = b"x" * 100
    events: list[tuple[int, object]] = []
    for number in range(batches):
        at_ms = world.now_ms + int(number * every_ms)
        made = tuple(NewRecord(timestamp=-1, key=None, value=b"%d:%d " % (number, i) + value) for i in range(batch))
        call = actions.ProduceCall(
            client=f"producer-{number % _PRODUCERS}",
            partition=TopicPartition("orders", number % partitions),
            records=made,
        )
        events.append((at_ms, call))
    return scheduled_all(world, events), world.now_ms + int(batches * every_ms)


def simulated(*, records: int, partitions: int, batch: int, every_ms: float = _BATCH_EVERY_MS) -> World:
    """A cluster in which all of it was produced and replicated."""
    world = run_for(new_world(seed=1), 5_000)
    assignment = [tuple((p + i) % 3 + 1 for i in range(3)) for p in range(partitions)]
    world = step(world, actions.CreateTopic(name="orders", assignment=assignment, config={"min.insync.replicas": "2"}))
    for number in range(_PRODUCERS):
        world = step(world, actions.StartProducer(client=f"producer-{number}", idempotent=True))
    world = run_for(world, 1_000)
    world, until_ms = traffic(world, records=records, partitions=partitions, batch=batch, every_ms=every_ms)
    return run(world, until_ms + 10_000)


def main() -> int:
    """Runs once and prints; 1 if it took longer than the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    profile = cProfile.Profile()
    started = time.perf_counter()
    if options.profile:
        profile.enable()
    world = simulated(records=options.records, partitions=options.partitions, batch=options.batch)
    simulated_at = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "snapshot"
        write_snapshot(
            directory,
            snapshot_of(world),
            cluster="benchmark",
            snapshot_id="s1",
            consistency=Consistency.ATOMIC,
            truth=world.truth.to_json(),
        )
        profile.disable()
        rendered_at = time.perf_counter()
        size = sum(p.stat().st_blocks * 512 for p in directory.rglob("*") if p.is_file())
    acknowledged = sum(a.last_offset - a.base_offset + 1 for a in world.truth.acknowledged)
    simulating, rendering = simulated_at - started, rendered_at - simulated_at
    print(f"{acknowledged} records acknowledged, {world.sequence} events and messages")
    rates = f"{acknowledged / simulating:.0f} records/s, {world.sequence / simulating:.0f} events/s"
    print(f"simulated in {simulating:.1f} s: {rates}")
    print(f"rendered in {rendering:.1f} s: {size / 1e6:.1f} MB on disk")
    print(f"together {simulating + rendering:.1f} s")
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    return int(simulating + rendering > BAR_S)


if __name__ == "__main__":
    sys.exit(main())
