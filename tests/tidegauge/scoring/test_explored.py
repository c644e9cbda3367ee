"""A whole explored space, audited."""

import pytest

from sim_engine.explore.layout import Constants
from sim_engine.explore.rules import Model
from sim_engine.explore.search import Explorer
from spark_jobs.store import migrate
from tidegauge.scoring.explored import Explored, explored, table

pytestmark = pytest.mark.slow

CONSTANTS = Constants(replicas=2, log_size=1, max_records=1, max_leader_epoch=2)


@pytest.fixture(scope="module")
def found(store_url: str) -> dict[Model, Explored]:
    migrate(store_url)
    models = (Model.KafkaTruncateToHighWatermark, Model.Kip320)
    return {model: explored(model, CONSTANTS, url=store_url, progress=lambda _: None) for model in models}


@pytest.mark.parametrize("model", [Model.KafkaTruncateToHighWatermark, Model.Kip320])
def test_every_state_is_audited_and_counted_once(found: dict[Model, Explored], model: Model) -> None:
    one, explorer = found[model], Explorer(model, CONSTANTS)
    reached = explorer.explore()
    assert (one.states, one.violating) == (reached.distinct_states, reached.violating_states)
    assert one.images < one.states
    assert one.reported + one.missed == one.violating


@pytest.mark.parametrize("model", [Model.KafkaTruncateToHighWatermark, Model.Kip320])
def test_what_violates_is_reported_and_nothing_else_is(found: dict[Model, Explored], model: Model) -> None:
    assert (found[model].missed, found[model].false) == (0, 0)


def test_the_table_has_a_row_a_space(found: dict[Model, Explored]) -> None:
    lines = list(table(found.values()))
    assert len(lines) == 4
    assert lines[2].startswith("| KafkaTruncateToHighWatermark | 2, 1, 1, 2 |")
