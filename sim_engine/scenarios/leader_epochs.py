"""What a leader had alone is cut when it returns: the story that leader epochs were made for.

In: a seed. Out: the story's moments. Source: KIP-101, KIP-320; Kafka AbstractFetcherThread.
"""

from typing import Final

from tidegauge.sim_engine.engine import run_for
from tidegauge.sim_engine.scenarios.scenario import Moment, Played, Scenario
from tidegauge.sim_engine.scenarios.stage import (
    LAGGING_MS,
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


def leader_epoch_truncation(seed: int) -> Played:
    """Three brokers A, B, C; A leads. M1 reaches all of them. C is cut off from A and leaves the ISR; M2 reaches A
    and B. B is cut off too, and M3 is on A alone. A dies, B leads with epoch 1 and takes M4 at offset 2. A returns.

    Truth: M3 (offset 2, epoch 0) was acknowledged under acks=1 and never committed; it is lost when B is chosen. M1
    and M2 were committed and stay. When A returns it cuts [2, 3) and takes M4. All epoch caches are (0 -> 0, 1 -> 2).

    An audit finds, while A is away, that A holds one record which it will cut, that was never committed (D05, a fact,
    no breach). When A is back there is nothing to find.
    """
    world = with_producer(cluster(seed), "app", acks=1)
    world = run_for(said(world, "app", "M1"), 2_000)
    world = run_for(said(cut(world, A, C), "app", "M2"), LAGGING_MS)
    world = run_for(said(cut(world, A, B), "app", "M3"), SETTLED_MS)
    world = with_next_producer(killed(world, A), "app-2")
    world = run_for(said(world, "app-2", "M4"), 8_000)
    m3 = (lost(2, 3, committed=False),)
    away = Moment(
        name="a-is-away",
        what="A is dead with M3; B leads, and M4 is on B and C.",
        world=world,
        losses=m3,
        findings=(found("D05", A, 2, 3),),
    )
    world = started(healed(world), A)
    back = Moment(name="a-is-back", what="A has cut M3 and taken M4.", world=world, losses=m3)
    return Played((away, back))


SCENARIOS: Final = (
    Scenario(
        name="leader-epoch-truncation",
        about="what a dead leader had alone is cut when it returns",
        play=leader_epoch_truncation,
    ),
)
