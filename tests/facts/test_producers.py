"""The replay of producers: every cause of a break, transactions and their markers, the last stable offset."""

from typing import Any

import pytest
from numpy.typing import NDArray

from tests.facts.logs import ABORT, COMMIT, EXPIRATION_MS, batch, headers, marker, summarise
from tidegauge.facts.producers.replay import ProducerReplay, seeded
from tidegauge.facts.producers.state import UNKNOWN, Transaction
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry

LAST_SEQUENCE = 2_147_483_647
Rows = list[NDArray[Any]]


def replayed(rows: Rows, *cuts: int, ignore_sequences: bool = False, **fields: Any) -> ProducerReplay:
    """Replays a log in stretches, cut before these batches."""
    replay = ProducerReplay(ignore_sequences=ignore_sequences, **fields)
    log = headers(*rows)
    for start, end in zip((0, *cuts), (*cuts, len(log)), strict=True):
        part = summarise([log[start:end]], ignore_sequences=ignore_sequences)
        replay.add(part.events, part.gaps)
    return replay


def data(offset: int, sequence: int, records: int = 1, *, epoch: int = 0, at: int = 1_000, **more: Any) -> NDArray[Any]:
    return batch(offset, records, producer_id=7, producer_epoch=epoch, sequence=sequence, timestamp=at, **more)


def transactional(offset: int, producer_id: int, sequence: int = 0, *, epoch: int = 0) -> NDArray[Any]:
    return batch(offset, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, transactional=True)


COUNTS = (
    "lost_gaps",
    "explained_gaps",
    "nonzero_starts",
    "epoch_regressions",
    "duplicate_batches",
    "overlapping_batches",
)


def counted(replay: ProducerReplay) -> dict[str, int]:
    totals = {name: sum(getattr(e, name) for e in replay.epochs.values()) for name in COUNTS}
    return {name: total for name, total in totals.items() if total}


CASES = {
    "sound": ([data(0, 0, 3), data(3, 3), data(4, 4)], [], {}, 0),
    "head gone": ([data(50, 30), data(51, 31)], [], {}, 0),
    "wrap": ([data(0, LAST_SEQUENCE - 1, 2), data(2, 0, 2), data(4, 2)], [], {}, 0),
    "wrap inside a batch": ([data(0, LAST_SEQUENCE, 3), data(3, 2)], [], {}, 0),
    "lost": ([data(0, 0, 3), data(3, 8)], ["lost"], {"lost_gaps": 1}, 5),
    "lost at the wrap": ([data(0, LAST_SEQUENCE - 1), data(1, 2)], ["lost"], {"lost_gaps": 1}, 3),
    "duplicate": ([data(0, 0, 3), data(3, 3, 2), data(5, 3, 2)], ["duplicate"], {"duplicate_batches": 1}, 0),
    "duplicate, then on": (
        [data(0, 0, 3), data(3, 3, 7), data(10, 0, 3), data(13, 10, 2)], ["duplicate"], {"duplicate_batches": 1}, 0,
    ),
    "duplicate of the last, then on": (
        [data(0, 0, 3), data(3, 3, 2), data(5, 3, 2), data(7, 5, 4)], ["duplicate"], {"duplicate_batches": 1}, 0,
    ),
    "duplicate, then a loss": (
        [data(0, 0, 10), data(10, 0, 3), data(13, 14, 2)],
        ["duplicate", "lost"], {"duplicate_batches": 1, "lost_gaps": 1}, 4,
    ),
    "overlap": ([data(0, 0, 5), data(5, 3, 5)], ["overlap"], {"overlapping_batches": 1}, 0),
    "overlap, then on": ([data(0, 0, 5), data(5, 3, 5), data(10, 8)], ["overlap"], {"overlapping_batches": 1}, 0),
    "nonzero start": ([data(0, 0, 2), data(2, 4, epoch=1)], ["nonzero_start"], {"nonzero_starts": 1}, 0),
    "new epoch from 0": ([data(0, 0, 2), data(2, 0, epoch=1)], [], {}, 0),
    "epoch regression": (
        [data(0, 0, epoch=3), data(1, 0, epoch=2), data(2, 1, epoch=2)],
        ["epoch_regression"], {"epoch_regressions": 2}, 0,
    ),
    "epoch regression, then on": (
        [data(0, 0, 2, epoch=3), data(2, 0, epoch=2), data(3, 2, epoch=3)],
        ["epoch_regression"], {"epoch_regressions": 1}, 0,
    ),
    "expired, then another epoch": (
        [data(0, 0, epoch=3, at=0), data(1, 0, epoch=2, at=EXPIRATION_MS), data(2, 1, epoch=2, at=EXPIRATION_MS)],
        ["expired"], {"explained_gaps": 1}, 0,
    ),
    "expired, then anything": (
        [data(0, 0, 3, at=0), data(3, 70, at=EXPIRATION_MS)], ["expired"], {"explained_gaps": 1}, 0,
    ),
    "expired, then from 0": (
        [data(0, 0, 3, at=0), data(3, 0, at=EXPIRATION_MS), data(4, 1, at=EXPIRATION_MS)],
        ["expired"], {"explained_gaps": 1}, 0,
    ),
    "not yet expired": ([data(0, 0, 3, at=0), data(3, 70, at=EXPIRATION_MS - 1)], ["lost"], {"lost_gaps": 1}, 67),
}  # fmt: skip


@pytest.mark.parametrize("cut", [False, True], ids=["one stretch", "cut before the last batch"])
@pytest.mark.parametrize(("rows", "causes", "counts", "missing"), CASES.values(), ids=CASES)
def test_each_break_has_its_cause(
    rows: Rows, causes: list[str], counts: dict[str, int], missing: int, cut: bool
) -> None:
    replay = replayed(rows, *([len(rows) - 1] if cut else []))
    found = [b.cause for b in replay.breaks()]
    if cut and causes == ["epoch_regression"]:
        assert set(found) == {"epoch_regression"}
    else:
        assert found == causes
    assert counted(replay) == counts
    assert sum(e.missing_sequences for e in replay.epochs.values()) == missing


def test_a_break_says_where_and_what_was_due() -> None:
    (found,) = replayed([data(0, 0, 3), data(3, 8)]).breaks()
    assert (found.expected_sequence, found.found_sequence, found.offset, found.previous_offset) == (3, 8, 3, 2)
    (found,) = replayed([data(0, 0, 10), data(10, 0, 3), data(13, 14, 2)]).epochs[7, 0].breaks[-1:]
    assert (found.expected_sequence, found.found_sequence, found.offset) == (10, 14, 13)
    assert not found.explained


def test_compaction_explains_what_is_missing_but_brings_nothing_back() -> None:
    gone = [data(0, 0, 3), data(3, 8), data(4, 20, epoch=1)]
    for cuts in ((), (1, 2)):
        replay = replayed(gone, *cuts, compacted=True)
        assert counted(replay) == {"explained_gaps": 2}
        assert {b.cause for b in replay.breaks()} == {"compacted"}
        assert all(b.explained for b in replay.breaks())
    assert counted(replayed([data(0, 0, 3), data(3, 0, 3)], compacted=True)) == {"duplicate_batches": 1}


def test_the_coordinators_own_batches_are_not_judged() -> None:
    rows = [transactional(0, 5), transactional(1, 5), transactional(2, 5)]
    assert counted(replayed(rows, ignore_sequences=True)) == {}
    assert counted(replayed(rows)) == {"duplicate_batches": 2}


def test_state_is_what_a_producer_snapshot_would_hold() -> None:
    replay = replayed([data(4, 10, 3, epoch=2, at=77)])
    assert replay.states[7] == ProducerSnapshotEntry(
        producer_id=7,
        producer_epoch=2,
        last_sequence=12,
        last_offset=6,
        offset_delta=2,
        timestamp=77,
        coordinator_epoch=-1,
        current_transaction_first_offset=None,
    )


@pytest.mark.parametrize(
    ("marker_epoch", "last"),
    [pytest.param(0, (0, 4), id="version 1: the data's epoch"), pytest.param(1, (-1, -1), id="version 2: one above")],
)
def test_a_marker_ends_a_transaction_and_version_2_empties_the_batch_metadata(
    marker_epoch: int, last: tuple[int, int]
) -> None:
    rows = [transactional(4, 9), marker(5, producer_id=9, producer_epoch=marker_epoch, coordinator_epoch=6)]
    replay = replayed(rows)
    state = replay.states[9]
    assert (state.last_sequence, state.last_offset) == last
    assert (state.producer_epoch, state.coordinator_epoch) == (marker_epoch, 6)
    assert state.current_transaction_first_offset is None
    (transaction,) = replay.transactions
    assert (transaction.outcome, transaction.marker_offset, transaction.marker_producer_epoch) == (
        "committed",
        5,
        marker_epoch,
    )
    # The next transaction starts at sequence 0 under version 2, and goes on under version 1.
    after = [*rows, transactional(6, 9, 1 - marker_epoch, epoch=marker_epoch)]
    assert counted(replayed(after)) == {}
    assert counted(replayed([*rows, transactional(6, 9, 5, epoch=marker_epoch)])) == (
        {"nonzero_starts": 1} if marker_epoch else {"lost_gaps": 1}
    )


def test_a_log_that_begins_with_an_end_marker_does_not_tell_which_sequence_is_due() -> None:
    ended = marker(50, producer_id=9, producer_epoch=0)
    goes_on = [ended, transactional(51, 9, 26), transactional(52, 9, 27)]
    assert counted(replayed(goes_on, head_gone=True)) == {}
    assert counted(replayed(goes_on)) == {"nonzero_starts": 1}
    next_epoch = [ended, transactional(51, 9, 26, epoch=1)]
    assert counted(replayed(next_epoch, head_gone=True)) == {"nonzero_starts": 1}
    lost = [*goes_on, transactional(53, 9, 40)]
    assert counted(replayed(lost, head_gone=True)) == {"lost_gaps": 1}


def only(replay: ProducerReplay) -> Transaction:
    (transaction,) = replay.transactions
    return transaction


@pytest.mark.parametrize(
    ("marker_epoch", "kind", "compacted", "outcome"),
    [
        (81, COMMIT, True, "committed"),
        (83, COMMIT, True, UNKNOWN),
        (82, ABORT, True, "aborted"),
        (83, ABORT, True, UNKNOWN),
        (83, COMMIT, False, "committed"),
    ],
)
def test_a_marker_of_a_later_transaction_does_not_tell_how_one_ended_whose_own_a_cleaner_took(
    marker_epoch: int, kind: int, compacted: bool, outcome: str
) -> None:
    """A replica that was away fetches what a cleaner has left: data of epoch 80 from before, then another's marker."""
    batches = [transactional(0, 7, epoch=80), marker(90, producer_id=7, producer_epoch=marker_epoch, kind=kind)]
    (transaction,) = replayed(batches, compacted=compacted).transactions
    assert (transaction.outcome, transaction.marker_offset, transaction.is_open) == (outcome, 90, False)
    assert transaction.marker_producer_epoch == (None if outcome == UNKNOWN else marker_epoch)


def test_a_marker_sent_again_by_a_new_coordinator_is_no_contradiction() -> None:
    rows = [
        transactional(0, 9),
        marker(1, producer_id=9, producer_epoch=1, coordinator_epoch=3),
        marker(2, producer_id=9, producer_epoch=1, coordinator_epoch=4),
    ]
    again = only(replayed(rows))
    assert (again.repeated_markers, again.contradicting_markers, again.coordinator_epoch) == (1, 0, 3)


def test_the_other_marker_of_the_same_transaction_contradicts_it_under_version_2_only() -> None:
    for marker_epoch, contradicting in ((1, 1), (0, 0)):
        rows = [
            transactional(0, 9),
            marker(1, producer_id=9, producer_epoch=marker_epoch),
            marker(2, producer_id=9, producer_epoch=marker_epoch, kind=ABORT),
        ]
        assert only(replayed(rows)).contradicting_markers == contradicting


def test_an_empty_abort_of_the_next_transaction_says_nothing_of_the_one_before() -> None:
    rows = [
        transactional(0, 9),
        marker(1, producer_id=9, producer_epoch=1),
        marker(2, producer_id=9, producer_epoch=2, kind=ABORT),
        marker(3, producer_id=9, producer_epoch=2, kind=COMMIT),
    ]
    transaction = only(replayed(rows))
    assert (transaction.outcome, transaction.repeated_markers, transaction.contradicting_markers) == ("committed", 0, 0)
    alone = replayed([marker(2, producer_id=9, producer_epoch=2, kind=ABORT)])
    assert alone.transactions == ()
    assert alone.epochs[9, 2].first_sequence is None


def test_the_last_stable_offset_of_an_abort_is_held_back_by_another_open_transaction() -> None:
    rows = [
        transactional(0, 9),
        transactional(1, 8),
        marker(2, producer_id=9, kind=ABORT),
        transactional(3, 9, 1),
        marker(4, producer_id=8, kind=ABORT),
        marker(5, producer_id=9, kind=COMMIT),
    ]
    for cuts in ((), (2,), (1, 3, 4)):
        replay = replayed(rows, *cuts)
        first, second, third = replay.completed
        assert (first.producer_id, first.outcome, first.last_stable_offset) == (9, "aborted", 1)
        assert (second.producer_id, second.first_offset, second.last_stable_offset) == (8, 1, 3)
        assert (third.first_offset, third.last_stable_offset) == (3, 6)
        assert third.previous_coordinator_epoch == 0
        assert replay.open_transactions == ()


def test_a_transaction_over_several_stretches_is_one() -> None:
    rows = [transactional(n, 9, n) for n in range(6)]
    replay = replayed([*rows, transactional(6, 8)], 2, 4)
    assert [(t.producer_id, t.first_offset, t.last_offset, t.records) for t in replay.open_transactions] == [
        (9, 0, 5, 6),
        (8, 6, 6, 1),
    ]
    assert replay.states[9].current_transaction_first_offset == 0


def test_what_is_unstable_depends_on_the_high_watermark() -> None:
    replay = replayed([transactional(3, 9), marker(4, producer_id=9), transactional(5, 8)])
    assert [replay.first_unstable_offset(hw) for hw in (None, 5, 4)] == [5, 5, 3]
    assert replayed([data(0, 0)]).first_unstable_offset(0) is None


def test_a_replay_goes_on_from_a_producer_snapshot() -> None:
    state = ProducerSnapshotEntry(
        producer_id=9,
        producer_epoch=2,
        last_sequence=4,
        last_offset=90,
        offset_delta=0,
        timestamp=1_000,
        coordinator_epoch=3,
        current_transaction_first_offset=80,
    )
    replay = seeded(ProducerReplay(), [state])
    assert [t.first_offset for t in replay.open_transactions] == [80]
    log = headers(transactional(100, 9, 5, epoch=2), marker(101, producer_id=9, producer_epoch=2, coordinator_epoch=5))
    part = summarise([log])
    replay.add(part.events, part.gaps)
    transaction = only(replay)
    assert (transaction.first_offset, transaction.marker_offset, transaction.previous_coordinator_epoch) == (80, 101, 3)
    assert counted(replay) == {}
