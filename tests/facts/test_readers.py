"""What commits tell of a log, by its leader epochs and by its batches."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tidegauge.facts.replicas.epochs import epoch_vector
from tidegauge.facts.replicas.readers import reading_columns
from tidegauge.facts.segments.summary import EPOCH_RUN
from tidegauge.kafka_log.checkpoints import EpochEntry

IN_ORDER = (EpochEntry(leader_epoch=0, start_offset=0), EpochEntry(leader_epoch=2, start_offset=42))
RUNS = ((0, 0, 42), (2, 42, 136))
"""Leader epoch, first offset and end of the batches of a log."""


def replica(checkpoint: tuple[EpochEntry, ...], runs: tuple[tuple[int, int, int], ...]) -> Any:
    epoch_runs = np.zeros(len(runs), dtype=EPOCH_RUN)
    for row, (epoch, start, end) in zip(epoch_runs, runs, strict=True):
        row["leader_epoch"], row["start_offset"], row["end_offset"] = epoch, start, end
    vector = epoch_vector(
        checkpoint=checkpoint, batch_epochs=(), log_start_offset=0, log_end_offset=runs[-1][2] if runs else 0
    )
    return SimpleNamespace(vector=vector, summary=SimpleNamespace(epoch_runs=epoch_runs))


@pytest.mark.parametrize("checkpoint", [IN_ORDER, IN_ORDER[::-1]], ids=["in order", "in disorder"])
def test_what_stands_in_the_log_under_the_epoch_that_was_read_was_not_cut_off(
    checkpoint: tuple[EpochEntry, ...],
) -> None:
    told = reading_columns({2: 131}, replica(checkpoint, RUNS), 2)
    assert (told["read_leader_epoch"], told["read_end_offset"]) == (None, None)


def test_what_was_read_beyond_the_batches_of_its_epoch_was_cut_off() -> None:
    newer = (*IN_ORDER, EpochEntry(leader_epoch=3, start_offset=100))
    told = reading_columns({2: 131}, replica(newer, ((0, 0, 42), (2, 42, 100), (3, 100, 136))), 2)
    assert (told["read_leader_epoch"], told["read_end_offset"], told["epoch_end_offset"]) == (2, 131, 100)
