"""What an election outside the ISR loses, and what each way to prevent it keeps; each under the ledger's eyes."""

import pytest

from tests.sim_engine.clusters import (
    ORDERS,
    cluster,
    cut_off,
    leader,
    promises_broken,
    replicas_differ,
    said,
    said_twice,
    texts,
    values,
)
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, scheduled_all, step
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.settings import Generation, Settings
from tidegauge.sim_engine.world import World

A, B = 1, 2


def alone(world: World, *, acks: int) -> World:
    """Offsets 0..99 on both brokers; 100..200 go to A while B hears nothing of it; then A dies and B comes."""
    world = step(world, actions.StartProducer(client="app", acks=acks, delivery_timeout_ms=20_000))
    for at in range(0, 100, 10):
        world = run_for(said(world, "app", *(str(at + i) for i in range(10))), 50)
    world = cut_off(run_for(world, 10_000), broker_node(A), broker_node(B))
    # The leader puts its follower out of the ISR, unless it wants two.
    world = run_for(world, 1_000)
    for at in range(100, 201):
        world = run_for(said(world, "app", str(at)), 20)
    world = run_for(world, 60_000)
    world = run_for(step(world, actions.Kill(A)), 30_000)
    return cut_off(world, broker_node(A), broker_node(B), heal=True)


def pair(**config: str) -> World:
    return cluster(brokers=(A, B), assignment=[(A, B)], config=config)


def test_an_unclean_election_loses_exactly_what_the_ledger_says() -> None:
    world = alone(pair(**{"unclean.leader.election.enable": "true"}), acks=1)
    assert leader(world) == B
    assert texts(world, B) == [str(i) for i in range(100)]
    losses = [(x.start_offset, x.end_offset, x.committed, x.cause) for x in world.truth.losses]
    assert losses == [(100, 201, True, "unclean election")]
    assert [e.kind for e in world.truth.elections] == ["first", "unclean"]
    consumer = actions.StartConsumer(client="late", partitions=(ORDERS,), start_offsets={ORDERS: 150}, reset="none")
    world = run_for(step(world, consumer), 5_000)
    assert [(t.client, t.what, t.offset) for t in world.truth.told] == [("late", "OFFSET_OUT_OF_RANGE", 150)]
    world = run_for(said(step(world, actions.Start(A)), "app", "new"), 60_000)
    assert texts(world, A) == texts(world, B) == [*map(str, range(100)), "new"]
    assert not promises_broken(world)
    assert not replicas_differ(world)


def test_without_unclean_elections_the_partition_waits_for_who_has_it_all() -> None:
    world = alone(pair(**{"unclean.leader.election.enable": "false"}), acks=1)
    assert leader(world) == -1
    world = run_for(step(world, actions.Start(A)), 60_000)
    assert leader(world) == A
    assert texts(world, A) == texts(world, B) == [str(i) for i in range(201)]
    assert not list(world.truth.losses)


@pytest.mark.parametrize("generation", [Generation.KIP_320, Generation.ELR])
def test_with_two_in_sync_replicas_nobody_is_told_that_what_one_has_is_written(generation: Generation) -> None:
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "2"}
    settings = Settings(generation=generation)
    world = cluster(brokers=(A, B), assignment=[(A, B)], config=config, settings=settings)
    world = alone(world, acks=-1)
    assert sum(len(a.digests) for a in world.truth.acknowledged) == 100
    told = {t.what for t in world.truth.told}
    assert told <= {"TimeoutException", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
    assert told
    world = run_for(step(world, actions.Start(A)), 60_000)
    assert not promises_broken(world)
    acknowledged = [str(i) for i in range(100)]
    assert texts(world, leader(world))[:100] == acknowledged


def test_an_eligible_leader_replica_leads_when_the_isr_is_empty() -> None:
    world = cluster(config={"min.insync.replicas": "2"})
    world = step(world, actions.StartProducer(client="app", idempotent=True))
    world = run_for(said(world, "app", "one"), 5_000)
    for broker_id in (2, 3):
        world = run_for(step(world, actions.Stop(broker_id)), 10_000)
    image = world.controller.image.topics["orders"].partitions[0]
    assert image.isr == (1,)
    assert len(image.elr) == 1
    world = run_for(said(step(world, actions.Kill(1)), "app", "two"), 20_000)
    assert leader(world) == -1
    for broker_id in (2, 3):
        world = run_for(step(world, actions.Start(broker_id)), 30_000)
    assert [e.kind for e in world.truth.elections][-1] in ("elr", "clean")
    assert "elr" in [e.kind for e in world.truth.elections]
    assert texts(world, leader(world)) == ["one", "two"]
    assert not list(world.truth.losses)


def test_retries_through_a_leaders_death_write_everything_once() -> None:
    world = cluster(config={"min.insync.replicas": "2"})
    producer = actions.StartProducer(
        client="app", idempotent=True, producer_id=1234, first_sequence=2**31 - 30, request_timeout_ms=2_000
    )
    world = step(world, producer)
    start = world.now_ms
    calls = [
        (start + 10 * i, actions.ProduceCall(client="app", partition=ORDERS, records=values(f"{i}a", f"{i}b")))
        for i in range(200)
    ]
    world = scheduled_all(world, [*calls, (start + 777, actions.Kill(1))])
    world = run_for(world, 40_000)
    assert leader(world) != 1
    assert not said_twice(world, ORDERS)
    assert texts(world, leader(world)) == [f"{i}{x}" for i in range(200) for x in "ab"]
    assert sum(len(a.digests) for a in world.truth.acknowledged) == 400


def test_a_late_batch_of_a_restarted_producers_old_epoch_is_refused() -> None:
    world = cluster(config={"min.insync.replicas": "2"})
    world = step(world, actions.StartProducer(client="app", idempotent=True, producer_id=1234, first_sequence=100))
    world = run_for(said(world, "app", *map(str, range(100, 110))), 1_000)
    late = [e for e in world.queue if "ProduceRequest" in type(getattr(e[2], "message", None)).__name__]
    assert not late
    world = said(world, "app", "late")
    world = step(world, actions.RestartProducer("app"))
    delayed = next(e for e in world.queue if "ProduceRequest" in type(getattr(e[2], "message", None)).__name__)
    world = run_for(said(world, "app", *map(str, range(110, 120))), 1_000)
    before = texts(world, 1)
    world = run_for(step(world, delayed[2]), 1_000)
    assert texts(world, 1) == before
    held = world.brokers[1].disk.replicas[ORDERS].log.producers.states[1234]
    assert (held.producer_epoch, held.last_sequence) == (1, 9)
