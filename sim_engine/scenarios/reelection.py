"""An idempotent producer whose leader dies: nothing is lost, and nothing is written twice.

In: a seed. Out: the story's moments. Source: KIP-98, KIP-360; Kafka ProducerStateManager.
"""

from typing import Final

from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.network import broker_node, client_node
from tidegauge.sim_engine.scenarios.scenario import Moment, Played, Scenario
from tidegauge.sim_engine.scenarios.stage import (
    CHECKPOINTED_MS,
    SETTLED_MS,
    A,
    B,
    C,
    cluster,
    cut,
    found,
    healed,
    killed,
    numbered,
    said,
    started,
)
from tidegauge.sim_engine.world import World

PRODUCER_ID: Final = 1234


def reelection_idempotence(seed: int) -> Played:
    """Producer 1234 writes sequences 0-99 to A. 100-104 reach all replicas, but A's answer gets lost; 105-109 reach A
    alone. A dies. The producer sends 100-109 again, to B, and then 110-119. It restarts: its epoch is 1 and its
    sequences begin at 0. A late batch of its former life, with epoch 0, comes last. A returns.

    Truth: B knows 100-104 and answers with their offsets; it takes 105-109 for the first time. Offsets 0-119 are
    sequences 0-119 of epoch 0, each once; [120, 130) are sequences 0-9 of epoch 1. The late batch is refused
    (INVALID_PRODUCER_EPOCH). A cuts its own copy of 105-109, of which the producer had no answer. Nothing is lost.

    An audit finds, while A is away, that A holds five records that it will cut and that were never committed (D05, a
    fact). It finds no gap, no duplicate and no regress of sequences or epochs.
    """
    world = _with_ids(cluster(seed))
    call = actions.StartProducer(
        client="app", idempotent=True, producer_id=PRODUCER_ID, producer_epoch=0, request_timeout_ms=2_000
    )
    world = numbered(run_for(step(world, call), SETTLED_MS), "app", 0, 100)
    world = step(world, actions.Cut(broker_node(A), client_node("app")))
    world = run_for(said(world, "app", *(f"order {n}" for n in range(100, 105))), 200)
    for other in (B, C):
        world = cut(world, A, other)
    world = run_for(said(world, "app", *(f"order {n}" for n in range(105, 110))), 200)
    world = killed(world, A)
    world = numbered(world, "app", 110, 120)
    away = Moment(
        name="a-is-away",
        what="A is dead with its own copy of 105-109; B leads, and has 0-119.",
        world=run_for(world, CHECKPOINTED_MS),
        findings=(found("D05", A, 105, 110),),
    )
    world = numbered(step(world, actions.RestartProducer("app")), "app", 0, 10)
    late = actions.StartProducer(
        client="late", idempotent=True, producer_id=PRODUCER_ID, producer_epoch=0, first_sequence=120
    )
    world = run_for(said(run_for(step(world, late), SETTLED_MS), "late", "too late"), SETTLED_MS)
    world = started(healed(world), A)
    back = Moment(name="a-is-back", what="All replicas have 0-129.", world=world)
    return Played((away, back))


def _with_ids(world: World) -> World:
    """Producers have been here before: the controller has given out ids beyond 1234."""
    for number in range(16):
        world = step(world, actions.StartProducer(client=f"earlier-{number}", idempotent=True))
    return run_for(world, SETTLED_MS)


SCENARIOS: Final = (
    Scenario(
        name="reelection-idempotence",
        about="a leader dies under an idempotent producer: no record is lost or doubled",
        play=reelection_idempotence,
    ),
)
