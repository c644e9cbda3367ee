"""What followers lost and kept before they knew leader epochs, and what each step of the protocol repaired."""

import pytest

from tests.sim_engine.clusters import ORDERS, batches, cluster, cut_off, leader, said, texts
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.disks import disk_actions
from tidegauge.sim_engine.disks.disk_faults import FaultKind
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.settings import Generation, Settings
from tidegauge.sim_engine.world import World

A, B, C = 1, 2, 3


def of(generation: Generation, replicas: tuple[int, ...]) -> World:
    world = cluster(assignment=[replicas], settings=Settings(generation=generation))
    return step(world, actions.StartProducer(client="app", request_timeout_ms=2_000))


def after_two_leaders_died(generation: Generation) -> World:
    """M2 is committed on all three, of which two do not know it yet; C dies, A leads, B cannot reach it, A dies."""
    world = run_for(said(of(generation, (C, A, B)), "app", "M1"), 2_000)
    world = said(world, "app", "M2")
    while len(world.truth.acknowledged) < 2:
        world = run_for(world, 1)
    logs = {b: world.brokers[b].disk.replicas[ORDERS].log for b in (A, B, C)}
    assert [logs[b].high_watermark for b in (A, B, C)] == [1, 1, 2]
    world = cut_off(step(world, actions.Kill(C)), broker_node(A), broker_node(B))
    world = run_for(world, 12_000)
    assert leader(world) == A
    world = run_for(step(world, actions.Kill(A)), 12_000)
    assert leader(world) == B
    return world


def test_a_follower_that_cuts_at_its_high_watermark_loses_what_is_committed() -> None:
    world = after_two_leaders_died(Generation.HIGH_WATERMARK)
    assert texts(world, B) == ["M1"]
    losses = [(x.start_offset, x.end_offset, x.committed, x.cause) for x in world.truth.losses]
    assert losses == [(1, 2, True, "clean election after high watermark")]


@pytest.mark.parametrize("generation", [g for g in Generation if g >= Generation.KIP_101])
def test_a_follower_that_asks_for_epochs_keeps_it(generation: Generation) -> None:
    world = after_two_leaders_died(generation)
    assert texts(world, B) == ["M1", "M2"]
    assert not list(world.truth.losses)


def after_both_died_and_one_forgot(generation: Generation) -> World:
    """Both hold M1 and M2; both die, B's disk forgets M2; B returns first and takes M3; then A returns."""
    world = of(generation, (A, B))
    world = run_for(said(run_for(said(world, "app", "M1"), 2_000), "app", "M2"), 12_000)
    world = run_for(step(step(world, actions.Kill(A)), actions.Kill(B)), 12_000)
    forget = disk_actions.HurtDisk(broker_id=B, partition=ORDERS, kind=FaultKind.LOST_FLUSH, offset=1)
    world = run_for(step(step(world, forget), actions.Start(B)), 20_000)
    if leader(world) != B:
        world = run_for(step(world, actions.Elect(ORDERS, unclean=True)), 2_000)
    world = run_for(said(world, "app", "M3"), 10_000)
    return run_for(step(world, actions.Start(A)), 40_000)


def test_replicas_that_cut_at_their_high_watermarks_diverge() -> None:
    world = after_both_died_and_one_forgot(Generation.HIGH_WATERMARK)
    assert (texts(world, A), texts(world, B)) == (["M1", "M2"], ["M1", "M3"])


@pytest.mark.parametrize("generation", [g for g in Generation if g >= Generation.KIP_101])
def test_replicas_that_ask_for_epochs_agree(generation: Generation) -> None:
    world = after_both_died_and_one_forgot(generation)
    assert texts(world, A) == texts(world, B) == ["M1", "M3"]
    assert [(x.start_offset, x.end_offset) for x in world.truth.losses if x.committed] == [(1, 2)]


def after_a_fast_failover(generation: Generation) -> World:
    """A leads and writes alone; B is preferred and writes alone over it; A leads again; B returns to it."""
    world = run_for(step(of(generation, (B, A)), actions.Stop(B)), 5_000)
    world = step(world, actions.StartProducer(client="one", acks=1, request_timeout_ms=2_000))
    world = run_for(said(run_for(step(world, actions.Start(B)), 20_000), "one", "0"), 2_000)
    assert leader(world) == A
    assert world.controller.image.topics["orders"].partitions[0].isr in ((A, B), (B, A))
    world = cut_off(world, broker_node(A), broker_node(B))
    world = run_for(said(run_for(said(world, "one", "a1"), 500), "one", "a2"), 500)
    world = run_for(step(world, actions.Elect(ORDERS)), 500)
    assert leader(world) == B
    world = run_for(said(run_for(said(world, "one", "b1"), 1_000), "one", "b2"), 1_000)
    world = run_for(step(world, actions.Kill(B)), 12_000)
    assert leader(world) == A
    world = run_for(said(world, "one", "a3"), 8_000)
    world = cut_off(world, broker_node(A), broker_node(B), heal=True)
    return run_for(step(world, actions.Start(B)), 40_000)


def test_one_answer_about_epochs_does_not_find_where_two_fast_failovers_parted() -> None:
    world = after_a_fast_failover(Generation.KIP_101)
    assert texts(world, A) == ["0", "a1", "a2", "a3"]
    assert texts(world, B) == ["0", "b1", "b2", "a3"]


@pytest.mark.parametrize("generation", [g for g in Generation if g >= Generation.KIP_279])
def test_answers_that_name_the_epoch_do(generation: Generation) -> None:
    world = after_a_fast_failover(generation)
    assert texts(world, A) == texts(world, B) == ["0", "a1", "a2", "a3"]
    assert [b.data for b in batches(world, A)] == [b.data for b in batches(world, B)]
