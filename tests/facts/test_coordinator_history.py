"""The folds of coordinators' logs: what two stretches tell together is what one tells of both."""

from copy import deepcopy
from typing import Any

import pytest

from tests.facts.logs import batch, checkpoint, headers, replica
from tidegauge.facts.coordinators.history import NO_EPOCH, CoordinatorHistory
from tidegauge.facts.replicas.epochs import epoch_vector
from tidegauge.facts.replicas.readers import reading_columns
from tidegauge.kafka_log.coordinator_records import OffsetCommit, OtherCoordinatorRecord, TransactionState
from tidegauge.kafka_log.types import TopicPartition

PARTITION = TopicPartition(topic="t", partition=0)


def state(
    name: str, *, epoch: int = 0, producer_id: int = 7, tombstone: bool = False, at_ms: int = 1_000
) -> TransactionState:
    return TransactionState(
        transactional_id="tx", producer_id=producer_id, producer_epoch=epoch, previous_producer_id=None,
        next_producer_id=None, timeout_ms=60_000, state=name,
        partitions=(PARTITION,) if name in ("Ongoing", "PrepareCommit", "PrepareAbort") else (), last_update_ms=at_ms,
        start_ms=None, client_transaction_version=2, tombstone=tombstone,
    )  # fmt: skip


def group(key_type: int, value: dict[str, Any] | None, **key: Any) -> OtherCoordinatorRecord:
    return OtherCoordinatorRecord(key_type=key_type, name="", key={"group_id": "g", **key}, version=0, value=value)


def share(
    key_type: int, snapshot_epoch: int, leader_epoch: int, start: int, *ranges: tuple[int, int, int], **more: Any
) -> Any:
    batches = [
        {"first_offset": a, "last_offset": b, "delivery_state": state, "delivery_count": 1} for a, b, state in ranges
    ]
    value = {
        "snapshot_epoch": snapshot_epoch,
        "leader_epoch": leader_epoch,
        "start_offset": start,
        "state_batches": batches,
    }
    value |= {"delivery_complete_count": -1, **({"state_epoch": 0} if key_type == 0 else {}), **more}
    key = {"group_id": "g", "topic_id": "i", "partition": 0}
    return OtherCoordinatorRecord(key_type=key_type, name="", key=key, version=0, value=value)


def commit(offset: int, epoch: int | None, *, topic_id: str = "a", tombstone: bool = False) -> OffsetCommit:
    return OffsetCommit(
        group="g", topic="t", partition=0, offset=offset, leader_epoch=epoch, commit_timestamp_ms=None,
        topic_id=topic_id, version=4, tombstone=tombstone,
    )  # fmt: skip


def history(records: list[tuple[int, Any]], *cuts: int) -> CoordinatorHistory:
    """A log with these records, read in stretches that end before these places."""
    total = CoordinatorHistory()
    for start, end in zip((0, *cuts), (*cuts, len(records)), strict=True):
        part = CoordinatorHistory()
        for offset, record in records[start:end]:
            part.passed(offset, offset)
            part.take(offset, record)
        total.join(deepcopy(part))
    return total


def log(*records: Any) -> list[tuple[int, Any]]:
    return list(enumerate(records))


LOGS = {
    "a transaction": log(
        state("Empty"),
        state("Ongoing"),
        state("PrepareCommit", epoch=1),
        state("CompleteCommit", epoch=1),
        state("Ongoing", epoch=1),
    ),
    "an id that was removed and came back": log(
        state("Empty"), state("Dead", producer_id=-1, epoch=-1, tombstone=True), state("Empty", producer_id=9)
    ),
    "holes": [
        (0, state("Empty")),
        (5, state("CompleteCommit", epoch=4)),
        (9, state("Ongoing", epoch=4)),
        (10, state("Ongoing", epoch=4)),
    ],
    "a group": log(
        group(3, {"epoch": 1}),
        group(8, {"member_epoch": 1}, member_id="m"),
        group(3, {"epoch": 2}),
        group(8, {"member_epoch": -2}, member_id="m"),
        group(8, {"member_epoch": 2}, member_id="m"),
        group(8, None, member_id="m"),
        group(3, None),
        group(3, {"epoch": 1}),
        group(5, {}, member_id="n"),
    ),
    "a share group": log(
        share(0, 0, 0, 0),
        share(1, 0, 0, -1, (0, 4, 2)),
        share(1, 0, 1, 3, (5, 9, 4)),
        share(0, 1, 1, 6, (6, 9, 2)),
        share(1, 1, 1, -1, (10, 12, 2)),
    ),
    "commits": log(
        commit(10, 0), commit(20, 1), commit(5, 1), commit(-1, None, tombstone=True), commit(7, 2), commit(9, None)
    ),
    "a transaction's beginning that was never replicated in time": log(
        state("CompleteCommit"), state("Ongoing"), state("Empty", epoch=1, at_ms=70_000), state("Ongoing", epoch=1)
    ),
    "commits of two topics of a name": log(commit(100, 0), commit(4, 0, topic_id="b")),
}


@pytest.mark.parametrize("name", LOGS)
def test_stretches_tell_together_what_the_whole_tells(name: str) -> None:
    records = LOGS[name]
    whole = history(records)
    for cut in range(len(records) + 1):
        assert history(records, cut) == whole
        for second in range(cut, len(records) + 1):
            assert history(records, cut, second) == whole


def broken(*records: Any) -> list[str]:
    return [step.detail for step in history(log(*records)).transactional_ids["tx"].broken_steps]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((state("Ongoing"), state("CompleteCommit")), ["CompleteCommit follows Ongoing"]),
        ((state("PrepareCommit"), state("CompleteAbort")), ["CompleteAbort follows PrepareCommit"]),
        ((state("Ongoing"), state("Dead", tombstone=True)), ["a tombstone follows Ongoing"]),
        ((state("Empty", epoch=4), state("Ongoing", epoch=3)), ["producer epoch 4 became 3"]),
        ((state("Ongoing"), state("Ongoing", epoch=1)), ["producer epoch 0 became 1 inside a transaction"]),
        (
            (state("CompleteCommit", epoch=9), state("Ongoing", producer_id=8)),
            ["producer id 7 became 8 in state Ongoing"],
        ),
        (
            (state("Empty", epoch=9), state("Empty", producer_id=8, epoch=3)),
            ["producer id 8 is new and begins in epoch 3"],
        ),
        ((state("PrepareAbort"), state("PrepareAbort", epoch=1)), ["PrepareAbort follows PrepareAbort"]),
        # Sound: what was not replicated in time is written again.
        ((state("Ongoing"), state("PrepareCommit"), state("PrepareCommit"), state("CompleteCommit")), []),
        # Sound: a beginning that was not replicated in time never was; so soon no ISR has shrunk and grown again.
        ((state("CompleteCommit"), state("Ongoing"), state("Empty", at_ms=4_000)), []),
        ((state("CompleteCommit"), state("Ongoing"), state("Empty", at_ms=3_999)), ["Empty follows Ongoing"]),
        ((state("Ongoing"), state("Ongoing"), state("Empty", at_ms=61_000)), ["Empty follows Ongoing"]),
        # Sound: rotation, also at the end of a transaction; an abort of nothing under version 2; a fence.
        ((state("Empty", epoch=32_766), state("Empty", producer_id=8)), []),
        ((state("PrepareCommit", epoch=32_767), state("CompleteCommit", producer_id=8)), []),
        ((state("Empty"), state("PrepareAbort", epoch=1), state("CompleteAbort", epoch=1)), []),
        (
            (
                state("Ongoing"),
                state("PrepareAbort", epoch=1),
                state("CompleteAbort", epoch=1),
                state("Empty", epoch=2),
            ),
            [],
        ),
    ],
)
def test_a_step_that_may_not_be_is_named(steps: tuple[Any, ...], told: list[str]) -> None:
    assert broken(*steps) == told


def test_records_with_a_hole_between_are_not_taken_for_neighbours() -> None:
    told = history([(0, state("Ongoing")), (7, state("CompleteCommit"))]).transactional_ids["tx"]
    assert (told.broken, told.judged_steps, told.unjudged_steps) == (0, 0, 1)


@pytest.mark.parametrize(
    ("records", "replaced"),
    [
        (log(state("CompleteCommit"), state("Ongoing")), "CompleteCommit"),
        (log(state("Empty"), state("Ongoing"), state("Ongoing", epoch=1)), "Empty"),
        (log(state("Ongoing"), state("Ongoing")), None),
        (log(state("Ongoing")), None),
        ([(0, state("CompleteCommit")), (5, state("Ongoing"))], None),
        ([(0, state("Empty")), (5, state("Ongoing")), (6, state("PrepareAbort"))], "Ongoing"),
    ],
)
def test_what_the_last_record_replaced_is_known_where_no_cleaner_has_been(
    records: list[tuple[int, Any]], replaced: str | None
) -> None:
    for cuts in ((), *((n,) for n in range(1, len(records)))):
        found = history(records, *cuts).transactional_ids["tx"].replaced
        assert (found.state if found is not None else None) == replaced


def test_a_decision_is_completed_by_the_record_behind_it() -> None:
    records = log(
        state("Ongoing"),
        state("PrepareCommit", epoch=1),
        state("CompleteCommit", epoch=1),
        state("PrepareAbort", epoch=2),
    )
    first, second = history(records).transactional_ids["tx"].decisions
    assert (first.outcome, first.marker_epoch, first.partitions, first.completed_offset) == (
        "committed",
        1,
        (PARTITION,),
        2,
    )
    assert (second.outcome, second.completed_offset) == ("aborted", None)


def test_a_decision_that_was_written_again_is_one_decision() -> None:
    """The first record was not replicated in time, and never counted."""
    records = log(state("Ongoing"), state("PrepareCommit"), state("PrepareCommit"), state("CompleteCommit"))
    for cut in range(len(records) + 1):
        (told,) = history(records, cut).transactional_ids["tx"].decisions
        assert (told.record_offset, told.completed_offset) == (2, 3)


def test_epochs_that_went_back_are_told_with_their_owner() -> None:
    found = history(
        log(group(8, {"member_epoch": 5}, member_id="m"), group(8, {"member_epoch": 3}, member_id="m"))
    ).groups["g"]
    (told,) = found.regressions_kept
    assert (told.kind, told.member_id, told.before, told.found, found.regressions) == ("member epoch", "m", 5, 3, 1)


def test_a_share_state_counts_what_is_complete_above_its_start() -> None:
    key = ("g", "i", 0)
    told = history(LOGS["a share group"]).share_states[key]
    assert (told.start_offset, told.completed_offsets, told.range_faults, told.epoch_faults) == (6, 7, 0, 0)
    headless = history(log(share(1, 0, 0, 3, (5, 9, 2)))).share_states[key]
    assert headless.completed_offsets is None, "there is no snapshot record to count from"


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (share(0, 1, 0, 0, (5, 4, 2)), "range"),
        (share(0, 1, 0, 0, (0, 9, 2), (9, 12, 0)), "overlap"),
        (share(0, 1, 0, 10, (4, 12, 0)), "below_start"),
        (share(0, 1, 0, 0, (0, 9, 1)), "delivery_state"),
        (share(1, 0, 0, 0), "epoch"),
        (share(0, 1, -1, 0, state_epoch=-5), "epoch"),
    ],
)
def test_what_a_share_state_may_not_say(record: Any, kind: str) -> None:
    told = history(log(share(0, 1, 0, 0), record)).share_states["g", "i", 0]
    assert [fault.kind for fault in told.faults] == [kind]


def test_commits_against_the_epochs_of_the_log() -> None:
    rows = headers(batch(0, 800, epoch=0), batch(800, 300, epoch=1))
    reference = replica(rows, epoch_checkpoint=checkpoint((0, 0), (1, 800)))
    assert reference.vector == epoch_vector(
        checkpoint=reference.vector.entries, batch_epochs=(), log_start_offset=0, log_end_offset=1_100
    )

    def told(reached: dict[int, int], own: int | None) -> tuple[Any, ...]:
        row = reading_columns(reached, reference, own)
        return tuple(row[n] for n in ("read_leader_epoch", "read_end_offset", "epoch_end_offset", "epoch_end_settled"))

    assert told({0: 800, 1: 1_000}, 1) == (None, None, 1_100, False)
    assert told({0: 1_500, 1: 1_000}, 1) == (0, 1_500, 800, True), "it read [800, 1500) of epoch 0"
    assert told({NO_EPOCH: 1_500}, None) == (None, None, None, None), "a commit without an epoch proves nothing"
    assert told({5: 900}, 5) == (5, 900, 800, False), "a newer epoch than the log has, inside the log"
