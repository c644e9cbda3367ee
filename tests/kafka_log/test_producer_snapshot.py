"""Producer snapshots: against what Kafka's dump tool prints of them, round trips, damage."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka_log.kafka_dump_lines import dumped_lines
from tidegauge.kafka_log.corruption import Damage
from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry, parse_producer_snapshot

Golden = Callable[[str], Path]
CAPTURES = ["healthy", "epochs", "unclean-before", "hanging-txn"]


def written(entries: list[ProducerSnapshotEntry], *, version: int = 1, count: int | None = None) -> bytes:
    covered = struct.pack(">i", len(entries) if count is None else count)
    for e in entries:
        open_from = -1 if e.current_transaction_first_offset is None else e.current_transaction_first_offset
        covered += struct.pack(
            ">qhiqi", e.producer_id, e.producer_epoch, e.last_sequence, e.last_offset, e.offset_delta
        )
        covered += struct.pack(">qiq", e.timestamp, e.coordinator_epoch, open_from)
    return struct.pack(">hI", version, crc32c(covered)) + covered


def line_of(entry: ProducerSnapshotEntry) -> str:
    """The line that Kafka's dump tool prints about an entry; it leaves the sequences out where there is no batch."""
    open_from = entry.current_transaction_first_offset
    first_offset = "OptionalLong.empty" if open_from is None else f"OptionalLong[{open_from}]"
    text = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {first_offset} "
        f"lastTimestamp: {entry.timestamp}"
    )
    if entry.last_offset < 0:
        return text
    first = entry.last_sequence - entry.offset_delta
    return (
        f"{text} firstSequence: {first} lastSequence: {entry.last_sequence} lastOffset: {entry.last_offset} "
        f"offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )


@pytest.mark.parametrize("capture", CAPTURES)
def test_entries_are_those_that_kafkas_dump_tool_prints(golden: Golden, capture: str) -> None:
    files = printed = 0
    for path, lines in dumped_lines(golden(capture), ".snapshot"):
        snapshot = parse_producer_snapshot(path.read_bytes())
        assert (snapshot.version, snapshot.corruptions) == (1, ()), path
        assert sorted(line_of(e) for e in snapshot.entries) == sorted(lines), path
        files += 1
        printed += len(lines)
    assert files >= 2
    assert printed >= 5


ENTRIES = st.lists(
    st.builds(
        ProducerSnapshotEntry,
        producer_id=st.integers(0, 2**63 - 1),
        producer_epoch=st.integers(-1, 2**15 - 1),
        last_sequence=st.integers(-1, 2**31 - 1),
        last_offset=st.integers(-1, 2**63 - 1),
        offset_delta=st.integers(0, 2**31 - 1),
        timestamp=st.integers(-1, 2**63 - 1),
        coordinator_epoch=st.integers(-1, 2**31 - 1),
        current_transaction_first_offset=st.none() | st.integers(0, 2**63 - 1),
    ),
    max_size=6,
)
ONE = ProducerSnapshotEntry(
    producer_id=7,
    producer_epoch=1,
    last_sequence=-1,
    last_offset=-1,
    offset_delta=0,
    timestamp=5,
    coordinator_epoch=-1,
    current_transaction_first_offset=None,
)


@given(entries=ENTRIES)
def test_what_is_written_is_read_back(entries: list[ProducerSnapshotEntry]) -> None:
    snapshot = parse_producer_snapshot(written(entries))
    assert (snapshot.version, snapshot.entries, snapshot.corruptions) == (1, tuple(entries), ())


@given(entries=ENTRIES, where=st.integers(0, 1000), flip=st.integers(1, 255))
def test_any_flipped_byte_is_found(entries: list[ProducerSnapshotEntry], where: int, flip: int) -> None:
    data = bytearray(written(entries))
    data[where % len(data)] ^= flip
    assert parse_producer_snapshot(bytes(data)).corruptions


@given(data=st.binary(max_size=200))
def test_any_bytes_are_entries_and_damage(data: bytes) -> None:
    snapshot = parse_producer_snapshot(data)
    assert len(snapshot.entries) <= len(data) // 46
    assert snapshot.corruptions or data == written(list(snapshot.entries))


@pytest.mark.parametrize("size", range(10))
def test_too_few_bytes_are_told(size: int) -> None:
    snapshot = parse_producer_snapshot(written([])[:size])
    assert (snapshot.version, snapshot.entries) == (None, ())
    assert [c.kind for c in snapshot.corruptions] == [Damage.FORM]


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_count_that_the_file_has_no_room_for_is_told(count: int) -> None:
    snapshot = parse_producer_snapshot(written([ONE, ONE], count=count))
    assert [c.kind for c in snapshot.corruptions] == [Damage.COUNT]
    assert snapshot.entries == (ONE,) * max(min(count, 2), 0)


def test_another_version_is_told() -> None:
    snapshot = parse_producer_snapshot(written([ONE], version=2))
    assert snapshot.version == 2
    assert [c.kind for c in snapshot.corruptions] == [Damage.VERSION]


def test_entries_under_a_wrong_checksum_are_handed_out_beside_the_damage() -> None:
    data = bytearray(written([ONE]))
    data[2] ^= 1
    snapshot = parse_producer_snapshot(bytes(data))
    assert [c.kind for c in snapshot.corruptions] == [Damage.CRC]
    assert snapshot.entries == (ONE,)
