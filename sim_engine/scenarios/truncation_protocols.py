"""How followers cut their logs, from the high watermark to epochs: what each protocol lost, and what the next one
kept.

In: a seed. Out: one moment per protocol, of the same story. Source: KIP-101 (both of its scenarios), KIP-279.
"""

from typing import Final

from tidegauge.sim_engine import actions
from tidegauge.sim_engine.disks.disk_actions import HurtDisk
from tidegauge.sim_engine.disks.disk_faults import FaultKind
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.network import Link, broker_node
from tidegauge.sim_engine.scenarios.scenario import Moment, Played, Scenario
from tidegauge.sim_engine.scenarios.stage import (
    CHECKPOINTED_MS,
    ORDERS,
    SESSION_OVER_MS,
    SETTLED_MS,
    A,
    B,
    C,
    cluster,
    cut,
    found,
    healed,
    killed,
    lost,
    said,
    started,
    with_next_producer,
    with_producer,
)
from tidegauge.sim_engine.settings import Generation
from tidegauge.sim_engine.world import World


def kip_101_loss(seed: int) -> Played:
    """C leads; A and B follow. M1 is everywhere. M2 reaches A and B, and C commits and acknowledges it; A and B have
    not heard of that yet when C dies, so their high watermarks are still below it. A leads. B begins to follow A, but
    cannot reach it; then A dies, B leads, and takes M3.

    Truth, under truncation to the high watermark: B cuts M2 as it begins to follow, for it does not know that it was
    committed, and leads without it. M2 [1, 2) is lost. Under KIP-101, B would ask A before it cuts anything: it keeps
    M2, and nothing is lost.

    An audit finds, under truncation to the high watermark, that A and C will cut M2 when they return (D05), that C
    had declared it committed (D06), and that B has declared another record committed at its offset (D02); beside the
    ledger, that B lacks what was acknowledged (D19). Under KIP-101 it finds nothing.
    """
    without = _loss(seed, Generation.HIGH_WATERMARK)
    kept = _loss(seed, Generation.KIP_101)
    return Played(
        (
            Moment(
                name="truncate-to-high-watermark",
                what="A and C are dead with M2; B leads without it.",
                world=without,
                losses=(lost(1, 2),),
                findings=(
                    found("D02", C, 1, 2),
                    found("D05", A, 1, 2),
                    found("D05", C, 1, 2),
                    found("D06", A, 1, 2),
                    found("D06", C, 1, 2),
                    found("D19", None, 1, 2),
                ),
            ),
            Moment(name="kip-101", what="A and C are dead; B leads, with M2.", world=kept),
        )
    )


def _loss(seed: int, generation: Generation) -> World:
    world = with_producer(cluster(seed, assignment=((C, A, B),), generation=generation), "app")
    world = run_for(said(world, "app", "M1"), CHECKPOINTED_MS)
    for follower in (A, B):
        slow = Link(delay_ms=200, jitter_ms=0)
        world = step(world, actions.SetLink(broker_node(C), broker_node(follower), slow))
    # The answers with M2 are on their way; the next ones, with the new high watermark, get lost.
    world = run_for(said(run_for(world, 2_000), "app", "M2"), 100)
    for follower in (A, B):
        world = step(world, actions.Cut(broker_node(C), broker_node(follower)))
    world = run_for(world, CHECKPOINTED_MS)
    world = killed(cut(world, A, B), C)
    world = with_next_producer(killed(world, A), "app-2")
    return run_for(said(world, "app-2", "M3"), CHECKPOINTED_MS)


def kip_101_divergence(seed: int) -> Played:
    """A leads, B follows; M1 and M2 are on both and committed. Both lose power: A has everything on its disk, B's
    disk never got M2. B comes up first and leads, for it is the last that was in sync; it takes M3 at offset 1 and M4
    at offset 2. A comes up and follows B.

    Truth: M2 [1, 2) is lost when B leads. Under truncation to the high watermark, A keeps M2, which it knows to be
    committed, and takes M4 behind it: from then on A and B have different records at offset 1. Under KIP-101, A
    learns from B that epoch 0 ended at 1, cuts M2, and both have M1, M3, M4.

    An audit finds, under truncation to the high watermark, that A and B differ below the high watermark (D02), and
    where their epochs say that they do not (D07), that A is in the ISR all the same (D10), and that they do not agree
    where B's epoch begins (D04). Under KIP-101 all traces of M2 are gone. Under both the ledger tells that M2 was
    acknowledged and is missing (D19).
    """
    m2 = (lost(1, 2),)
    return Played(
        (
            Moment(
                name="truncate-to-high-watermark",
                what="A follows B with M2 where B has M3.",
                world=_divergence(seed, Generation.HIGH_WATERMARK),
                losses=m2,
                findings=(
                    found("D02", A, 1, 3),
                    found("D04", A, 1, 2),
                    found("D07", A, 1, 3),
                    found("D10", A, 1, 3),
                    found("D19", None, 1, 2),
                ),
            ),
            Moment(
                name="kip-101",
                what="A has cut M2 and follows B with the same records.",
                world=_divergence(seed, Generation.KIP_101),
                losses=m2,
                findings=(found("D19", None, 1, 2),),
                unseen="M2 is on no disk any more, and no copy of before is at hand; only the ledger tells.",
            ),
        )
    )


def _divergence(seed: int, generation: Generation) -> World:
    world = with_producer(cluster(seed, assignment=((A, B),), generation=generation), "app")
    world = run_for(said(world, "app", "M1"), 2_000)
    world = run_for(said(world, "app", "M2"), CHECKPOINTED_MS)
    world = step(killed(world, A, B), HurtDisk(broker_id=B, kind=FaultKind.LOST_FLUSH, partition=ORDERS, offset=1))
    world = with_next_producer(started(world, B, wait_ms=SESSION_OVER_MS), "app-2")
    world = run_for(said(world, "app-2", "M3"), 2_000)
    world = run_for(said(world, "app-2", "M4"), 2_000)
    return run_for(started(world, A), CHECKPOINTED_MS)


def kip_279_fast_failover(seed: int) -> Played:
    """A leads with epoch 0, B follows; unclean elections are on. M1 is on both. B is cut off, and A takes M2 at
    offset 1 under acks=1, which B does not get. A dies, B leads and takes M3 at offset 1, of which A does not hear. B
    dies, and A, which never followed B, leads; it takes M4 at offset 2. B returns and follows A.

    Truth: M3 [1, 2) was committed by B alone and is lost by the unclean election of A. M2 was acknowledged under
    acks=1 and lost when B was chosen, though it is A's record that stays in the end. Under KIP-101, B asks A where
    B's epoch ended; A, who never had it, says where its own next epoch begins, and B keeps M3 at offset 1 where A has
    M2. Under KIP-279, A answers with the epoch that it knows; B cuts M3 and takes M2.

    An audit finds the unclean election (K07) in both. Under KIP-101 it finds that B differs from A (D02, D07, D10),
    and beside the ledger that A lacks M3 (D19).
    """
    m3_and_m2 = (lost(1, 2), lost(1, 2, committed=False))
    return Played(
        (
            Moment(
                name="kip-101",
                what="B follows A with M3 where A has M2.",
                world=_fast_failover(seed, Generation.KIP_101),
                losses=m3_and_m2,
                findings=(
                    found("D02", B, 1, 3),
                    found("D07", B, 1, 3),
                    found("D10", B, 1, 3),
                    found("D19", None, 1, 2),
                    found("K07"),
                ),
            ),
            Moment(
                name="kip-279",
                what="B has cut M3 and follows A with the same records.",
                world=_fast_failover(seed, Generation.KIP_279),
                losses=m3_and_m2,
                findings=(found("K07"),),
            ),
        )
    )


def _fast_failover(seed: int, generation: Generation) -> World:
    config = {"unclean.leader.election.enable": "true"}
    world = cluster(seed, assignment=((A, B),), generation=generation, config=config)
    world = run_for(said(with_producer(world, "app", acks=1), "app", "M1"), 2_000)
    world = run_for(said(cut(world, A, B), "app", "M2"), SETTLED_MS)
    world = with_next_producer(killed(world, A), "app-2")
    world = run_for(said(world, "app-2", "M3"), 2_000)
    # A is up again, and cannot reach B, before B dies.
    world = killed(started(world, A, wait_ms=8_000), B)
    world = with_next_producer(world, "app-3")
    world = run_for(said(world, "app-3", "M4"), 2_000)
    return run_for(started(healed(world), B), CHECKPOINTED_MS)


SCENARIOS: Final = (
    Scenario(
        name="kip-101-loss",
        about="truncation to the high watermark loses a committed record; KIP-101 does not",
        play=kip_101_loss,
    ),
    Scenario(
        name="kip-101-divergence",
        about="truncation to the high watermark lets replicas differ; KIP-101 does not",
        play=kip_101_divergence,
    ),
    Scenario(
        name="kip-279-fast-failover",
        about="two quick failovers let replicas differ under KIP-101; not under KIP-279",
        play=kip_279_fast_failover,
    ),
)
