"""What a leader answered beside its copied log: bounds at the moment of the copy, and what stands against comparing."""

from dataclasses import replace
from typing import Any

import pytest

from tests.facts.logs import batch, change, context, marker, replica
from tidegauge.facts.answers.asked import AnswerTimes, PartitionAnswers
from tidegauge.facts.partitions.answer_rows import partition_answer_rows
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.relations import ClusterAnswerRow
from tidegauge.snapshots.cluster_answers import PartitionAnswer, ProducerAnswer

BEFORE_MS, AFTER_MS = 1_000_000, 1_100_000
TIMES = AnswerTimes(
    before_started_at_ms=BEFORE_MS,
    before_finished_at_ms=BEFORE_MS + 500,
    after_started_at_ms=AFTER_MS,
    after_finished_at_ms=AFTER_MS + 500,
)
LOG = (
    batch(0, 10, producer_id=7, sequence=0, transactional=True),
    marker(10, producer_id=7),
    batch(11, 5),
    batch(16, 4, producer_id=8, sequence=0, transactional=True),
    batch(20, 10, producer_id=9, sequence=0),
)


def answer(**fields: Any) -> PartitionAnswer:
    return replace(
        PartitionAnswer(
            partition=0,
            leader_id=1,
            leader_epoch=0,
            replicas=(1, 2, 3),
            isr=(1, 2, 3),
            log_start_offset=0,
            high_watermark=30,
            last_stable_offset=16,
            producers=(),
        ),
        **fields,
    )


def producer(producer_id: int = 9, **fields: Any) -> ProducerAnswer:
    return replace(
        ProducerAnswer(
            producer_id=producer_id,
            producer_epoch=0,
            last_sequence=9,
            last_timestamp_ms=1_000,
            coordinator_epoch=None,
            current_transaction_first_offset=None,
        ),
        **fields,
    )


def rows(
    before: PartitionAnswer | None,
    after: PartitionAnswer | None,
    *,
    topic_ids: frozenset[str] = frozenset({"t" * 22}),
    copies: Any = None,
    **known: Any,
) -> list[ClusterAnswerRow]:
    live = copies if copies is not None else [replica(*LOG, high_watermark=28)]
    answers = PartitionAnswers(times=TIMES, before=before, after=after, topic_ids=topic_ids)
    return partition_answer_rows(context(**known), answers, live)


def one(kind: str, found: list[ClusterAnswerRow]) -> ClusterAnswerRow:
    (row,) = [row for row in found if row["kind"] == kind]
    return row


def bounds(row: ClusterAnswerRow) -> tuple[int | None, int | None]:
    return row["recomputed_lowest"], row["recomputed_highest"]


def test_a_cluster_that_stands_still_leaves_one_value() -> None:
    found = rows(answer(), answer())
    assert {row["incomparable_reason"] for row in found} == {None}
    assert bounds(one("log_start_offset", found)) == (0, 0)
    assert bounds(one("high_watermark", found)) == (28, 30)
    assert bounds(one("last_stable_offset", found)) == (16, 16)


def test_a_log_that_grew_meanwhile_gives_bounds() -> None:
    found = rows(answer(high_watermark=11, last_stable_offset=11), answer(high_watermark=90, last_stable_offset=90))
    # At 11 all is decided; at the end of the copy the transaction from 16 on is open.
    assert bounds(one("last_stable_offset", found)) == (11, 16)


def test_a_transaction_whose_marker_is_not_committed_yet_is_undecided() -> None:
    found = rows(answer(high_watermark=10, last_stable_offset=0), answer(high_watermark=10, last_stable_offset=0))
    assert bounds(one("last_stable_offset", found)) == (0, 0)


def test_every_captured_member_of_the_isr_is_compared_and_no_other_replica() -> None:
    copies = [replica(*LOG, broker_id=b) for b in (1, 2, 3)]
    found = rows(answer(isr=(1, 3)), answer(isr=(1, 3)), copies=copies)
    assert [row["broker_id"] for row in found if row["kind"] == "high_watermark"] == [1, 3]


@pytest.mark.parametrize(
    ("after", "known", "reason"),
    [
        (answer(leader_id=2), {}, "leader or ISR changed"),
        (answer(leader_epoch=1), {}, "leader or ISR changed"),
        (answer(isr=(1,)), {}, "leader or ISR changed"),
        (answer(), {"leader_epoch": 1}, "leader or ISR changed"),
        (answer(), {"changes": (change(), change(at_ms=BEFORE_MS + 9))}, "leader or ISR changed"),
        (answer(), {"changes": (change(), change(at_ms=BEFORE_MS - 4_000))}, "leader or ISR changed"),
        (answer(), {"changes": (change(), change(at_ms=BEFORE_MS - 6_000))}, None),
        (answer(), {"changes": (change(at_ms=BEFORE_MS + 9),)}, None),
        (answer(), {"topic_id": "u" * 22}, "topic re-created"),
        (answer(), {"changes": (change(at_ms=BEFORE_MS + 9, created=True),)}, "topic re-created"),
        (answer(), {"changes": (change(at_ms=BEFORE_MS - 6_000, created=True),)}, None),
        (answer(leader_id=None), {}, "no answer"),
    ],
)
def test_what_happened_between_the_answers_stands_against_comparing(
    after: PartitionAnswer, known: dict[str, Any], reason: str | None
) -> None:
    found = rows(answer(), after, **known)
    assert {row["incomparable_reason"] for row in found if row["kind"] == "last_stable_offset"} == {reason}


@pytest.mark.parametrize(
    ("read_at_ms", "reason"),
    [
        ((BEFORE_MS + 600, AFTER_MS - 1), None),
        # Sealed segments of an earlier capture are the same.
        ((5, BEFORE_MS + 600), None),
        ((5, BEFORE_MS), "copy older than answer"),
        ((BEFORE_MS + 600, AFTER_MS + 1), "answered before the copy ended"),
        (None, None),
    ],
)
def test_a_copy_must_lie_between_the_answers(read_at_ms: tuple[int, int] | None, reason: str | None) -> None:
    found = rows(answer(), answer(), copies=[replica(*LOG, log_read_at_ms=read_at_ms)])
    assert {row["incomparable_reason"] for row in found} == {reason}


def test_a_leader_that_was_not_captured_leaves_its_followers_to_compare() -> None:
    found = rows(answer(), answer(), copies=[replica(*LOG, broker_id=2)])
    assert one("last_stable_offset", found)["incomparable_reason"] == "leader not captured"
    follower = one("high_watermark", found)
    assert (follower["broker_id"], follower["incomparable_reason"]) == (2, None)


def test_records_deleted_a_moment_ago_are_not_in_the_checkpoint_yet() -> None:
    found = rows(answer(log_start_offset=5), answer(log_start_offset=5))
    assert one("log_start_offset", found)["incomparable_reason"] == "log start not yet checkpointed"
    found = rows(answer(log_start_offset=-5), answer(log_start_offset=-5))
    assert one("log_start_offset", found)["incomparable_reason"] is None
    found = rows(answer(), answer(), remote_storage_enable=True)
    assert one("log_start_offset", found)["incomparable_reason"] == "tiered"


def test_a_question_that_failed_keeps_its_reason() -> None:
    failed = answer(high_watermark=None, errors={"high_watermark": "timed out"})
    row = one("high_watermark", rows(failed, failed))
    assert (row["incomparable_reason"], row["error"]) == ("no answer", "timed out")


# ----------------------------------------------------------------------------------------------------------- producers


def told(before: ProducerAnswer | None, after: ProducerAnswer | None, **options: Any) -> ClusterAnswerRow:
    found = rows(
        answer(producers=() if before is None else (before,)),
        answer(producers=() if after is None else (after,)),
        **options,
    )
    return one("producer", found)


def test_a_producer_is_compared_by_epoch_and_sequence() -> None:
    row = told(producer(last_sequence=4), producer(producer_epoch=1, last_sequence=0))
    assert row["answered_before"] < row["recomputed_lowest"] < row["answered_after"]
    assert row["answered_before_text"] == "epoch 0, last sequence 4, no open transaction"
    assert row["recomputed_values"] == ["epoch 0, last sequence 9, no open transaction"]
    assert row["incomparable_reason"] is None


def test_an_open_transaction_is_told() -> None:
    row = told(producer(8, last_sequence=3), producer(8, last_sequence=3))
    assert row["recomputed_values"] == ["epoch 0, last sequence 3, transaction open from 16"]


@pytest.mark.parametrize(
    ("before", "after"), [(producer(), None), (None, producer()), (producer(), producer(last_sequence=2))]
)
def test_a_producer_that_came_went_or_began_again_is_not_compared(
    before: ProducerAnswer | None, after: ProducerAnswer | None
) -> None:
    assert told(before, after)["incomparable_reason"] == "changed while copying"


def test_a_producer_that_the_log_does_not_know_has_no_value() -> None:
    row = told(producer(77), producer(77))
    assert (row["recomputed_values"], row["incomparable_reason"]) == ([], None)
    headless = [replica(*LOG[2:], high_watermark=28)]
    assert told(producer(77), producer(77), copies=headless)["incomparable_reason"] == "head of the log is gone"


def test_where_the_coordinator_writes_only_epochs_count() -> None:
    row = told(producer(last_sequence=0), producer(last_sequence=5), copies=[replica(*LOG, topic=CONSUMER_OFFSETS)])
    assert row["answered_before"] == row["answered_after"] == row["recomputed_lowest"]
    assert row["answered_before_text"] == "epoch 0, no open transaction"


def test_where_only_epochs_count_a_transaction_that_came_and_went_is_seen_by_when_the_producer_last_wrote() -> None:
    # At first nothing was open; while the log was copied, a transaction from 16; that ended before the second answer.
    written = [replica(*LOG, topic=CONSUMER_OFFSETS)]
    early, late = producer(8, last_sequence=3), producer(8, last_sequence=3, last_timestamp_ms=2_000)
    assert told(early, late, copies=written)["incomparable_reason"] == "changed while copying"
    assert told(early, early, copies=written)["incomparable_reason"] is None
    other_epoch = replace(early, producer_epoch=1), replace(late, producer_epoch=1)
    assert told(*other_epoch, copies=written)["incomparable_reason"] is None
    assert told(early, late)["incomparable_reason"] is None
