"""A cluster with a remote tier: leaders copy, retention deletes on both sides, and nothing gets lost on the way."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.sim_engine.clusters import ORDERS, cluster, leader, said
from tidegauge.kafka_log.internal_topics import REMOTE_LOG_METADATA
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.log.remote_metadata import RemoteState, RemoteView
from tidegauge.sim_engine.log.tiering import nowhere, render_store
from tidegauge.sim_engine.rendering import truth_schema
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.world import World
from tidegauge.snapshots.manifest import Consistency

CONFIG = {"segment.bytes": "1000", "remote.storage.enable": "true", "local.retention.bytes": "1500"}
STATES = [state.name for state in RemoteState]


def tiered(**config: str) -> World:
    topic = actions.CreateTopic(
        name=REMOTE_LOG_METADATA, assignment=((3, 1, 2), (2, 3, 1)), config={"retention.ms": "-1"}
    )
    world = run_for(step(cluster(config={**CONFIG, **config}), topic), 2_000)
    return run_for(step(world, actions.StartProducer(client="p", idempotent=True)), 2_000)


def filled(world: World, start: int, end: int) -> World:
    for number in range(start, end, 5):
        world = run_for(said(world, "p", *(f"order number {n}" for n in range(number, number + 5))), 50)
    return world


def told(world: World) -> list[tuple[int, int, str]]:
    """What the metadata topic tells of the partition's segments, in order: start, end, state."""
    view, found = RemoteView(), []
    for number in (0, 1):
        log = world.brokers[3].disk.replicas[TopicPartition(REMOTE_LOG_METADATA, number)].log
        for batch in log.batches_from(0):
            for record in batch.records:
                before, view = view, view.read(record.value or b"")
                now = [s for k, s in view.segments.items() if before.segments.get(k) != s]
                gone = [s for k, s in before.segments.items() if k not in view.segments]
                found += [(s.start_offset, s.end_offset, s.state.name) for s in now]
                found += [(s.start_offset, s.end_offset, STATES[3]) for s in gone]
    return found


def starts(world: World) -> dict[int, tuple[int, int, int]]:
    """Log start, start of the local log and log end, by broker."""
    logs = {b: broker.disk.replicas[ORDERS].log for b, broker in world.brokers.items()}
    return {b: (g.log_start_offset, g.segments[0].base_offset, g.log_end_offset) for b, g in logs.items()}


@pytest.fixture(scope="module")
def settled() -> World:
    return run_for(filled(tiered(), 0, 200), 400_000)


def test_a_segment_is_copied_and_then_goes_from_every_disk(settled: World) -> None:
    log = settled.brokers[leader(settled)].disk.replicas[ORDERS].log
    local = log.segments[0].base_offset
    held = sorted((o.about.start_offset, o.about.end_offset) for o in settled.remote.objects.values())
    assert held[0][0] == 0
    assert [end for _, end in held[:-1]] == [start for start, _ in held[1:]]
    assert held[-1][1] == log.active.base_offset > local > 100
    assert starts(settled) == dict.fromkeys((1, 2, 3), (0, local, 200))
    assert told(settled) == [(*each, state) for each in held for state in STATES[:2]]
    assert not list(settled.truth.losses)
    assert all(p == ORDERS or p.topic == REMOTE_LOG_METADATA for p in settled.brokers[1].disk.log_starts)
    assert settled.brokers[1].disk.log_starts[ORDERS] == 0, "a tiered log's start is written down wherever it lies"


def test_the_broker_writes_to_the_metadata_topic_as_an_idempotent_producer_does(settled: World) -> None:
    for number in (0, 1):
        log = settled.brokers[1].disk.replicas[TopicPartition(REMOTE_LOG_METADATA, number)].log
        batches = log.batches_from(0)
        assert [b.base_sequence for b in batches] == list(range(len(batches)))
        assert len({b.producer_id for b in batches}) == (1 if batches else 0)
    writers = {a.client for a in settled.truth.acknowledged if a.partition.topic == REMOTE_LOG_METADATA}
    assert writers == {f"remote-log-manager-{leader(settled)}"}


def test_a_consumer_reads_all_from_the_beginning_through_the_tier(settled: World) -> None:
    world = run_for(step(settled, actions.StartConsumer(client="c", partitions=(ORDERS,))), 20_000)
    given = [(n.base_offset, n.last_offset) for n in world.truth.consumed]
    assert given == [(at, at + 4) for at in range(0, 200, 5)]
    assert not [n for n in world.truth.told if n.client == "c"]


def test_remote_retention_moves_the_log_start_before_segments_go() -> None:
    world = filled(tiered(**{"retention.bytes": "3000"}), 0, 200)
    world = run_for(world, 400_000)
    begin = starts(world)[leader(world)][0]
    gone = [(start, end, state) for start, end, state in told(world) if state == "DELETE_SEGMENT_FINISHED"]
    assert begin > 0
    assert max(end for _, end, _ in gone) == begin
    assert {start for start, _, _ in starts(world).values()} == {begin}
    assert min(o.about.start_offset for o in world.remote.objects.values()) == begin
    assert not list(world.truth.losses), "what retention takes is not lost"


def test_who_leads_next_goes_on_where_a_dead_leader_was() -> None:
    world = filled(tiered(), 0, 120)
    first = leader(world)
    while not any(state == STATES[0] for _, _, state in told(world)):
        world = run_for(world, 100)
    world = run_for(step(world, actions.Kill(first)), 400_000)
    assert leader(world) != first
    world = run_for(step(world, actions.Start(first)), 120_000)
    states = told(world)
    begun = [each[:2] for each in states if each[2] == STATES[0]]
    assert len(begun) == len(set(begun)) + 1, "the copy that was under way was begun once more"
    log = world.brokers[leader(world)].disk.replicas[ORDERS].log
    assert nowhere(log, world.remote, ORDERS, world.brokers[first].disk.replicas[ORDERS].topic_id) == []
    assert not list(world.truth.losses)


def test_a_follower_with_an_empty_disk_begins_behind_the_tier(settled: World) -> None:
    follower = next(b for b in (1, 2, 3) if b != leader(settled))
    world = run_for(step(settled, actions.Kill(follower)), 12_000)
    world = run_for(step(step(world, actions.Wipe(follower)), actions.Start(follower)), 60_000)
    mine, theirs = (world.brokers[b].disk.replicas[ORDERS].log for b in (follower, leader(world)))
    assert (mine.log_start_offset, mine.log_end_offset) == (0, 200)
    assert mine.segments[0].base_offset == theirs.segments[0].base_offset
    assert mine.epochs == theirs.epochs
    assert mine.producers.states.keys() == theirs.producers.states.keys()
    assert follower in world.controller.image.topics["orders"].partitions[0].isr


def test_with_the_topic_goes_all_that_the_tier_holds_of_it(settled: World) -> None:
    world = run_for(step(settled, actions.DeleteTopic("orders")), 5_000)
    assert not world.remote.objects
    begun, ended = ([e[:2] for e in told(world) if e[2] == state] for state in STATES[2:])
    assert begun == ended == [e[:2] for e in told(settled) if e[2] == STATES[1]]
    again = actions.CreateTopic(name="orders", assignment=((1, 2, 3),), config=CONFIG)
    world = run_for(filled(run_for(step(world, again), 2_000), 0, 60), 90_000)
    assert not list(world.truth.losses)
    assert min(o.about.start_offset for o in world.remote.objects.values()) == 0


def test_an_audit_of_a_sound_tiered_cluster_finds_nothing(settled: World, tmp_path: Path, store_url: str) -> None:
    truth = settled.truth.to_json()
    assert truth_schema.problems(truth) == []
    write_snapshot(
        tmp_path / "s", snapshot_of(settled), cluster="c", snapshot_id="1", consistency=Consistency.ATOMIC, truth=truth,
        remote=settled.remote,
    )  # fmt: skip
    files = {p.relative_to(tmp_path / "s").as_posix() for p in (tmp_path / "s" / "remote-storage").rglob("*.*")}
    assert files == {name for name, _ in render_store(settled.remote)}
    engine = sa.create_engine(store_url)
    with engine.connect() as connection:
        facts = derived(tmp_path / "s")
        assert facts.unread() == {}
        _, breaches = Judge(connection).verdicts(facts, "ABCDEFGHJKL")
    engine.dispose()
    assert [b for b in breaches if b.severity != "info"] == []
