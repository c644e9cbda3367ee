"""A deleted key that one replica brings back: a follower that was away for longer than tombstones are kept.

In: a seed. Out: the story's moments. Source: Kafka Cleaner#shouldRetainRecord, delete.retention.ms.
"""

from typing import Final

from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.scenarios.scenario import Moment, Played, Scenario
from tidegauge.sim_engine.scenarios.stage import (
    CHECKPOINTED_MS,
    ORDERS,
    SETTLED_MS,
    C,
    cluster,
    found,
    started,
    with_producer,
)
from tidegauge.sim_engine.world import World

_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "10000",
}
_KEYS: Final = 5
DELETED: Final = b"key 0"


def compaction_race(seed: int) -> Played:
    """A compacted topic on A, B and C; five keys are written. C stops. Key 0 is deleted: a tombstone is written. A
    and B clean their logs, and after delete.retention.ms they clean the tombstone away too. C comes back with its old
    log, and fetches from where it was; the tombstone is nowhere any more.

    Truth: nothing that was committed is lost, and C is in sync; but key 0, deleted on A and B, has a value on C until
    C cleans, and for ever, for no tombstone reaches it. If C leads, key 0 is back.

    An audit finds that C has a last record of key 0, its second one, that A has not, nor anything newer (G07).
    """
    world = with_producer(cluster(seed, config=_CONFIG), "app")
    world = run_for(_written(world, range(_KEYS * 2)), CHECKPOINTED_MS)
    world = run_for(step(world, actions.Stop(C)), 10_000)
    world = _put(world, DELETED, None)
    # Others keep being written, so that segments close and cleaners have something to do.
    for _ in range(6):
        world = run_for(_written(world, range(1, 40)), 20_000)
    world = run_for(started(world, C), CHECKPOINTED_MS)
    moment = Moment(
        name="c-is-back",
        what="Key 0 is deleted on A and B, and has a value on C.",
        world=world,
        findings=(found("G07", C, _KEYS),),
    )
    return Played((moment,))


def _written(world: World, numbers: range) -> World:
    """Values under all keys but the deleted one, once that is deleted; one record a batch."""
    for number in numbers:
        key = number % _KEYS if numbers.start == 0 else 1 + number % (_KEYS - 1)
        world = _put(world, b"key %d" % key, b"value %d " % number * 5)
    return run_for(world, SETTLED_MS)


def _put(world: World, key: bytes, value: bytes | None) -> World:
    record = NewRecord(timestamp=-1, key=key, value=value)
    return run_for(step(world, actions.ProduceCall(client="app", partition=ORDERS, records=(record,))), 20)


def value_of(world: World, broker_id: int, key: bytes) -> bytes | None:
    """What a replica holds as the latest value of a key; None where it is deleted or never was."""
    log = world.brokers[broker_id].disk.replicas[ORDERS].log
    held = [r.value for b in log.batches_from(log.log_start_offset) for r in b.records if r.key == key]
    return held[-1] if held else None


SCENARIOS: Final = (
    Scenario(
        name="compaction-race", about="a follower that was away too long keeps a deleted key", play=compaction_race
    ),
)
