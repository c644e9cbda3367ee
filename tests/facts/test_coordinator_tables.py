"""Kafka's internal topics as tables: against what the brokers answered, merging, transactions, tombstones."""

import io
import json
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka_log.writing import batch, marker, record
from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.facts.coordinators.tables import (
    CoordinatorTable,
    commit_courses,
    committed_offsets,
    forgotten_offsets,
    from_offset,
    latest_records,
    merge_tables,
    remote_segments,
    transaction_states,
)
from tidegauge.kafka_log.allowance import of_internal_topic
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS, REMOTE_LOG_METADATA, TRANSACTION_STATE
from tidegauge.kafka_log.scan import scan_buffer

Golden = Callable[[str], Path]


def table_of(topic: str, segment: bytes) -> CoordinatorTable:
    allowance = of_internal_topic()
    batches = SegmentFile("00000000000000000000.log", io.BytesIO(segment)).records(allowance)
    return latest_records(topic, batches, allowance)


ABORT_KEY = bytes.fromhex("00000000")


def tables(capture: Path, topic: str, broker: int) -> list[CoordinatorTable]:
    """One table a partition."""
    directories = sorted(capture.glob(f"broker-{broker}/{topic}-*"))
    return [
        merge_tables(table_of(topic, log.read_bytes()) for log in sorted(directory.glob("*.log")))
        for directory in directories
        if not directory.name.endswith("-delete")
    ]


def answered(capture: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((capture / "GROUND_TRUTH.json").read_text())["probe_at_capture"]
    return truth


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def commit(group: str, offset: int | None) -> bytes:
    """A group's commit for orders-0; None takes it back."""
    value = None if offset is None else struct.pack(">hqi", 3, offset, 5) + text("") + struct.pack(">q", 7)
    return record(0, struct.pack(">h", 1) + text(group) + text("orders") + struct.pack(">i", 0), value)


def commits(*steps: tuple[str, Any]) -> list[bytes]:
    """Batches: ("g", 5) a commit, ("g", None) a tombstone, ("begin g", 5) one inside producer 9's transaction."""
    batches = []
    for at, (what, value) in enumerate(steps):
        match what.split():
            case ["commit"] | ["abort"]:
                key = {"key": ABORT_KEY} if what == "abort" else {}
                batches.append(marker(at, producer_id=value, **key))  # type: ignore[arg-type]
            case ["begin", group]:
                one = batch(
                    at, commit(group, value), 1, attributes=0x10, producer_id=9, producer_epoch=1, base_sequence=0
                )
                batches.append(one)
            case [group]:
                batches.append(batch(at, commit(group, value), 1))
    return batches


def standing(*segments: bytes) -> dict[str, int]:
    table = merge_tables(table_of(CONSUMER_OFFSETS, segment) for segment in segments)
    return {c.group: c.offset for c in committed_offsets([table])}


@pytest.mark.parametrize("capture", ["healthy", "pair-clean-b1", "pair-clean-b2", "tiered", "hanging-txn"])
@pytest.mark.parametrize("broker", [1, 2, 3])
def test_committed_offsets_are_what_the_brokers_answered(golden: Golden, capture: str, broker: int) -> None:
    said = {
        (group, partition): (commit["offset"], commit.get("leader_epoch"))
        for group, members in answered(golden(capture))["groups"].items()
        if members["type"] != "Share"  # a share group's progress is in __share_group_state
        for partition, commit in members.get("committed", {}).items()
    }
    found = {
        (c.group, f"{c.topic}-{c.partition}"): (c.offset, c.leader_epoch)
        for c in committed_offsets(tables(golden(capture), CONSUMER_OFFSETS, broker))
    }
    assert found == said
    assert said or capture == "hanging-txn"


@pytest.mark.parametrize("capture", ["epochs", "healthy", "unclean-before", "hanging-txn", "tiered", "pair-clean-b1"])
def test_transactional_ids_are_what_the_coordinators_answered(golden: Golden, capture: str) -> None:
    states = transaction_states(tables(golden(capture), TRANSACTION_STATE, 3))
    said = answered(golden(capture))["transactions"]
    assert said
    for transaction in said:
        state = states[transaction["pid"]]
        assert (state.transactional_id, state.state) == (transaction["transactional_id"], transaction["state"])
        assert (state.producer_epoch, state.timeout_ms) == (transaction["epoch"], transaction["timeout_ms"])
        if state.state == "Ongoing":
            assert sorted(str(p) for p in state.partitions) == sorted(transaction["partitions"])
    assert {state.transactional_id for state in states.values()} == {t["transactional_id"] for t in said}


@pytest.mark.parametrize("capture", ["healthy", "soak-01", "tiered"])
@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE, REMOTE_LOG_METADATA])
def test_cutting_a_log_between_any_two_batches_changes_nothing(golden: Golden, capture: str, topic: str) -> None:
    for log in golden(capture).glob(f"broker-1/{topic}-*/*.log"):
        data = log.read_bytes()
        whole = table_of(topic, data)
        positions = scan_buffer(data)[0]["position"].tolist()
        for cut in positions[:: max(len(positions) // 8, 1)]:
            parts = merge_tables([table_of(topic, data[:cut]), table_of(topic, data[cut:])])
            assert (parts.latest, parts.pending, parts.unreadable) == (whole.latest, whole.pending, 0)


def test_remote_segments_are_the_files_of_the_remote_storage(golden: Golden) -> None:
    found = remote_segments(tables(golden("tiered"), REMOTE_LOG_METADATA, 1))
    files = json.loads((golden("tiered") / "GROUND_TRUTH.json").read_text())["remote_files"]
    stored = {Path(file).stem.split("-", 1)[1] for file in files if file.endswith(".log")}
    assert {s.segment_id for s in found if s.state == "COPY_SEGMENT_FINISHED"} == stored
    adjacent = 0
    for before, after in pairwise(found):
        if (before.topic, before.partition) == (after.topic, after.partition):
            assert before.end_offset == after.start_offset
            adjacent += 1
    assert adjacent > 5


def test_the_newest_commit_stands() -> None:
    assert standing(b"".join(commits(("g", 5), ("h", 1), ("g", 3)))) == {"g": 3, "h": 1}


def test_a_tombstone_takes_a_commit_back() -> None:
    gone = b"".join(commits(("g", 5), ("h", 1), ("g", None)))
    assert standing(gone) == {"h": 1}
    assert forgotten_offsets([table_of(CONSUMER_OFFSETS, gone)]) == {("g", "orders", 0)}
    assert standing(b"".join(commits(("g", 5), ("g", None), ("g", 6)))) == {"g": 6}


def test_a_commit_inside_a_transaction_counts_when_it_is_committed() -> None:
    assert standing(b"".join(commits(("g", 5), ("begin g", 7)))) == {"g": 5}
    assert standing(b"".join(commits(("g", 5), ("begin g", 7), ("commit", 9)))) == {"g": 7}
    assert standing(b"".join(commits(("g", 5), ("begin g", 7), ("abort", 9)))) == {"g": 5}
    assert standing(b"".join(commits(("g", 5), ("begin g", 7), ("commit", 8)))) == {"g": 5}


def test_a_commit_after_a_transactional_one_is_newer_than_its_marker() -> None:
    assert standing(b"".join(commits(("begin g", 7), ("g", 9), ("commit", 9)))) == {"g": 9}


def test_a_tombstone_takes_back_what_an_open_transaction_has_pending() -> None:
    """As the coordinator does when a topic is deleted: its offsets must not come back with the marker."""
    log = commits(("g", 5), ("begin g", 7), ("begin h", 2), ("g", None), ("commit", 9))
    for cut in range(len(log) + 1):
        assert standing(b"".join(log[:cut]), b"".join(log[cut:])) == {"h": 2}, cut
    assert standing(b"".join(commits(("begin g", 7), ("g", None), ("begin g", 8), ("commit", 9)))) == {"g": 8}


def steps_of(*segments: bytes) -> tuple[int, int, int, int] | None:
    """Of group g: how many steps, how many of them fell, and the lowest one, from what to what."""
    table = merge_tables(table_of(CONSUMER_OFFSETS, segment) for segment in segments)
    course = commit_courses([table])["orders", 0].get("g")
    if course is None or course.lowest is None:
        return None
    lowest = course.lowest
    return course.steps, course.falls, lowest.before.commit.offset, lowest.after.commit.offset


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("g", 5), ("g", 7), ("g", 8)], (2, 0, 7, 8)),
        ([("g", 7), ("h", 1), ("g", 5)], (1, 1, 7, 5)),
        ([("g", 7), ("g", 5), ("g", 9), ("g", 8)], (3, 2, 7, 5)),
        ([("g", 7), ("g", None), ("g", 5)], None),
        ([("g", 7), ("g", 5), ("g", None), ("g", 9)], None),
        ([("g", 7), ("begin g", 5)], None),
        ([("g", 7), ("begin g", 5), ("abort", 9)], None),
        ([("g", 7), ("begin g", 5), ("commit", 9)], (1, 1, 7, 5)),
        ([("g", 7), ("begin g", 5), ("g", 8), ("commit", 9)], (1, 0, 7, 8)),
        ([("g", 7), ("begin g", 5), ("commit", 9), ("g", 4)], (2, 2, 7, 5)),
    ],
)
def test_a_committed_offset_that_falls_is_told_wherever_segments_roll(
    steps: list[tuple[str, Any]], expected: tuple[int, int, int, int] | None
) -> None:
    log = commits(*steps)
    for cut in range(len(log) + 1):
        assert steps_of(b"".join(log[:cut]), b"".join(log[cut:])) == expected, cut


def test_what_came_with_a_record_or_a_marker_at_the_high_watermark_or_behind_it() -> None:
    log = commits(("g", 5), ("begin h", 7), ("k", 1), ("commit", 9), ("k", None), ("begin g", 8))
    whole = b"".join(log)
    for segments in ((whole,), (whole[: len(log[0] + log[1])], whole[len(log[0] + log[1]) :])):
        table = merge_tables(table_of(CONSUMER_OFFSETS, segment) for segment in segments)
        beyond = {offset: {key[0] for key in from_offset(table, offset)} for offset in range(6)}
        assert beyond == {0: {"g", "h", "k"}, 1: {"h", "k"}, 2: {"h", "k"}, 3: {"h", "k"}, 4: {"k"}, 5: set()}


def test_a_batch_that_cannot_be_read_is_counted_and_the_rest_read() -> None:
    broken = batch(0, b"\x7f", 1)
    table = table_of(CONSUMER_OFFSETS, broken + batch(1, commit("g", 5), 1) + batch(2, record(0, b"\0", b""), 1))
    assert table.unreadable == 2
    assert [c.offset for c in committed_offsets([table])] == [5]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["g", "h", "begin g", "begin h"]), st.none() | st.integers(0, 99)),
        st.tuples(st.sampled_from(["commit", "abort"]), st.just(9)),
    ),
    max_size=12,
)


@given(steps=STEPS, cuts=st.lists(st.integers(0, 12), max_size=3))
def test_segments_may_roll_anywhere(steps: list[tuple[str, Any]], cuts: list[int]) -> None:
    batches = commits(*steps)
    edges = [0, *sorted(cuts), len(batches)]
    segments = [b"".join(batches[a:b]) for a, b in pairwise(edges)]
    assert standing(*segments) == standing(b"".join(batches))
    assert steps_of(*segments) == steps_of(b"".join(batches))


@given(steps=STEPS, cut=st.integers(0, 12), other=st.integers(0, 12))
def test_merging_is_associative(steps: list[tuple[str, Any]], cut: int, other: int) -> None:
    batches = commits(*steps)
    first, second = sorted((cut, other))
    a, b, c = (
        table_of(CONSUMER_OFFSETS, b"".join(part))
        for part in (batches[:first], batches[first:second], batches[second:])
    )
    assert merge_tables([merge_tables([a, b]), c]) == merge_tables([a, merge_tables([b, c])])
