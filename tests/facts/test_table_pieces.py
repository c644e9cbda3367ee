"""A coordinator's table in pieces is the same table, and no piece grows with its keys."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.test_coordinator_tables import STEPS, commits, table_of, tables
from tidegauge.facts.coordinators.group_history import EpochTrack, GroupHistory
from tidegauge.facts.coordinators.history import CoordinatorHistory
from tidegauge.facts.coordinators.table_pieces import pieces_of, whole_of
from tidegauge.facts.coordinators.tables import CoordinatorTable
from tidegauge.facts.coordinators.transactional_ids import Decision, Seen, TransactionalIdHistory
from tidegauge.kafka_log.coordinator_records import OffsetCommit, TransactionState
from tidegauge.kafka_log.internal_topics import (
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from tidegauge.kafka_log.types import TopicPartition

Golden = Callable[[str], Path]


def assert_same(table: CoordinatorTable, room: int) -> list[CoordinatorTable]:
    """What comes back is equal, and its keys have the same order."""
    pieces = list(pieces_of(table, room))
    again = whole_of(deepcopy(pieces))
    assert again == table
    for name in ("latest", "pending", "pending_epochs", "courses"):
        assert list(getattr(again, name)) == list(getattr(table, name))
    for name in ("transactional_ids", "groups", "share_states", "reached"):
        assert list(getattr(again.history, name)) == list(getattr(table.history, name))
    return pieces


@given(steps=STEPS, room=st.integers(1, 9))
def test_a_table_in_pieces_is_the_same_table(steps: list[tuple[str, Any]], room: int) -> None:
    assert_same(table_of(CONSUMER_OFFSETS, b"".join(commits(*steps))), room)


@pytest.mark.parametrize("capture", ["hanging-txn", "shares", "streams", "tiered"])
@pytest.mark.parametrize("room", [1, 7, 100_000])
def test_the_tables_of_real_coordinators_come_back(golden: Golden, capture: str, room: int) -> None:
    for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, REMOTE_LOG_METADATA):
        for table in tables(golden(capture), topic, 1):
            pieces = assert_same(table, room)
            assert room < 100_000 or len(pieces) == 1


def test_no_piece_grows_with_keys() -> None:
    latest: Any = {("g", "t", at): (at, _commit(at)) for at in range(10_000)}
    pieces = assert_same(CoordinatorTable(latest=latest, pending={5: dict(latest)}, pending_epochs={5: 0}), 1_000)
    assert len(pieces) == 22
    assert max(len(piece.latest) + len(piece.pending.get(5, ())) for piece in pieces) == 1_000


def test_what_a_tombstone_emptied_stays_open() -> None:
    assert_same(CoordinatorTable(pending={5: {}, 6: {}}, pending_epochs={5: 0, 6: 1}), 1)


def test_the_long_past_of_one_key_is_in_pieces_too() -> None:
    state = TransactionState(
        transactional_id="id", producer_id=1, producer_epoch=0, previous_producer_id=None, next_producer_id=None,
        timeout_ms=1, state="Empty", partitions=(TopicPartition("t", 0),), last_update_ms=None, start_ms=None,
        client_transaction_version=None, tombstone=False,
    )  # fmt: skip
    seen = Seen(offset=0, holes=0, value=state)
    decisions = [
        Decision(
            transactional_id="id", producer_id=1, marker_epoch=0, outcome="committed", partitions=state.partitions,
            client_transaction_version=None, record_offset=at, decided_at_ms=None,
        )
        for at in range(3_000)
    ]  # fmt: skip
    of_id = TransactionalIdHistory(first=seen, last=seen, decisions=decisions, newest=[seen])
    members = {(5, str(at)): True for at in range(3_000)}
    group = GroupHistory(
        first_offset=0, last_offset=9, members=members, tracks={key: EpochTrack(first=(1, 2)) for key in members}
    )
    past = CoordinatorHistory(transactional_ids={"a": of_id, "id": of_id}, groups={"g": group, "h": group})
    pieces = assert_same(CoordinatorTable(history=past), 500)
    for piece in pieces:
        assert sum(len(h.decisions) for h in piece.history.transactional_ids.values()) <= 500
        assert sum(len(g.members) + len(g.tracks) for g in piece.history.groups.values()) <= 500


def _commit(at: int) -> OffsetCommit:
    return OffsetCommit(
        group="g", topic="t", partition=at, offset=at, leader_epoch=None, commit_timestamp_ms=None, topic_id=None,
        version=None, tombstone=False,
    )  # fmt: skip
