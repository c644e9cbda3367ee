"""Scores in the store: once for the same seeds, all of it or nothing."""

import pytest

from tests.store.helpers import rows
from tidegauge.runs.errors import StoreError
from tidegauge.store.scores import publish_score

SCORE = {
    "ruleset_version": "9",
    "worlds": 200,
    "fault_free_worlds": 100,
    "scenarios": 16,
    "snapshots": 450,
    "live_copies": 120,
    "fault_free_alarms": 0,
    "losses": 40,
    "losses_exact": 38,
    "losses_unseen": 2,
    "invariants": [
        {"code": "A03", "name": "BatchChecksum", "should_catch": 20, "caught": 19, "missed": 1, "false_alarms": 0},
        {
            "code": "D06",
            "name": "NoCommittedTruncation",
            "should_catch": 0,
            "caught": 0,
            "missed": 0,
            "false_alarms": 2,
        },
    ],
    "failures": [{"case": "seed 7", "what": "A03 missed", "replay": "tidegauge simulate --seed 7"}],
}
SHOWN = "SELECT first_seed, last_seed, first_sound_seed, worlds, losses_exact, code, caught, missed, false_alarms FROM "


def published(url: str, run_id: str) -> list[tuple[object, ...]]:
    return rows(url, SHOWN + "tidegauge.v_score WHERE run_id = %s ORDER BY code", run_id)


def test_a_score_is_a_row_an_invariant(url: str) -> None:
    run_id = publish_score(url, SCORE, seeds=(1, 200), fault_free=(201, 300))
    assert published(url, run_id) == [
        (1, 200, 201, 200, 38, "A03", 19, 1, 0),
        (1, 200, 201, 200, 38, "D06", 0, 0, 2),
    ]
    assert rows(url, "SELECT failures FROM tidegauge.score_run WHERE run_id = %s", run_id) == [(SCORE["failures"],)]


def test_the_same_seeds_again_replace_it(url: str) -> None:
    first = publish_score(url, SCORE, seeds=(1000, 1009), fault_free=None)
    better = {**SCORE, "invariants": [{**SCORE["invariants"][0], "caught": 20, "missed": 0}]}
    assert publish_score(url, better, seeds=(1000, 1009), fault_free=None) == first
    assert published(url, first) == [(1000, 1009, None, 200, 38, "A03", 20, 0, 0)]


def test_other_seeds_or_another_ruleset_stand_beside_it(url: str) -> None:
    found = {
        publish_score(url, SCORE, seeds=(2000, 2009), fault_free=None),
        publish_score(url, SCORE, seeds=(2010, 2019), fault_free=None),
        publish_score(url, SCORE, seeds=None, fault_free=(2000, 2009)),
        publish_score(url, {**SCORE, "ruleset_version": "10"}, seeds=(2000, 2009), fault_free=None),
    }
    assert len(found) == 4
    assert all(len(published(url, run_id)) == 2 for run_id in found)


def test_a_score_that_cannot_be_kept_leaves_the_old_one(url: str) -> None:
    run_id = publish_score(url, SCORE, seeds=(3000, 3009), fault_free=None)
    twice = {**SCORE, "invariants": SCORE["invariants"][:1] * 2}
    with pytest.raises(StoreError, match="duplicate key"):
        publish_score(url, twice, seeds=(3000, 3009), fault_free=None)
    assert len(published(url, run_id)) == 2
