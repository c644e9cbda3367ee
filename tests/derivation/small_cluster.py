"""A small simulated cluster that runs and is sound, written once, to be broken in copies.

In: a directory. Out: a snapshot's files without a manifest, all of one moment: brokers run, and wrote their checkpoints
a moment ago. In it:

    orders-0     100 records of an idempotent producer in batches of ten, under leader epochs 0 and 1; broker 2 leads
    orders-1     transactions of version 2 (two committed, one aborted), each of two batches
    plain-0      60 records of a producer without an id, of which those below 12 were deleted
    tidy-0       compacted, 20 records of 20 keys, a batch each, half of them under epoch 0 and half under epoch 1
    idle-0       ten records under epoch 0, and none under epoch 1; each must be on three brokers
    group g      committed 40 of orders-0, under epoch 0
"""

import json
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.derivation.damage import with_holes
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    EndTransaction,
    SendInTransaction,
    StartGroupConsumer,
    StartTransactionalProducer,
)
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.scenarios.stage import (
    CHECKPOINTED_MS,
    A,
    B,
    C,
    cluster,
    killed,
    numbered,
    started,
    values,
    with_next_producer,
    with_producer,
)
from tidegauge.sim_engine.world import World
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import MANIFEST_NAME, Consistency

BROKERS: Final = ("broker-1", "broker-2", "broker-3")
ORDERS_1: Final = TopicPartition("orders", 1)
PLAIN: Final = TopicPartition("plain", 0)
IDLE: Final = TopicPartition("idle", 0)
TIDY: Final = TopicPartition("tidy", 0)
Break = Callable[[Path], None]


@cache
def small_world() -> World:
    """What is told above."""
    internal = [
        actions.CreateTopic(name=name, assignment=((B, C, A),), config={"cleanup.policy": "compact"})
        for name in ("__transaction_state", "__consumer_offsets")
    ]
    tidy = actions.CreateTopic(name="tidy", assignment=((A, B, C),), config={"cleanup.policy": "compact"})
    idle = actions.CreateTopic(name="idle", assignment=((A, B, C),), config={"min.insync.replicas": "3"})
    plain = actions.CreateTopic(name="plain", assignment=((B, C, A),), config={})
    world = cluster(
        1, assignment=((A, B, C), (B, C, A)), config={"min.insync.replicas": "2"}, others=(*internal, tidy, idle, plain)
    )
    world = numbered(with_producer(world, "app", idempotent=True), "app", 0, 50)
    world = run_for(step(world, StartGroupConsumer(client="reader", group="g", topics=("orders",))), 8_000)
    world = numbered(with_producer(world, "nobody"), "nobody", 0, 60, partition=PLAIN)
    world = numbered(world, "nobody", 0, 10, partition=IDLE, per_batch=1)
    world = started(killed(_keyed(world, "nobody", range(10)), A), A)
    world = numbered(with_next_producer(world, "next"), "next", 50, 100)
    world = _keyed(world, "next", range(10, 20))
    world = run_for(step(world, StartTransactionalProducer(client="pay", transactional_id="tx")), 5_000)
    for number, commit in enumerate((True, False, True)):
        world = step(world, BeginTransaction("pay"))
        for part in range(2):
            texts = (f"pay {number} {part} {n}" for n in range(5))
            world = run_for(
                step(world, SendInTransaction(client="pay", partition=ORDERS_1, records=values(*texts))), 500
            )
        world = run_for(step(world, EndTransaction("pay", commit=commit)), 2_000)
    world = run_for(step(world, actions.DeleteRecords(PLAIN, 12)), 12 * CHECKPOINTED_MS)
    # The metadata log goes on up to now: what was answered a moment ago is behind its end.
    return run_for(step(world, actions.AlterConfig(topic="plain", name="max.message.bytes", value="2000000")), 200)


def _keyed(world: World, client: str, numbers: range) -> World:
    for number in numbers:
        record = NewRecord(timestamp=-1, key=b"key %d" % number, value=b"value")
        world = run_for(step(world, actions.ProduceCall(client=client, partition=TIDY, records=(record,))), 100)
    return world


def written(directory: Path, world: World, *, truth: Mapping[str, Any] | None = None) -> Path:
    """Its files, to be broken and then `taken`. `truth`: what truly happened, for an audit to hold against them."""
    write_snapshot(
        directory,
        snapshot_of(world),
        cluster="c",
        snapshot_id="s",
        consistency=Consistency.ATOMIC,
        truth=truth or {},
        remote=world.remote,
    )
    (directory / MANIFEST_NAME).unlink()
    return directory


def taken(directory: Path, *, at_ms: int | None = None) -> Path:
    """As if the files had always been so. `at_ms`: when they were read, by the brokers' clock."""
    adopt(directory, cluster="c", consistency=Consistency.ATOMIC, snapshot_id=directory.name)
    if at_ms is not None:
        path = directory / MANIFEST_NAME
        manifest = json.loads(path.read_text())
        for broker in manifest["brokers"]:
            broker["read_started_at_ms"] = broker["read_finished_at_ms"] = at_ms
        path.write_text(json.dumps(manifest))
    return directory


def broken(source: Path, directory: Path, break_it: Break) -> Path:
    """A copy with one thing broken."""
    shutil.copytree(source, directory, copy_function=with_holes)
    break_it(directory)
    return taken(directory)
