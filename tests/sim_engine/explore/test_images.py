"""What of a state its disks show."""

import hashlib

import pytest

from tidegauge.sim_engine.explore.layout import Constants
from tidegauge.sim_engine.explore.render_state import disks_of, image_of
from tidegauge.sim_engine.explore.rules import Model
from tidegauge.sim_engine.explore.search import Explorer
from tidegauge.sim_engine.files.render import render_broker

SMALL = Constants(replicas=2, log_size=1, max_records=1, max_leader_epoch=1)


@pytest.mark.parametrize("model", [Model.KafkaTruncateToHighWatermark, Model.Kip320])
def test_states_have_the_same_files_exactly_if_their_image_is_the_same(model: Model) -> None:
    explorer = Explorer(model, SMALL)
    explorer.explore()
    files: dict[object, str] = {}
    for fields in list(explorer.states())[::3]:
        digest = hashlib.sha256()
        for disk in disks_of(explorer.layout, fields):
            for name, file in render_broker(disk):
                digest.update(f"{disk.broker_id}/{name} {file.size_bytes} ".encode() + file.data)
        assert files.setdefault(image_of(explorer.layout, fields), digest.hexdigest()) == digest.hexdigest()
    assert len(set(files.values())) == len(files)
