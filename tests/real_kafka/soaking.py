"""A soak's life: traffic flows, faults come and go, captures are taken on the way.

In: a cluster made for it (`busy.BROKERS`), a ledger, a directory, kinds of faults, a seed. Out: the captures in their
order, and the fault that each fell into. The first fault begins when every part of the traffic flows. Most faults come
alone, the cluster is whole again before the next one, and every record that was sent has its answer when the last
capture is taken.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.judging import Taken, take
from tests.real_kafka.ledger import Ledger
from tests.real_kafka.rolling import ANSWERING, Fault
from tests.real_kafka.traffic import Traffic

DURING: Final = 2
"""Captures while a fault lasts, once each kind had one; one more follows each second fault."""
AFTER: Final = "after "
"""How the fault of a capture is named that is over, when every broker answers again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Captures:
    """Name -> capture, and name -> the fault that it fell into, in the order of time."""

    taken: dict[str, Taken] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


def one_round(kinds: Sequence[Fault]) -> int:
    """So many captures fall into faults of every one of these kinds."""
    return len(kinds) + len(kinds) // 2


def soak(
    cluster: KafkaCluster,
    ledger: Ledger,
    root: Path,
    *,
    kinds: Sequence[Fault],
    captures: int,
    headers_every: int,
    seed: int,
) -> Captures:
    """Lives until so many captures are there, one in `headers_every` of headers only."""
    dice = random.Random(seed)
    found = Captures()

    def capture(during: str) -> None:
        name = f"{len(found.taken):03}"
        mode = "headers" if len(found.taken) % headers_every == headers_every - 1 else "full"
        lives = ledger.lives()
        ask = during in ANSWERING or during.startswith(AFTER)
        copy = take(cluster, ledger, root, name, ask=ask, mode=mode)
        # A topic whose end began meanwhile may be there or not.
        lives_after = ledger.lives()
        still = {
            place: records
            for place, records in copy.acknowledged.items()
            if lives_after.get(place[0]) == lives.get(place[0])
        }
        found.taken[name] = replace(copy, acknowledged=still)
        found.faults[name] = during

    with Traffic(cluster, ledger, seed=seed) as traffic:
        traffic.wait_until_it_flows()
        order: list[Fault] = []
        lived = 0
        while len(found.taken) < captures:
            order = order or dice.sample(kinds, len(kinds))
            fault = order.pop()
            during = 1 if lived < len(kinds) else DURING
            with fault(cluster, dice):
                for _ in range(min(during, captures - len(found.taken))):
                    time.sleep(dice.uniform(0, 3))
                    traffic.check()
                    capture(fault.__name__)
            lived += 1
            if lived % 2 == 0 and len(found.taken) < captures:
                time.sleep(dice.uniform(0, 1))
                capture(f"{AFTER}{fault.__name__}")
            cluster.wait_all_in_sync()
            traffic.check()
    return found
