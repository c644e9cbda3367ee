"""All scenarios by name, in the order in which they are told.

In: the families of stories. Out: `SCENARIOS`. The rule that must hold: a name is never given twice, and never
changes.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidegauge.sim_engine.scenarios import (
    compaction,
    disks,
    leader_epochs,
    reelection,
    remote_tier,
    shipped,
    transactions,
    truncation_protocols,
    unclean_election,
)
from tidegauge.sim_engine.scenarios.scenario import Scenario

_FAMILIES: Final = (
    leader_epochs,
    unclean_election,
    reelection,
    truncation_protocols,
    transactions,
    compaction,
    disks,
    remote_tier,
    shipped,
)

SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {scenario.name: scenario for family in _FAMILIES for scenario in family.SCENARIOS}
)
