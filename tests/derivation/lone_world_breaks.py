"""A simulated cluster of its own in which one thing is broken, and the invariant that alone tells of it as a root.

In: an empty directory. Out: a snapshot in it.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.derivation.small_cluster import taken, written
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.snapshots.manifest import MANIFEST_NAME, Consistency

HOUR_MS: Final = 3_600_000


def transaction_that_hangs_for_hours(directory: Path) -> Path:
    """In a live copy, whose coordinator may have been copied at another moment: but by hours no copy is apart."""
    (moment,) = SCENARIOS["hanging-transaction"].play(1).moments
    path = taken(written(directory, moment.world)) / MANIFEST_NAME
    manifest = json.loads(path.read_text())
    for broker in manifest["brokers"]:
        broker["read_started_at_ms"] = broker["read_finished_at_ms"] = moment.world.now_ms + 9 * HOUR_MS
    path.write_text(json.dumps(manifest | {"consistency": Consistency.FUZZY}))
    return directory


LONE_WORLD_BREAKS: Final[Mapping[Callable[[Path], Path], str]] = MappingProxyType(
    {transaction_that_hangs_for_hours: "F08"}
)
