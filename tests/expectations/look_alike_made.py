"""Snapshots in which something looks like a breach and is not, where no golden capture shows it.

In: golden captures, or the simulator; a directory of one's own. Out: `Made`: a snapshot, and the earlier one where the
look-alike needs two. A cluster that is sound did this to its own files.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.conftest import Golden
from tests.derivation.damage import batches, copy_of, edit, segments
from tests.derivation.storage_breaks import checkpointed, only_what_is_there, two_log_dirs
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    EndTransaction,
    SendInTransaction,
    SendOffsetsInTransaction,
    StartTransactionalProducer,
)
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.network import broker_node, client_node
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.stage import (
    CHECKPOINTED_MS,
    ORDERS,
    SETTLED_MS,
    A,
    B,
    C,
    cluster,
    cut,
    killed,
    numbered,
    started,
    values,
    with_next_producer,
    with_producer,
)
from tidegauge.sim_engine.world import World
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import Consistency

METADATA: Final = "__cluster_metadata-0"
STATES: Final = ("__transaction_state-0", "__transaction_state-1", "__transaction_state-2")
OFFSETS: Final = ("__consumer_offsets-0", "__consumer_offsets-1", "__consumer_offsets-2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """`partial`: it is a copy of some partitions, and the others are missing in it."""

    snapshot: Path
    previous: Path | None = None
    partial: bool = False


def _written(world: World, directory: Path) -> Path:
    disks, truth = snapshot_of(world), world.truth.to_json()
    write_snapshot(
        directory, disks, cluster="c", snapshot_id=directory.name, consistency=Consistency.ATOMIC, truth=truth
    )
    return directory


def _moment(scenario: str, moment: str, directory: Path) -> Made:
    world = next(m.world for m in SCENARIOS[scenario].play(1).moments if m.name == moment)
    return Made(snapshot=_written(world, directory / moment))


def _copied(capture: Path, directory: Path, *partitions: str) -> Path:
    copy = copy_of(capture, directory / "copy", METADATA, *partitions)
    only_what_is_there(copy)
    return copy


def _quiet(copy: Path) -> Made:
    """All of it is of one moment: its brokers had been killed."""
    adopt(copy, cluster="c", consistency=Consistency.QUIESCED)
    return Made(snapshot=copy, partial=True)


# ------------------------------------------------------------------------------------------------ of golden captures


def open_transaction_after_a_kill(golden: Golden, directory: Path) -> Made:
    """Its coordinator's word for it lies in the log that the kill left."""
    return _quiet(_copied(golden("hanging-txn"), directory, *STATES, *OFFSETS, "pay-0"))


def stale_entries_behind_those_in_use(golden: Golden, directory: Path) -> Made:
    """A truncated log was written on: entries of before stand behind the new ones, one too low, one beyond the end."""
    copy = _copied(golden("hanging-txn"), directory, *STATES, *OFFSETS, "pay-0")
    for broker in ("broker-1", "broker-2"):
        log = segments(copy / broker / "pay-0")[-1]
        base, size = int(log.stem), log.stat().st_size
        newest = int(batches(log)[-1]["max_timestamp"])
        for suffix, form, stale in (
            (".index", ">iI", ((1, 70), (400_000 - base, size + 900))),
            (".timeindex", ">qI", ((newest - 60_000, 1), (newest + 9_000, 400_000 - base))),
        ):
            edit(log.with_suffix(suffix), lambda data, f=form, s=stale: _behind(data, f, s))  # type: ignore[misc]
    return _quiet(copy)


def _behind(data: bytearray, form: str, stale: tuple[tuple[int, int], ...]) -> None:
    """Writes entries where the zeros of a preallocated index begin."""
    size = struct.calcsize(form)
    at = next(p for p in range(0, len(data), size) if not any(data[p : p + size]))
    if at == 0:
        # What stands first is in use whatever it says, so one entry that is right goes before the stale ones.
        stale = stale[1:]
    for number, entry in enumerate(stale):
        struct.pack_into(form, data, at + number * size, *entry)


def cleaner_at_work(golden: Golden, directory: Path) -> Made:
    """A live copy that met a cleaner while it wrote."""
    copy = copy_of(golden("soak-01"), directory / "copy", METADATA, "compacted-0", "plain-0")
    log = segments(copy / "broker-2/compacted-0")[0]
    log.with_name(f"{log.name}.cleaned").write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    return Made(snapshot=copy, partial=True)


def replica_in_two_log_dirs(golden: Golden, directory: Path) -> Made:
    """Broker 2 moves live-0 from d1 to d2, whose checkpoints list what it has got there."""
    copy = _copied(golden("healthy"), directory, "live-0", "plain-0")
    two_log_dirs(copy / "broker-2", "live-0")
    source = copy / "broker-2/d2/live-0"
    future = source.with_name("live-0.0a1b2c3d4e5f60718293a4b5c6d7e8f9-future")
    source.rename(future)
    for file in (f for log in segments(future)[2:] for f in future.glob(f"{log.stem}.*")):
        file.unlink()
    for file in future.glob("*.snapshot"):
        if int(file.stem) > 644:
            file.unlink()
    end = int(batches(segments(future)[-1])[-1]["last_offset"]) + 1
    checkpointed(copy / "broker-2/d2", "replication-offset-checkpoint", "live", 0, end)
    (copy / "broker-2/d2/recovery-point-offset-checkpoint").write_text("0\n0\n")
    return _quiet(copy)


# -------------------------------------------------------------------------------------------------- by the simulator


def acknowledged_above_the_checkpoint(golden: Golden, directory: Path) -> Made:
    """All brokers die within a second of the last answer."""
    world = run_for(with_producer(cluster(1), "app"), CHECKPOINTED_MS)
    world = killed(numbered(world, "app", 0, 100), A, B, C, wait_ms=1)
    return Made(snapshot=_written(world, directory / "s"))


def killed_member_is_a_record_short(golden: Golden, directory: Path) -> Made:
    """The leader takes records under acks=1 that a member does not get before all die."""
    world = with_producer(cluster(1), "app", acks=1)
    world = run_for(numbered(world, "app", 0, 40), CHECKPOINTED_MS)
    world = numbered(cut(world, A, C), "app", 40, 60)
    return Made(snapshot=_written(killed(world, A, B, C, wait_ms=1), directory / "s"))


def abort_marker_without_data(golden: Golden, directory: Path) -> Made:
    """A producer of the older protocol adds orders-0 to its transaction, cannot reach its leader, and times out."""
    states = actions.CreateTopic(
        name="__transaction_state", assignment=((B, C, A),), config={"cleanup.policy": "compact"}
    )
    world = cluster(1, assignment=((A, B, C), (B, C, A)), others=(states,))
    start = StartTransactionalProducer(client="app", transactional_id="tx", version=1, timeout_ms=10_000)
    world = run_for(step(world, start), 5_000)
    for source, target in ((client_node("app"), broker_node(A)), (broker_node(A), client_node("app"))):
        world = step(world, actions.Cut(source, target))
    world = step(world, BeginTransaction("app"))
    for partition in (ORDERS, TopicPartition("orders", 1)):
        world = step(world, SendInTransaction(client="app", partition=partition, records=values("never")))
    return Made(snapshot=_written(run_for(world, 60_000), directory / "s"))


def the_same_sequence_again_and_again(golden: Golden, directory: Path) -> Made:
    """A producer of the older protocol, whose epoch stays, commits a group's offsets in each of three transactions."""
    internal = [
        actions.CreateTopic(name=name, assignment=((A, B, C),), config={"cleanup.policy": "compact"})
        for name in ("__transaction_state", "__consumer_offsets")
    ]
    world = numbered(with_producer(cluster(1, others=internal), "plain"), "plain", 0, 40)
    world = run_for(step(world, StartTransactionalProducer(client="app", transactional_id="tx", version=1)), 5_000)
    for offset in (10, 20, 30):
        world = step(world, BeginTransaction("app"))
        world = step(world, SendOffsetsInTransaction(client="app", group="g", offsets={ORDERS: offset}))
        world = run_for(step(world, EndTransaction("app", commit=True)), 5_000)
    return Made(snapshot=_written(run_for(world, CHECKPOINTED_MS), directory / "s"))


def topic_created_again(golden: Golden, directory: Path) -> Made:
    """The same topic once more, with as many records and other words."""
    world = run_for(numbered(with_producer(cluster(1), "app"), "app", 0, 50), CHECKPOINTED_MS)
    before = _written(world, directory / "before")
    world = run_for(step(world, actions.DeleteTopic("orders")), 120_000)
    again = actions.CreateTopic(name="orders", assignment=((A, B, C),), config={})
    world = with_next_producer(run_for(step(world, again), SETTLED_MS), "next")
    world = run_for(numbered(world, "next", 500, 550), CHECKPOINTED_MS)
    return Made(snapshot=_written(world, directory / "after"), previous=before)


def isr_below_the_minimum(golden: Golden, directory: Path) -> Made:
    """Two of three brokers are gone one after the other, and the last that left the ISR is kept in mind."""
    world = cluster(1, config={"min.insync.replicas": "2"})
    world = numbered(with_producer(world, "app"), "app", 0, 50)
    world = run_for(killed(killed(world, C), B), CHECKPOINTED_MS)
    return Made(snapshot=_written(world, directory / "s"))


def replica_on_a_new_disk(golden: Golden, directory: Path) -> Made:
    """Records go up to the middle of a segment; then broker C gets an empty disk, and fetches what is left."""
    world = cluster(1, config={"segment.bytes": "4000"})
    world = numbered(with_producer(world, "app"), "app", 0, 200)
    world = run_for(step(world, actions.DeleteRecords(ORDERS, 33)), 70_000)
    before = _written(world, directory / "before")
    world = started(step(killed(world, C), actions.Wipe(C)), C)
    world = run_for(numbered(with_next_producer(world, "next"), "next", 200, 240), 70_000)
    return Made(snapshot=_written(world, directory / "after"), previous=before)


def replica_that_is_being_added(golden: Golden, directory: Path) -> Made:
    """A reassignment gives orders-0 to broker C as well, which cannot reach its leader yet."""
    world = cluster(1, assignment=((A, B),))
    world = run_for(numbered(with_producer(world, "app"), "app", 0, 100), CHECKPOINTED_MS)
    world = step(cut(world, A, C), actions.Reassign(ORDERS, (A, B, C)))
    return Made(snapshot=_written(run_for(world, CHECKPOINTED_MS), directory / "s"))


def leader_alone_is_far_ahead(golden: Golden, directory: Path) -> Made:
    """Unclean elections are allowed: it is a warning of what may come, and no loss."""
    return _moment("unclean-election", "a-is-alone", directory)


MADE: Final[Mapping[str, Callable[[Golden, Path], Made]]] = MappingProxyType(
    {
        make.__name__: make
        for make in (
            open_transaction_after_a_kill,
            stale_entries_behind_those_in_use,
            cleaner_at_work,
            replica_in_two_log_dirs,
            acknowledged_above_the_checkpoint,
            killed_member_is_a_record_short,
            abort_marker_without_data,
            the_same_sequence_again_and_again,
            topic_created_again,
            isr_below_the_minimum,
            replica_on_a_new_disk,
            replica_that_is_being_added,
            leader_alone_is_far_ahead,
        )
    }
)
