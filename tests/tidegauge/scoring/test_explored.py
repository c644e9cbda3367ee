"""A whole explored space, audited: some hundred states a model.

`TIDEGAUGE_EXPLORED_EPOCHS=2` (1 by default) takes thousands, and minutes.
"""

import os

import pytest

from tidegauge.scoring.explored import Explored, explored, table
from tidegauge.sim_engine.explore.layout import Constants
from tidegauge.sim_engine.explore.rules import Model
from tidegauge.sim_engine.explore.search import Explorer
from tidegauge.store import migrate

pytestmark = pytest.mark.slow

EPOCHS = int(os.environ.get("TIDEGAUGE_EXPLORED_EPOCHS", "1"))
CONSTANTS = Constants(replicas=2, log_size=1, max_records=1, max_leader_epoch=EPOCHS)


@pytest.fixture(scope="module")
def found(store_url: str) -> dict[Model, Explored]:
    migrate(store_url)
    return dict(zip(Model, explored(tuple(Model), CONSTANTS, url=store_url), strict=True))


@pytest.mark.parametrize("model", list(Model))
def test_every_state_is_audited_and_counted_once(found: dict[Model, Explored], model: Model) -> None:
    one, explorer = found[model], Explorer(model, CONSTANTS)
    reached = explorer.explore()
    assert (one.states, one.violating) == (reached.distinct_states, reached.violating_states)
    assert one.images < one.states
    assert one.reported + one.missed == one.violating


@pytest.mark.parametrize("model", list(Model))
def test_what_violates_is_reported_and_nothing_else_is(found: dict[Model, Explored], model: Model) -> None:
    assert (found[model].missed, found[model].false) == (0, 0)


def test_the_table_has_a_row_a_space(found: dict[Model, Explored]) -> None:
    lines = list(table(found.values()))
    assert len(lines) == 2 + len(Model)
    assert lines[2].startswith(f"| KafkaTruncateToHighWatermark | 2, 1, 1, {EPOCHS} |")


def test_what_is_said_of_a_model_is_what_is_said_of_it_alone(found: dict[Model, Explored], store_url: str) -> None:
    """Most disks are reached by several models, and audited once for all of them."""
    assert explored([Model.Kip320], CONSTANTS, url=store_url) == (found[Model.Kip320],)
