"""Whose marker it is that bears its data's epoch under version 2: a late one, a client's gone back, an operator's."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.facts.logs import ABORT, COMMIT, batch, context, marker, replica
from tests.facts.metadata_logs import a_log, record
from tidegauge.facts.coordinators.transactional_ids import Decision
from tidegauge.facts.metadata.config_history import SettingCourse
from tidegauge.facts.metadata.replay import replay
from tidegauge.facts.metadata.settings import Settings
from tidegauge.facts.replicas.watermarks import HighWatermarkBounds
from tidegauge.facts.transactions.producer_rows import transaction_rows
from tidegauge.facts.transactions.transaction_ends import transaction_end_rows
from tidegauge.facts.transactions.transaction_outcomes import transaction_outcomes
from tidegauge.facts.transactions.transaction_versions import tellings
from tidegauge.kafka_log.coordinator_records import TransactionState
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import RELATIONS

HOUR = 3_600_000
AT = 10 * HOUR
"""When the second transaction ended, by its leader's clock."""


def levels(*given: int, **options: Any) -> SettingCourse:
    """transaction.version has had these levels, each from a record of the metadata log on, one a second."""
    log = [record("FeatureLevelRecord", name="transaction.version", feature_level=level) for level in given]
    return Settings(replay(a_log(log), **options), None).levels("transaction.version")


ALWAYS_2 = levels(2)
FELL = levels(2, 1, 2)


def decided(
    epoch: int, outcome: str = "committed", *, version: int | None = 2, completed: bool = True
) -> tuple[int, Decision]:
    return 0, Decision(
        transactional_id="pay",
        producer_id=9,
        marker_epoch=epoch,
        outcome=outcome,
        partitions=(TopicPartition(topic="t", partition=0),),
        client_transaction_version=version,
        record_offset=epoch,
        decided_at_ms=AT,
        completed_offset=epoch + 1 if completed else None,
        completed_at_ms=AT,
    )


def state(epoch: int, name: str = "CompleteCommit", *, version: int | None = 2) -> dict[int, TransactionState]:
    return {
        9: TransactionState(
            transactional_id="pay",
            producer_id=9,
            producer_epoch=epoch,
            previous_producer_id=None,
            next_producer_id=None,
            timeout_ms=1,
            state=name,
            partitions=(TopicPartition(topic="t", partition=0),) if name == "Ongoing" else (),
            last_update_ms=1,
            start_ms=1,
            client_transaction_version=version,
            tombstone=False,
        )
    }


def data(offset: int, epoch: int, *, sequence: int = 0, at_ms: int = AT) -> Any:
    return batch(offset, 5, producer_id=9, producer_epoch=epoch, sequence=sequence, transactional=True, timestamp=at_ms)


def end(offset: int, epoch: int, kind: int = COMMIT, *, at_ms: int = AT) -> Any:
    return marker(offset, producer_id=9, producer_epoch=epoch, kind=kind, timestamp=at_ms)


def told(*rows: Any, **known: Any) -> list[tuple[int | None, bool | None]]:
    """Of each transaction its version, and whether an operator ended it."""
    known = {"transaction_states_known": True, "transaction_levels": ALWAYS_2, **known}
    return [(t.version, t.by_hand) for t in tellings(context(**known), replica(*rows))]


FIRST = (data(0, 0), end(5, 1))
"""A transaction of version 2: from now on its producer's epoch is 1."""
FIRST_ABORTED = (*FIRST, data(6, 1), end(11, 2, ABORT))


def test_a_commit_sent_again_behind_newer_data_came_late() -> None:
    late = (*FIRST, data(6, 1), end(11, 1))
    assert told(*late) == [(2, False), (2, False)]
    assert told(*late, data(12, 1, sequence=5), end(17, 2)) == [(2, False)] * 3


def test_the_same_after_the_level_fell_is_not_known_unless_the_coordinator_tells() -> None:
    rows = (*FIRST, data(6, 1), end(11, 1))
    assert told(*rows, transaction_levels=FELL) == [(2, False), (None, False)]
    decisions = (decided(1), decided(1, version=None))
    assert told(*rows, transaction_levels=FELL, decisions=decisions) == [(2, False), (1, False)]
    assert told(*rows, decisions=decisions) == [(2, False), (1, False)]
    assert told(*rows, transaction_levels=FELL, decisions=(decided(1), decided(2))) == [(2, False), (2, False)]


def test_a_level_that_fell_long_after_the_marker_explains_nothing() -> None:
    """Records of the metadata log are of the first seconds; the marker is hours older or younger than those."""
    rows = (*FIRST, data(6, 1, at_ms=-HOUR), end(11, 1, at_ms=-HOUR))
    assert told(*rows, transaction_levels=FELL) == [(2, False), (2, False)]


def test_which_level_it_was_before_the_metadata_log_begins_is_not_known() -> None:
    rows = (*FIRST, data(6, 1), end(11, 1))
    snapshot = a_log([record("FeatureLevelRecord", name="transaction.version", feature_level=2)])
    later = a_log([record("NoOpRecord")], start=1)
    for since_ms, version in ((20 * HOUR, None), (1 * HOUR, 2)):
        moved = [replace(logged, timestamp_ms=since_ms) for logged in later]
        known = Settings(replay(moved, snapshot=[replace(snapshot[0], offset=1)]), None).levels("transaction.version")
        assert told(*rows, transaction_levels=known) == [(2, False), (version, False)]
    assert told(*rows, transaction_levels=None) == [(2, False), (None, False)]


def test_what_no_marker_was_sent_for_before_cannot_come_late() -> None:
    """The epoch is of InitProducerId: nobody has ended anything with it."""
    rows = (*FIRST, data(6, 3), end(11, 3))
    assert told(*rows) == [(2, False), (None, False)]
    assert told(*rows, transaction_levels=FELL) == [(2, False), (1, False)]
    assert told(*rows, decisions=(decided(3, version=None),)) == [(2, False), (1, False)]
    assert told(*rows, decisions=(decided(4),)) == [(2, False), (2, False)], "its own decision is of version 2"


@pytest.mark.parametrize(
    ("version", "unbumped_again", "versions"),
    [
        (2, False, [2, 2]),  # the coordinator ended something else with this epoch: its marker came late
        (None, False, [2, 1]),  # the coordinator ended it so, for an older client
        (2, True, [2, 1, 1]),  # two transactions of one epoch are only possible under version 1
    ],
)
def test_a_client_that_goes_back_to_version_1_stops_bumping_its_epoch(
    version: int | None, unbumped_again: bool, versions: list[int | None]
) -> None:
    rows = [*FIRST, data(6, 2), end(11, 2)]
    if unbumped_again:
        rows += [data(12, 2, sequence=5), end(17, 2)]
    found = told(*rows, transactions_by_producer=state(2, version=version))
    assert [of for of, _ in found] == versions


@pytest.mark.parametrize("before", [FIRST, FIRST_ABORTED], ids=["committed", "aborted"])
def test_an_operator_aborts_in_the_epoch_of_the_data(before: tuple[Any, ...]) -> None:
    """What hangs is in no transaction of its coordinator, whichever way the one before ended."""
    epoch = 1 if before is FIRST else 2
    at = 6 * epoch
    known = {"transactions_by_producer": state(epoch), "decisions": (decided(epoch),)}
    assert told(*before, data(at, epoch), end(at + 5, epoch, ABORT), **known)[-1] == (None, True)
    behind = (data(at + 6, epoch + 2), end(at + 11, epoch + 3))
    assert told(*before, data(at, epoch), end(at + 5, epoch, ABORT), *behind)[-2:] == [(None, True), (2, False)]


def test_an_operator_aborts_a_producers_only_transaction() -> None:
    assert told(data(0, 4), end(5, 4, ABORT)) == [(None, True)]


def test_an_abort_sent_again_while_the_next_transaction_runs_came_late() -> None:
    late = (*FIRST_ABORTED, data(12, 2), end(17, 2, ABORT))
    assert told(*late, end(18, 3))[-1] == (2, False)
    assert told(*late, data(18, 2, sequence=5), end(23, 3))[-2] == (2, False)
    assert told(*late, transactions_by_producer=state(2, "Ongoing"))[-1] == (2, False)
    assert told(*late, transaction_states_known=False)[-1] == (None, None), "nobody tells whether it runs"


def test_an_operator_that_aborts_what_its_coordinator_then_commits_is_not_excused() -> None:
    rows = (*FIRST, data(6, 1), end(11, 1, ABORT))
    decisions = (decided(1), decided(2))
    assert told(*rows, end(12, 2), decisions=decisions)[-1] == (2, False)
    assert told(*rows, end(12, 2, ABORT))[-1] == (None, True), "it was to be aborted anyway"


# --------------------------------------------------------------------------------- whose marker is a decision's


def ends(*rows: Any, decisions: tuple[tuple[int, Decision], ...], **known: Any) -> list[tuple[Any, ...]]:
    known = {"transaction_states_known": True, "transaction_levels": ALWAYS_2, **known}
    bounds = HighWatermarkBounds(lower=None, upper=None)
    found = transaction_end_rows(context(decisions=decisions, **known), replica(*rows), bounds)
    return [(r["marker_offset"], r["marker_outcome"], r["marker_count"]) for r in found]


def test_what_an_operator_aborted_contradicts_no_decision_of_the_same_epoch() -> None:
    rows = (*FIRST, data(6, 1), end(11, 1, ABORT))
    assert ends(*rows, decisions=(decided(1),)) == [(5, "committed", 1)]


def test_what_an_operator_aborted_is_ended_though_its_own_marker_was_cut_off() -> None:
    rows = (*FIRST, data(6, 1), end(11, 1, ABORT))
    assert ends(*rows, decisions=(decided(1), decided(2))) == [(5, "committed", 1), (11, "aborted", 1)]


def test_the_decisions_of_both_versions_of_one_epoch_have_each_its_marker() -> None:
    rows = (*FIRST, data(6, 1), end(11, 1, ABORT), data(12, 1, sequence=5), end(17, 2))
    decisions = (decided(1), decided(1, "aborted", version=None), decided(2))
    found = ends(*rows, decisions=decisions, transaction_levels=FELL)
    assert found == [(5, "committed", 1), (11, "aborted", 1), (17, "committed", 1)]


def test_a_decision_whose_marker_is_missing_does_not_take_a_late_one() -> None:
    rows = (*FIRST, data(6, 1), end(11, 1))
    assert ends(*rows, decisions=(decided(1), decided(2))) == [(5, "committed", 1), (None, None, 0)]


def test_what_ended_under_both_versions_in_one_epoch_is_two_transactions() -> None:
    """The first wrote to two partitions, the second to one; the decision on the first is compacted away."""
    first, second = replica(*FIRST), replica(*FIRST, data(6, 1), end(11, 1, ABORT))
    decision = decided(1, "aborted", version=None)
    known: list[dict[str, Any]] = [{"partition": 0}, {"partition": 1, "decisions": (decision,)}]
    contexts = [context(transaction_levels=FELL, transaction_states_known=True, **of) for of in known]
    bounds = HighWatermarkBounds(lower=None, upper=None)
    pairs = list(zip(contexts, (first, second), strict=True))
    transactions = [row for of, log in pairs for row in transaction_rows(of, log)]
    decisions = [row for of, log in pairs for row in transaction_end_rows(of, log, bounds)]
    tables = (
        pa.Table.from_pylist(transactions, schema=RELATIONS["transactions"].arrow_schema),
        pa.Table.from_pylist(decisions, schema=RELATIONS["transaction_ends"].arrow_schema),
    )
    found = transaction_outcomes(*tables, cluster="c", snapshot_id="s").to_pylist()
    names = ("decided_outcome", "partitions", "committed_partitions", "aborted_partitions")
    assert sorted((tuple(r[n] for n in names) for r in found), key=str) == [(None, 2, 2, 0), ("aborted", 1, 0, 1)][::-1]
