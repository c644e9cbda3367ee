"""Which broker's copy of a coordinator's log is read."""

import pytest

from tidegauge.derivation.gathering.coordinator_logs import speaker

CASES = {
    "the leader": ({1: 20, 2: 32}, {1: 1, 2: 1}, 1, 2, 1),
    "a leader that was not captured": ({1: 20, 2: 32}, {1: 1, 2: 1}, 3, 3, 2),
    "nobody leads, all alike": ({1: 32, 2: 32, 3: 32}, {1: 1, 2: 1, 3: 1}, None, 3, 3),
    "the last leader led on, and the others had more that it cut": ({1: 32, 2: 19}, {1: 0, 2: 1}, None, 2, 2),
    "the last leader came back with an older disk": ({1: 32, 2: 19}, {1: 0, 2: 0}, None, 2, 1),
    "no checkpoint of an epoch": ({1: 32, 2: 19}, {2: 0}, None, 1, 2),
}


@pytest.mark.parametrize(("ends", "epochs", "leader", "last_leader", "expected"), CASES.values(), ids=CASES)
def test_who_speaks_for_a_coordinators_partition(
    ends: dict[int, int], epochs: dict[int, int], leader: int | None, last_leader: int, expected: int
) -> None:
    assert speaker(ends, epochs=epochs, leader_id=leader, last_leader_id=last_leader) == expected
