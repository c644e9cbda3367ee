"""The literature's stories, with the numbers that they have there: scenarios that are written as files.

In: the files in `literature/`. Out: `SCENARIOS`. `docs/concepts/literature.md` says which claim each is for.
"""

from pathlib import Path
from typing import Final

from tidegauge.sim_engine.scenarios.written.playing import as_scenario
from tidegauge.sim_engine.scenarios.written.reading import read_scenario

LITERATURE: Final = Path(__file__).parent / "literature"

SCENARIOS: Final = tuple(as_scenario(read_scenario(path)) for path in sorted(LITERATURE.glob("*.yaml")))
