"""Epoch vectors and Kafka's truncation exchange, with the examples of KIP-101 and KIP-279."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.facts.replicas.epochs import UNDEFINED, EpochVector, epoch_vector, truncation
from tidegauge.kafka_log.checkpoints import EpochEntry

Pairs = Sequence[tuple[int, int]]


def entries(pairs: Pairs) -> tuple[EpochEntry, ...]:
    return tuple(EpochEntry(leader_epoch=e, start_offset=o) for e, o in pairs)


def vector(*pairs: tuple[int, int], end: int, start: int = 0) -> EpochVector:
    return EpochVector(entries=entries(pairs), log_start_offset=start, log_end_offset=end)


def loaded(checkpoint: Pairs | None, batches: Pairs, *, end: int, start: int = 0) -> list[tuple[int, int]]:
    found = epoch_vector(
        checkpoint=None if checkpoint is None else entries(checkpoint),
        batch_epochs=entries(batches),
        log_start_offset=start,
        log_end_offset=end,
    )
    return [(e.leader_epoch, e.start_offset) for e in found.entries]


@pytest.mark.parametrize(
    ("requested", "answer"),
    [
        (-1, (None, None)),
        (0, (0, 10)),  # older than the first known: it is told to end where that begins
        (1, (1, 10)),
        (2, (2, 25)),
        (3, (2, 25)),  # a hole: the largest below, and where the next begins
        (4, (2, 25)),
        (5, (5, 40)),
        (6, (5, 40)),
        (7, (7, 60)),  # the latest ends at the log end
        (8, (None, None)),  # newer than all
    ],
)
def test_end_offset_for(requested: int, answer: tuple[int | None, int | None]) -> None:
    found = vector((2, 10), (5, 25), (7, 40), end=60).end_offset_for(requested)
    assert (found.leader_epoch, found.end_offset) == answer


def test_an_empty_vector_knows_nothing_and_an_empty_epoch_ends_where_it_starts() -> None:
    assert vector(end=60).end_offset_for(0) == UNDEFINED
    assert vector(end=60).latest_epoch is None
    empty = vector((0, 0), (3, 60), end=60)
    assert empty.end_offset_for(3).end_offset == 60
    assert empty.end_offset_for(0).end_offset == 60


def test_the_epoch_of_an_offset_and_the_offset_of_an_epoch() -> None:
    known = vector((2, 10), (5, 25), end=60)
    assert [known.epoch_at(o) for o in (9, 10, 24, 25, 99)] == [None, 2, 2, 5, 5]
    assert [known.start_of(e) for e in (2, 3, 5)] == [10, None, 25]


@pytest.mark.parametrize(
    ("checkpoint", "batches", "bounds", "expected"),
    [
        pytest.param([(0, 0), (2, 50)], [(0, 0), (2, 50)], (0, 90), [(0, 0), (2, 50)], id="agreeing"),
        pytest.param([(0, 0)], [(0, 0), (2, 50)], (0, 90), [(0, 0), (2, 50)], id="checkpoint older than the log"),
        pytest.param(None, [(1, 20), (2, 50)], (20, 90), [(1, 20), (2, 50)], id="no checkpoint"),
        pytest.param([], [(1, 20)], (20, 90), [(1, 20)], id="empty checkpoint"),
        pytest.param([(0, 0), (2, 50), (3, 91)], [(0, 0), (2, 50)], (0, 90), [(0, 0), (2, 50)], id="beyond the end"),
        pytest.param(
            [(0, 0), (2, 50), (3, 90)], [(0, 0), (2, 50)], (0, 90), [(0, 0), (2, 50), (3, 90)], id="at the end"
        ),
        pytest.param([(0, 0), (1, 10), (2, 50)], [(2, 50)], (50, 90), [(2, 50)], id="below the start"),
        pytest.param([(0, 0), (1, 10)], [(1, 10)], (30, 90), [(1, 30)], id="the log starts in mid-epoch"),
        pytest.param(
            [(0, 0), (1, 0), (2, 5)], [(1, 0), (2, 5)], (0, 9), [(1, 0), (2, 5)], id="an epoch without records"
        ),
        pytest.param([(0, 0), (2, 50), (1, 20)], [(0, 0)], (0, 90), [(0, 0), (1, 20)], id="swapped: the later rules"),
        pytest.param([(0, 0), (-3, 4)], [(0, 0)], (0, 90), [(0, 0)], id="negative"),
        pytest.param([(0, 0), (5, 50)], [(0, 0), (3, 40), (5, 50)], (0, 90), [(0, 0), (5, 50)], id="checkpoint rules"),
    ],
)
def test_the_vector_that_a_broker_would_load(
    checkpoint: Pairs | None, batches: Pairs, bounds: tuple[int, int], expected: Pairs
) -> None:
    assert loaded(checkpoint, batches, start=bounds[0], end=bounds[1]) == list(expected)


def test_an_entry_beyond_the_log_end_hides_no_epoch_that_batches_have() -> None:
    assert loaded([(0, 0), (1, 8000)], [(0, 0), (1, 800)], end=1100) == [(0, 0), (1, 800)]


def cut(leader: EpochVector, follower: EpochVector, high_watermark: int | None = None) -> tuple[int, int]:
    found = truncation(leader=leader, follower=follower, follower_high_watermark=high_watermark)
    return found.offset, found.rounds


def test_kip_101_scenario_1_a_follower_behind_a_high_watermark_keeps_its_message() -> None:
    # A has m1, m2 but its high watermark is 1; it restarts as follower of B, which has the same: nothing is cut.
    assert cut(vector((0, 0), end=2), vector((0, 0), end=2), high_watermark=1) == (2, 1)
    # A new leader's epoch begins behind them: still nothing is cut.
    assert cut(vector((0, 0), (1, 2), end=3), vector((0, 0), end=2), high_watermark=1) == (2, 1)


def test_kip_101_scenario_2_two_messages_at_one_offset_in_two_epochs() -> None:
    # B came back first with one message and wrote its own at offset 1 in epoch 1; A's epoch 0 goes on to 2.
    assert cut(vector((0, 0), (1, 1), end=2), vector((0, 0), end=2), high_watermark=2) == (1, 1)


def test_kip_279_fast_failover_takes_several_rounds() -> None:
    # The follower led epochs that the leader never saw, and the leader led between them.
    leader = vector((0, 0), (2, 10), (4, 25), end=40)
    follower = vector((0, 0), (1, 10), (3, 20), end=30)
    # asks 3 -> (2, 25), own end of 2 is epoch 1's: cut to 20; asks 1 -> (0, 10), own end of 0 is 10.
    assert cut(leader, follower) == (10, 2)


def test_kip_279_a_third_round() -> None:
    leader = vector((0, 0), (3, 5), (6, 30), end=40)
    follower = vector((0, 0), (2, 8), (4, 15), (5, 22), end=28)
    # asks 5 -> (3, 30): its largest below is 2, which ends at 15; asks 2 -> (0, 5), its own end of 0 is 8.
    assert cut(leader, follower) == (5, 2)
    follower = vector((1, 0), (2, 8), (5, 22), end=28)
    leader = vector((0, 0), (1, 3), (4, 5), (6, 30), end=40)
    # asks 5 -> (4, 30); own: 2, to 22. asks 2 -> (1, 5); own end of 1 is 8.
    assert cut(leader, follower) == (5, 2)
    leader = vector((0, 0), (2, 6), (4, 12), (6, 30), end=40)
    follower = vector((0, 0), (1, 6), (3, 14), (5, 22), end=28)
    # 5 -> (4, 30); own 3 to 22. 3 -> (2, 12); own 1 to 14. 1 -> (0, 6); own 0 to 6.
    assert cut(leader, follower) == (6, 3)


@pytest.mark.parametrize(
    ("leader", "follower", "offset"),
    [
        pytest.param(vector((0, 0), end=50), vector((0, 0), end=30), 30, id="only behind"),
        pytest.param(vector((0, 0), end=30), vector((0, 0), end=50), 30, id="longer within the leader's epoch"),
        pytest.param(vector((0, 0), (1, 30), end=50), vector((0, 0), (1, 30), end=40), 40, id="behind, same epochs"),
        pytest.param(vector((0, 0), (1, 30), end=50), vector((1, 30), end=40, start=30), 40, id="head gone"),
        pytest.param(vector((3, 0), (4, 80), end=90), vector((5, 50), end=70, start=50), 70, id="from the future"),
        pytest.param(vector((3, 0), (6, 60), end=90), vector((5, 50), end=70, start=50), 50, id="no such epoch here"),
        pytest.param(vector(end=50), vector(end=40), 40, id="before epochs"),
        pytest.param(vector((0, 0), end=50), vector((0, 40), end=40, start=40), 40, id="an empty follower"),
    ],
)
def test_where_a_follower_is_cut(leader: EpochVector, follower: EpochVector, offset: int) -> None:
    assert cut(leader, follower)[0] == offset


@pytest.mark.parametrize(
    ("leader", "offset"),
    [
        pytest.param(vector((0, 0), end=50), 40, id="and whose log is longer cuts nothing"),
        pytest.param(vector((0, 0), end=30), 30, id="and whose log is shorter cuts to its end"),
        pytest.param(vector((0, 0), (1, 8), end=12), 8, id="and whose log parts further down is asked again"),
        pytest.param(vector(end=30), 30, id="or that knows no epoch at all cuts to its end"),
    ],
)
def test_a_leader_whose_epochs_end_below_the_followers(leader: EpochVector, offset: int) -> None:
    # It answers that the offset is out of range. The high watermark plays no part in that.
    assert cut(leader, vector((0, 0), (3, 20), end=40), high_watermark=25)[0] == offset


def test_a_follower_without_any_epoch_fetches_from_its_high_watermark() -> None:
    assert cut(vector((0, 0), end=50), vector(end=40), high_watermark=25) == (25, 0)
    assert cut(vector((0, 0), end=20), vector(end=40), high_watermark=25) == (20, 1)


def test_a_cut_within_an_epoch_that_both_hold_is_looked_at_again() -> None:
    # 7 ends at 40 for the leader. There the follower is in epoch 4, which ends at 33 for the leader, and so on.
    leader = vector((2, 0), (4, 25), (7, 33), (10, 40), end=68)
    follower = vector((2, 0), (4, 39), (6, 45), (7, 51), end=54)
    assert cut(leader, follower) == (25, 3)


@st.composite
def histories(draw: st.DrawFn) -> tuple[EpochVector, EpochVector, int]:
    """Two replicas that share a prefix; then each goes on with epochs of its own. The last: where they part."""
    shared = draw(st.integers(1, 4))
    offsets = [0]
    for _ in range(shared):
        offsets.append(offsets[-1] + draw(st.integers(1, 9)))
    common = list(zip(range(shared), offsets[:-1], strict=True))
    parted = offsets[-1]
    mine, theirs = list(common), list(common)
    ends = [parted, parted]
    epoch = shared
    for _ in range(draw(st.integers(1, 6))):
        who = draw(st.integers(0, 1))
        (mine, theirs)[who].append((epoch, ends[who]))
        ends[who] += draw(st.integers(1, 9))
        epoch += 1
    mine.append((epoch, ends[0]))  # the leader has been elected anew
    return vector(*mine, end=ends[0] + 1), vector(*theirs, end=ends[1]), parted


@given(histories())
def test_the_exchange_never_keeps_what_the_leader_has_otherwise(
    history: tuple[EpochVector, EpochVector, int],
) -> None:
    leader, follower, parted = history
    offset, rounds = cut(leader, follower)
    assert offset == parted, "both know every epoch of their logs, so the exchange finds the very place"
    assert rounds <= len(follower.entries) + 1
