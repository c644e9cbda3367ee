"""What is missing in a log whose policy nobody knows: cleaned away once, perhaps, or lost."""

from typing import Any

import pytest
from numpy.typing import NDArray

from tests.facts.logs import Disks, batch, context, headers, replica_input, segment
from tidegauge.facts.cleanup.upkeep import works_on
from tidegauge.facts.metadata.upkeep_context import UpkeepContext
from tidegauge.facts.replicas.cleaning_doubt import NO_DOUBT, CleaningDoubt
from tidegauge.facts.replicas.replica_set import ReplicaSet, replica_set

WHOLE = (batch(0, 5), batch(5, 5), batch(10, 5))
HOLED = (batch(0, 5), batch(10, 5))
THINNED = (batch(0, 5), batch(5, 5, record_count=3), batch(10, 5))
EMPTIED = (batch(0, 5), batch(5, 5, record_count=0), batch(10, 5))


def held(*logs: tuple[NDArray[Any], ...], whole: bool = False, **given: Any) -> ReplicaSet:
    """A partition's replicas, by a metadata log that has its topic's creation or has not."""
    rows = [headers(*log) for log in logs]
    inputs = [replica_input(segment(r), broker_id=n, **given) for n, r in enumerate(rows, 1)]
    known = context(upkeep=UpkeepContext(history_whole=whole))
    return replica_set(known, inputs, read=Disks(**{f"broker_{n}": r for n, r in enumerate(rows, 1)}))


@pytest.mark.parametrize(
    ("logs", "doubt"),
    [
        ((WHOLE, WHOLE), NO_DOUBT),
        ((HOLED, HOLED), CleaningDoubt(assumed=True)),
        ((THINNED, THINNED), CleaningDoubt(assumed=True)),
        ((HOLED,), CleaningDoubt(assumed=True)),
        ((HOLED, WHOLE), CleaningDoubt(held_elsewhere={(1, 0, "offset_gap"): 1})),
        ((WHOLE, THINNED), CleaningDoubt(held_elsewhere={(2, 0, "short_batch"): 1})),
        # What a cleaner may have thinned out here it may have taken away there.
        ((HOLED, THINNED), CleaningDoubt(assumed=True)),
        # A replica that ends before the hole has nothing to say of it.
        ((HOLED, WHOLE[:1]), CleaningDoubt(assumed=True)),
        # A cleaner's own traces leave no doubt.
        ((EMPTIED, HOLED), NO_DOUBT),
    ],
)
def test_only_another_replica_tells_that_it_was_not_cleaned_away(
    logs: tuple[tuple[NDArray[Any], ...], ...], doubt: CleaningDoubt
) -> None:
    assert held(*logs).cleaning == doubt


def test_a_topic_whose_history_is_known_leaves_no_doubt() -> None:
    assert held(HOLED, HOLED, whole=True).cleaning == NO_DOUBT
    assert held(HOLED, HOLED, cleaner_offset=0).cleaning == NO_DOUBT


def test_a_log_that_may_have_been_cleaned_is_compared_as_one_that_was_and_not_read_as_one() -> None:
    doubted = held(HOLED, HOLED)
    assert [(f.ever_compacted, f.compaction_assumed) for f in doubted.live] == [(True, True)] * 2
    assert not any(works_on(doubted.context, f) for f in doubted.live)
    (cleaned,) = held(HOLED, cleaner_offset=0).live
    assert (cleaned.ever_compacted, cleaned.compaction_assumed) == (True, False)
