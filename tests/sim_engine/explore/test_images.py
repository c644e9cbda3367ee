"""What of a state its disks show, and what is reached only through a lost record."""

import hashlib

import pytest

from sim_engine.explore.layout import Constants
from sim_engine.explore.render_state import disks_of, image_of
from sim_engine.explore.rules import Model, breaks_strong_isr
from sim_engine.explore.search import Explorer
from sim_engine.rendering.render import render_broker

SMALL = Constants(replicas=2, log_size=1, max_records=1, max_leader_epoch=1)


def explored(model: Model, constants: Constants = SMALL, *, beyond_violations: bool = True) -> Explorer:
    explorer = Explorer(model, constants, beyond_violations=beyond_violations)
    explorer.explore()
    return explorer


@pytest.mark.parametrize("model", [Model.KafkaTruncateToHighWatermark, Model.Kip320])
def test_states_have_the_same_files_exactly_if_their_image_is_the_same(model: Model) -> None:
    explorer = explored(model)
    files: dict[object, str] = {}
    for fields in list(explorer.states())[::3]:
        digest = hashlib.sha256()
        for disk in disks_of(explorer.layout, fields):
            for name, file in render_broker(disk):
                digest.update(f"{disk.broker_id}/{name} {file.size_bytes} ".encode() + file.data)
        assert files.setdefault(image_of(explorer.layout, fields), digest.hexdigest()) == digest.hexdigest()
    assert len(set(files.values())) == len(files)


def test_without_going_beyond_a_violation_all_else_is_still_reached() -> None:
    constants = Constants(replicas=2, log_size=2, max_records=2, max_leader_epoch=2)
    model = Model.KafkaTruncateToHighWatermark
    whole, short = explored(model, constants), explored(model, constants, beyond_violations=False)
    layout = whole.layout

    def violates(fields) -> bool:  # type: ignore[no-untyped-def]
        return bool(breaks_strong_isr(fields, 2, layout.replicas_at, layout.replica_fields))

    everything = {fields.tobytes(): violates(fields) for fields in whole.states()}
    reached = {fields.tobytes() for fields in short.states()}
    assert reached < everything.keys()
    assert any(everything[state] for state in reached)
    assert any(not everything[state] for state in everything.keys() - reached)


def test_a_model_that_loses_nothing_has_nothing_beyond() -> None:
    constants = Constants(replicas=2, log_size=2, max_records=2, max_leader_epoch=2)
    whole = explored(Model.Kip320, constants)
    short = explored(Model.Kip320, constants, beyond_violations=False)
    assert len(list(short.states())) == len(list(whole.states())) == 5973
