"""The story of three brokers and four messages: what a leader had alone is cut when it returns."""

from tests.sim_engine.clusters import ORDERS, batches, cluster, cut_off, epochs, leader, said, texts
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.settings import Generation, Settings
from tidegauge.sim_engine.world import World

A, B, C = 1, 2, 3


def three_messages(generation: Generation = Generation.ELR) -> World:
    """M1 on all, M2 on A and B, M3 on A alone; C left the ISR long ago."""
    world = cluster(settings=Settings(generation=generation))
    world = step(world, actions.StartProducer(client="app", acks=1, request_timeout_ms=2_000))
    world = run_for(said(world, "app", "M1"), 2_000)
    world = cut_off(world, broker_node(A), broker_node(C))
    world = run_for(said(world, "app", "M2"), 60_000)
    world = cut_off(world, broker_node(A), broker_node(B))
    return run_for(said(world, "app", "M3"), 1_000)


def test_what_only_the_dead_leader_had_is_cut_when_it_returns() -> None:
    world = three_messages()
    assert [texts(world, b) for b in (A, B, C)] == [["M1", "M2", "M3"], ["M1", "M2"], ["M1"]]
    world = run_for(step(world, actions.Kill(A)), 20_000)
    assert leader(world) == B
    world = run_for(said(world, "app", "M4"), 8_000)
    assert texts(world, B) == texts(world, C) == ["M1", "M2", "M4"]
    for other in (B, C):
        world = cut_off(world, broker_node(A), broker_node(other), heal=True)
    world = run_for(step(world, actions.Start(A)), 40_000)
    assert [texts(world, b) for b in (A, B, C)] == [["M1", "M2", "M4"]] * 3
    assert [epochs(world, b) for b in (A, B, C)] == [[(0, 0), (1, 2)]] * 3
    assert [b.leader_epoch for b in batches(world, A)] == [0, 0, 1]
    cuts = [(t.broker_id, t.start_offset, t.end_offset, t.cause) for t in world.truth.truncations]
    assert cuts == [(A, 2, 3, "diverging epoch")]


def test_the_ledger_tells_that_the_cut_record_was_acknowledged_but_never_committed() -> None:
    world = run_for(step(three_messages(), actions.Kill(A)), 20_000)
    told = [(loss.start_offset, loss.end_offset, loss.committed, loss.cause) for loss in world.truth.losses]
    assert told == [(2, 3, False, "clean election")]
    assert world.truth.high_watermark(ORDERS) == 2
