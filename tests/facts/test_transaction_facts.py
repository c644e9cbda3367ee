"""Facts about transactions and their producers: repetitions, plain writes, decisions and markers, live producers."""

from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.facts.logs import ABORT, COMMIT, Disks, batch, change, context, headers, marker, replica
from tidegauge.facts.coordinators.transactional_ids import Decision
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.watermarks import HighWatermarkBounds
from tidegauge.facts.transactions.producer_rows import live_producer_columns, producer_rows, transaction_rows
from tidegauge.facts.transactions.transaction_ends import transaction_end_rows
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.crc32c import crc32c, shifted
from tidegauge.kafka_log.records import Record, RecordBatch
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.types import TopicPartition

NO_BOUNDS = HighWatermarkBounds(lower=None, upper=None)
TRANSACTIONAL = 0x10


def written(offset: int, epoch: int, text: bytes, *, at: int = 1_000, sequence: int = 0, bits: int = 0) -> bytes:
    """A batch of one record of producer 7, as a client writes it."""
    return write_batch(
        RecordBatch(
            base_offset=offset, last_offset=offset, partition_leader_epoch=0, crc=0, attributes=bits, base_timestamp=at,
            max_timestamp=at, producer_id=7, producer_epoch=epoch, base_sequence=sequence,
            records=(Record(offset=offset, timestamp=at, key=None, value=text),),
        )
    )  # fmt: skip


def repeated(rows: NDArray[Any]) -> dict[int, tuple[Any, ...]]:
    """By producer epoch: batches repeated, the first, what it repeats."""
    facts = replica(rows)
    producers, _ = producer_rows(context(), facts, compacted=False, read=Disks(broker_1=headers(rows)))
    names = ("repeated_batches", "repeated_offset", "repeats_offset", "repeats_unverified")
    return {row["producer_epoch"]: tuple(row[name] for name in names) for row in producers}


def log_of(*parts: bytes) -> NDArray[Any]:
    return scan_buffer(b"".join(parts))[0].copy()


@pytest.mark.parametrize("size", [0, 1, 7, 4096])
def test_a_difference_of_checksums_survives_what_comes_behind(size: int) -> None:
    one, other, behind = b"a" * 40, b"b" * 40, bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert crc32c(one + behind) ^ crc32c(other + behind) == shifted(crc32c(one) ^ crc32c(other), len(behind))


def test_a_batch_sent_again_in_a_new_epoch_is_known_by_its_header_alone() -> None:
    rows = log_of(
        written(0, 0, b"a"), written(1, 0, b"b", sequence=1), written(2, 1, b"b"), written(3, 1, b"c", sequence=1)
    )
    assert repeated(rows) == {0: (0, None, None, 0), 1: (1, 2, 1, 0)}


def test_other_records_of_the_same_size_and_instant_are_no_repetition() -> None:
    assert repeated(log_of(written(0, 0, b"a"), written(1, 1, b"b")))[1] == (0, None, None, 0)


def test_the_same_records_at_another_instant_are_written_anew() -> None:
    assert repeated(log_of(written(0, 0, b"a"), written(1, 1, b"a", at=1_001)))[1] == (0, None, None, 0)


def test_what_was_aborted_may_be_written_again() -> None:
    first = log_of(written(0, 0, b"a", bits=TRANSACTIONAL))
    again = log_of(written(2, 1, b"a", bits=TRANSACTIONAL))
    for kind, expected in ((ABORT, 0), (COMMIT, 1)):
        rows = np.concatenate([first, marker(1, producer_id=7, producer_epoch=1, kind=kind), again])
        assert repeated(rows)[1][0] == expected


def test_plain_batches_inside_a_transaction_are_counted() -> None:
    rows = [
        batch(0, producer_id=7, sequence=0, transactional=True),
        batch(1, producer_id=7, sequence=1),
        batch(2, producer_id=7, sequence=2, transactional=True),
        marker(3, producer_id=7, producer_epoch=1),
        batch(4, producer_id=7, producer_epoch=1, sequence=0),
    ]
    producers, _ = producer_rows(context(), replica(*rows), compacted=False, read=Disks(broker_1=headers(*rows)))
    found = {r["producer_epoch"]: (r["nontransactional_batches"], r["nontransactional_offset"]) for r in producers}
    assert found == {0: (1, 1), 1: (0, None)}


def test_a_transaction_knows_the_marker_before_it() -> None:
    rows = [
        batch(0, producer_id=7, sequence=0, transactional=True),
        marker(1, producer_id=7, producer_epoch=1),
        batch(2, producer_id=7, producer_epoch=1, sequence=4, transactional=True),
    ]
    first, second = transaction_rows(context(), replica(*rows))
    names = ("previous_marker_offset", "previous_marker_producer_epoch", "previous_marker_bumped", "first_sequence")
    assert [first[n] for n in names] == [None, None, None, 0]
    assert [second[n] for n in names] == [1, 1, True, 4]
    compacted = transaction_rows(context(), replica(*rows, compacted=True))[1]
    assert compacted["first_sequence"] is None, "a cleaner may have taken the batches before"


def test_producers_that_live_and_that_are_new() -> None:
    now, hour = 100_000_000, 3_600_000
    rows = [
        batch(at, producer_id=at, sequence=0, timestamp=when)
        for at, when in enumerate((1, now - 2 * hour, now - 60_000, now - 30_000))
    ]
    told = live_producer_columns(context(captured_at_ms=now), replica(*rows))
    assert told == {"live_producer_ids": 3, "producer_ids_unless_expired": 3, "new_producer_ids": 2}
    assert live_producer_columns(context(captured_at_ms=None), replica(*rows))["live_producer_ids"] is None


# ------------------------------------------------------------------------------------------- decisions and markers


def decision(
    outcome: str, at_ms: int, *, epoch: int = 0, version: int | None = None, offset: int = 0
) -> tuple[int, Decision]:
    return 0, Decision(
        transactional_id="tx",
        producer_id=7,
        marker_epoch=epoch,
        outcome=outcome,
        partitions=(TopicPartition(topic="t", partition=0),),
        client_transaction_version=version,
        record_offset=offset,
        decided_at_ms=at_ms,
        completed_offset=offset + 1,
        completed_at_ms=at_ms + 10,
    )


def ends(reference: ReplicaFacts, *decisions: tuple[int, Decision]) -> list[tuple[Any, ...]]:
    rows = transaction_end_rows(context(decisions=decisions), reference, NO_BOUNDS)
    return [(r["marker_offset"], r["marker_outcome"], r["open_first_offset"]) for r in rows]


def version_1(*ends_at: tuple[int, int]) -> ReplicaFacts:
    """Transactions of one epoch: a batch and the marker behind it, of this kind, at this instant."""
    rows = []
    for at, (kind, when) in enumerate(ends_at):
        rows += [batch(2 * at, producer_id=7, sequence=at, transactional=True, timestamp=when)]
        rows += [marker(2 * at + 1, producer_id=7, kind=kind, timestamp=when)]
    return replica(*rows)


def test_each_version_1_transaction_gets_its_own_marker() -> None:
    log = version_1((COMMIT, 10_000), (ABORT, 10_020), (COMMIT, 10_040))
    told = ends(log, decision("committed", 10_000), decision("aborted", 10_020), decision("committed", 10_040))
    assert told == [(1, "committed", None), (3, "aborted", None), (5, "committed", None)]


def test_a_missing_version_1_marker_is_not_made_up_by_its_neighbours() -> None:
    log = version_1((COMMIT, 10_000), (COMMIT, 10_040))
    told = ends(log, decision("committed", 10_000), decision("committed", 10_020), decision("committed", 10_040))
    assert [offset for offset, _, _ in told] == [1, None, 3]


QUICK: Final = [("committed", 10_000 + 250 * n) for n in range(12)]
"""A producer that ends four transactions a second; clocks may be apart by many of them."""


def quick(*outcomes: str) -> list[tuple[str, int]]:
    """The same, with these outcomes."""
    return [(outcome, at_ms) for outcome, (_, at_ms) in zip(outcomes, QUICK, strict=True)]


def told_quickly(decided: list[tuple[str, int]], marked: list[tuple[str, int]], *, ahead_ms: int = 3) -> list[Any]:
    """Of each decision the outcome that its marker says, and how long after it the marker came; None: it has none."""
    kinds = {"committed": COMMIT, "aborted": ABORT}
    log = version_1(*((kinds[outcome], at_ms + ahead_ms) for outcome, at_ms in marked))
    at = {2 * n + 1: at_ms for n, (_, at_ms) in enumerate(marked)}
    found = ends(log, *(decision(*each) for each in decided))
    return [
        (outcome, at[offset] - decided_at_ms) if offset is not None else None
        for (offset, outcome, _), (_, decided_at_ms) in zip(found, decided, strict=True)
    ]


MIXED = quick(*("committed aborted committed committed aborted aborted " * 2).split())


@pytest.mark.parametrize("ahead_ms", [0, 3, -3, 240, 260, -260, 1_100, -1_900])
def test_clocks_may_be_further_apart_than_transactions(ahead_ms: int) -> None:
    for decided in (QUICK, MIXED):
        assert told_quickly(decided, decided, ahead_ms=ahead_ms) == [(outcome, 0) for outcome, _ in decided]


UNEVEN: Final = [
    (outcome, 10_000 + 61_000 * n + 997 * n * n) for n, outcome in enumerate(outcome for outcome, _ in MIXED)
]
"""Minutes lie between these, never the same time twice."""


@pytest.mark.parametrize("ahead_ms", [7_000, -7_000, 90_000, -90_000, 3_600_000, -86_400_000])
def test_clocks_may_be_apart_by_any_time(ahead_ms: int) -> None:
    for decided in (QUICK, MIXED, UNEVEN):
        assert told_quickly(decided, decided, ahead_ms=ahead_ms) == [(outcome, 0) for outcome, _ in decided]


@pytest.mark.parametrize("ahead_ms", [10_000, -600_000])
def test_a_marker_that_is_gone_is_missing_whatever_the_clocks_say(ahead_ms: int) -> None:
    for decided in (QUICK, MIXED, UNEVEN):
        for gone in (0, 5, 11):
            marked = [each for n, each in enumerate(decided) if n != gone]
            assert told_quickly(decided, marked, ahead_ms=ahead_ms).count(None) >= 1


@pytest.mark.parametrize("ahead_ms", [3, 10_000, -600_000])
def test_older_markers_whose_decisions_are_compacted_away_are_nobodys(ahead_ms: int) -> None:
    for decided in (MIXED, UNEVEN):
        told = told_quickly(decided[4:], decided, ahead_ms=ahead_ms)
        assert told == [(outcome, 0) for outcome, _ in decided[4:]]


def test_a_clock_that_was_set_meanwhile_changes_no_order() -> None:
    """Half of the markers are of before, half of after; each decision has its own."""
    marked = [(outcome, at_ms + (600_000 if n >= 6 else 0)) for n, (outcome, at_ms) in enumerate(UNEVEN)]
    log = version_1(*(({"committed": COMMIT, "aborted": ABORT}[outcome], at_ms) for outcome, at_ms in marked))
    told = ends(log, *(decision(*each) for each in UNEVEN))
    assert [offset for offset, _, _ in told] == [2 * n + 1 for n in range(12)]


def test_where_clocks_alone_tell_that_a_marker_is_missing_it_is_not_known() -> None:
    """The first decisions are compacted away: by order each of the others may have the marker before its own."""
    commits = [("committed", at_ms) for _, at_ms in UNEVEN]
    marked = [each for n, each in enumerate(commits) if n != 8]
    log = version_1(*((COMMIT, at_ms) for _, at_ms in marked))
    decisions = [decision(*each) for each in commits[4:]]
    rows = transaction_end_rows(context(decisions=tuple(decisions)), log, NO_BOUNDS)
    assert [n for n, r in enumerate(rows, 4) if r["marker_offset"] is None] == [8]
    assert [r["by_clocks"] for r in rows] == [n == 8 for n in range(4, 12)]


@pytest.mark.parametrize("gone", [0, 1, 5, 11])
def test_among_quick_transactions_the_one_whose_marker_is_gone_is_named(gone: int) -> None:
    """A cleaner took it, or it was lost: the others keep theirs."""
    for decided in (QUICK, MIXED):
        marked = [each for n, each in enumerate(decided) if n != gone]
        told = [(outcome, 0) for outcome, _ in decided]
        assert told_quickly(decided, marked) == [*told[:gone], None, *told[gone + 1 :]]


def test_a_marker_whose_decision_is_not_in_the_copy_is_nobody_elses() -> None:
    """The coordinator's log was copied first, and a cleaner has taken the first of the markers."""
    for decided, newest in ((QUICK, "aborted"), (MIXED, "aborted"), (MIXED, "committed")):
        marked = [*decided[1:], (newest, decided[-1][1] + 250)]
        assert told_quickly(decided, marked) == [None, *((outcome, 0) for outcome, _ in decided[1:])]


@pytest.mark.parametrize("wrong", [0, 5, 11])
def test_a_quick_transaction_that_ended_otherwise_is_named(wrong: int) -> None:
    marked = [("aborted" if n == wrong else outcome, at_ms) for n, (outcome, at_ms) in enumerate(QUICK)]
    assert told_quickly(QUICK, marked) == [(outcome, 0) for outcome, _ in marked]


@pytest.mark.parametrize("next_at_ms", [21_000, 60_000])
def test_a_version_1_marker_may_come_long_after_its_decision(next_at_ms: int) -> None:
    """Its broker stood still; the record of the completion has the time of before the marker was sent."""
    log = version_1((COMMIT, 20_500), (COMMIT, next_at_ms))
    told = ends(log, decision("committed", 10_000), decision("committed", next_at_ms))
    assert sorted(offset for offset, _, _ in told) == [1, 3]


def test_a_marker_of_the_other_kind_from_before_a_decision_is_not_held_against_it() -> None:
    """A live copy may lack the marker that belongs to it; the one before is of a transaction that is not told of."""
    assert ends(version_1((COMMIT, 47_975)), decision("aborted", 51_893)) == [(None, None, None)]


def test_what_begins_after_a_decision_is_not_what_it_left_open_where_the_head_of_the_log_is_gone() -> None:
    rows = [batch(73, producer_id=7, sequence=31, transactional=True, timestamp=60_735)]
    assert ends(replica(*rows), decision("committed", 56_675)) == [(None, None, None)]
    whole = [batch(0, producer_id=7, sequence=0, transactional=True, timestamp=60_735)]
    assert ends(replica(*whole), decision("committed", 56_675)) == [(None, None, 0)]


def test_a_late_marker_is_not_that_of_a_decision_long_before_another() -> None:
    log = version_1((COMMIT, 90_000))
    told = ends(log, decision("committed", 10_000), decision("committed", 50_000), decision("committed", 90_000))
    assert [offset for offset, _, _ in told] == [None, None, 1]


def test_what_was_completed_before_the_topic_was_created_takes_no_marker_of_it() -> None:
    log = version_1((COMMIT, 13_780))
    decisions = (decision("committed", 10_730), decision("committed", 13_777))
    lives = {"s" * 22: True, "t" * 22: False}
    made_again = context(decisions=decisions, changes=(change(at_ms=13_400),), topic_ids_deleted=lives)
    rows = transaction_end_rows(made_again, log, NO_BOUNDS)
    assert [(r["marker_offset"], r["name_reused"]) for r in rows] == [(None, True), (1, True)]


def test_a_version_1_marker_of_the_other_kind_contradicts_its_decision() -> None:
    told = ends(
        version_1((COMMIT, 10_000), (ABORT, 90_000)), decision("committed", 10_000), decision("committed", 90_000)
    )
    assert told == [(1, "committed", None), (3, "aborted", None)]


def test_a_version_2_marker_is_named_by_its_epoch() -> None:
    rows = [batch(0, producer_id=7, sequence=0, transactional=True), marker(1, producer_id=7, producer_epoch=1)]
    log = replica(*rows, marker(2, producer_id=7, producer_epoch=1, coordinator_epoch=1))
    (row,) = transaction_end_rows(context(decisions=(decision("committed", 0, epoch=1, version=2),)), log, NO_BOUNDS)
    assert (row["marker_offset"], row["marker_outcome"], row["marker_count"]) == (1, "committed", 2)
    told = ends(replica(rows[0]), decision("aborted", 0, epoch=1, version=2))
    assert told == [(None, None, 0)], "the data are open from offset 0 on"


def test_a_transaction_that_began_after_a_decision_is_not_the_one_that_it_left_open() -> None:
    """The marker went with the log's head; under version 1 the producer goes on in the same epoch."""
    log = replica(batch(85, producer_id=7, sequence=28, transactional=True, timestamp=90_000))
    assert ends(log, decision("committed", 10_000)) == [(None, None, None)]
    assert ends(log, decision("committed", 90_500)) == [(None, None, None)], "two clocks are no evidence"
    of_version_2 = (decision("committed", 90_500, epoch=1, version=2), decision("committed", 90_500, version=2))
    assert [ends(log, d) for d in of_version_2] == [[(None, None, 85)], [(None, None, None)]], "the epoch tells"


def test_a_marker_of_a_wrong_epoch_is_an_end_all_the_same() -> None:
    rows = [batch(0, producer_id=7, sequence=0, transactional=True), marker(1, producer_id=7, producer_epoch=3)]
    assert ends(replica(*rows), decision("committed", 0, epoch=1, version=2)) == [(1, "committed", None)]
