"""Offset and time indexes: real ones against their logs, the preallocated active file, stale entries, damage."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.facts.replicas.derived_files import SegmentIndexCheck
from tidegauge.kafka_log.corruption import Damage
from tidegauge.kafka_log.indexes import parse_offset_index, parse_time_index
from tidegauge.kafka_log.log_dir import parse_segment_file
from tidegauge.kafka_log.scan import scan_buffer

Golden = Callable[[str], Path]
CAPTURES = ["healthy", "epochs", "unclean-before", "hanging-txn", "pair-clean-b2", "tiered", "kafka-4.1", "kafka-3.9"]


def offset_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def live_segments(capture: Path) -> Iterator[tuple[Path, int, bool]]:
    """Log file, base offset, whether it is the active one, of every live partition."""
    for directory in capture.glob("broker-*/*"):
        logs = sorted(directory.glob("*.log"))
        if directory.name.endswith("-delete") or directory.name == "__cluster_metadata-0":
            continue
        for log in logs:
            segment = parse_segment_file(log.name)
            assert segment is not None
            if not log.stat().st_size and not log.with_suffix(".index").exists():
                continue  # the files of a new segment are made when they are first needed
            yield log, segment.base_offset, log == logs[-1]


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_entry_of_a_real_index_leads_to_a_batch(golden: Golden, capture: str) -> None:
    entries = 0
    for log, base, active in live_segments(golden(capture)):
        headers, _ = scan_buffer(log.read_bytes())
        last_by_position = dict(zip(headers["position"].tolist(), headers["last_offset"].tolist(), strict=True))
        index = parse_offset_index(
            log.with_suffix(".index").read_bytes(),
            base_offset=base,
            log_size_bytes=log.stat().st_size,
            active=active,
        )
        assert (index.corruptions, index.stale_entries) == ((), 0), log
        found = [last_by_position.get(position) for position in index.positions.tolist()]
        assert found == index.offsets.tolist(), log
        entries += len(found)
    assert entries > 20


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_entry_of_a_real_time_index_is_the_largest_timestamp_so_far(golden: Golden, capture: str) -> None:
    entries = 0
    for log, base, active in live_segments(golden(capture)):
        headers, _ = scan_buffer(log.read_bytes())
        index = parse_time_index(log.with_suffix(".timeindex").read_bytes(), base_offset=base, active=active)
        assert (index.corruptions, index.stale_entries) == ((), 0), log
        times = set(headers["max_timestamp"].tolist())
        if not (headers["attributes"] & 0x40).any():  # a cleaned log may have lost the record that was indexed
            assert set(index.timestamps.tolist()) <= times, log
            assert not len(headers) or np.all(index.offsets <= headers["last_offset"][-1]), log
        entries += len(index.timestamps)
    assert entries > 20


def test_the_metadata_logs_index_is_padded_to_ten_mebibytes(golden: Golden) -> None:
    log = golden("healthy") / "broker-1/__cluster_metadata-0/00000000000000000000.log"
    data = log.with_suffix(".index").read_bytes()
    index = parse_offset_index(data, base_offset=0, log_size_bytes=log.stat().st_size, active=True)
    assert index.padding_bytes + 8 * len(index.offsets) == len(data) == 10 * 2**20
    assert (index.stale_entries, index.corruptions) == (0, ())


def test_padding_behind_the_entries_of_an_active_file_is_counted() -> None:
    index = parse_offset_index(
        offset_entries((9, 100), (19, 200)) + bytes(80), base_offset=50, log_size_bytes=300, active=True
    )
    assert (index.offsets.tolist(), index.positions.tolist()) == ([59, 69], [100, 200])
    assert (index.padding_bytes, index.stale_entries, index.corruptions) == (80, 0, ())


@pytest.mark.parametrize(
    "stale",
    [
        [(15, 150)],  # written before a truncation to 10, and never overwritten
        [(29, 150)],
        [(29, 300)],  # beyond the log's end
        [(0, 0), (29, 250)],
        [(-1, 250)],
    ],
)
def test_stale_entries_of_an_active_file_are_no_damage(stale: list[tuple[int, int]]) -> None:
    data = offset_entries((9, 100), (19, 200), *stale) + bytes(16)
    index = parse_offset_index(data, base_offset=0, log_size_bytes=300, active=True)
    assert index.offsets.tolist() == [9, 19]
    assert (index.stale_entries, index.padding_bytes, index.corruptions) == (len(stale), 16, ())


@pytest.mark.parametrize("bad", [(15, 250), (29, 150), (29, 300), (-1, 250), (0, 0)])
def test_the_same_entries_in_a_sealed_file_are_damage(bad: tuple[int, int]) -> None:
    data = offset_entries((9, 100), (19, 200), bad)
    index = parse_offset_index(data, base_offset=0, log_size_bytes=300, active=False)
    assert [(c.kind, c.position, c.end_position) for c in index.corruptions] == [(Damage.ORDER, 16, 24)]
    assert len(index.offsets) == 3


def test_zeros_behind_the_entries_of_a_sealed_file_are_damage() -> None:
    index = parse_time_index(time_entries((5, 1)) + bytes(24), base_offset=0, active=False)
    assert [(c.kind, c.position) for c in index.corruptions] == [(Damage.ORDER, 12), (Damage.ORDER, 24)]
    assert index.padding_bytes == 0


def test_a_sealed_file_of_zeros_is_told_of_in_as_many_places_as_fit() -> None:
    index = parse_offset_index(bytes(8 * 1_000_000), base_offset=0, log_size_bytes=300, active=False)
    assert len(index.corruptions) == 10_001
    assert index.corruptions[-1].detail.startswith("989999 more entries from entry 10001 on")
    assert index.corruptions[-1].end_position == 8 * 1_000_000


@pytest.mark.parametrize("before", [b"", offset_entries((9, 100))], ids=["nothing", "an entry"])
def test_zeros_that_are_only_claimed_are_counted_and_not_made(before: bytes) -> None:
    """Twenty bytes of a manifest claimed 64 MiB of them, and cost half a gigabyte."""
    claimed = 8 * 1_000_000
    there = parse_offset_index(before + bytes(claimed), base_offset=0, log_size_bytes=300, active=False)
    told = parse_offset_index(before, base_offset=0, log_size_bytes=300, active=False, zeros_behind=claimed)
    assert told.corruptions == there.corruptions
    assert told.blank_entries == there.blank_entries > 999_990
    assert told.offsets.tolist() == there.offsets.tolist()
    assert len(told.offsets) <= 3
    times = parse_time_index(b"", base_offset=0, active=False, zeros_behind=12 * 1_000_000)
    assert len(times.offsets) + times.blank_entries == 1_000_000
    assert len(times.offsets) == 2
    facts, _ = SegmentIndexCheck(told, None, tail_may_be_stale=False).finish(sealed=True)
    assert facts is not None
    assert facts.entries == len(before) // 8 + 1_000_000
    assert facts.pointer_errors == facts.entries


def test_time_entries_may_share_an_offset_but_not_a_timestamp() -> None:
    good = parse_time_index(time_entries((5, 1), (6, 1)), base_offset=10, active=False)
    assert (good.timestamps.tolist(), good.offsets.tolist(), good.corruptions) == ([5, 6], [11, 11], ())
    bad = parse_time_index(time_entries((5, 1), (5, 2), (4, 3)), base_offset=10, active=False)
    assert [c.position for c in bad.corruptions] == [12, 24]
    stale = parse_time_index(time_entries((5, 1), (5, 2), (4, 3)), base_offset=10, active=True)
    assert (stale.timestamps.tolist(), stale.stale_entries, stale.corruptions) == ([5], 2, ())


def test_timestamps_far_apart_are_compared_not_subtracted() -> None:
    index = parse_time_index(time_entries((-(2**63), 0), (2**62, 1)), base_offset=0, active=False)
    assert index.corruptions == ()
    index = parse_time_index(time_entries((2**62, 0), (-(2**63), 1)), base_offset=0, active=False)
    assert [c.position for c in index.corruptions] == [12]


@pytest.mark.parametrize("active", [False, True])
def test_bytes_behind_the_last_whole_entry_are_told(active: bool) -> None:
    data = offset_entries((9, 100)) + b"abc"
    index = parse_offset_index(data, base_offset=0, log_size_bytes=300, active=active)
    assert index.offsets.tolist() == [9]
    assert [(c.kind, c.position, c.end_position) for c in index.corruptions] == [(Damage.FORM, 8, 11)]


@given(data=st.binary(max_size=130), active=st.booleans(), base=st.integers(0, 2**62), size=st.integers(0, 2**31))
def test_any_bytes_are_entries_and_damage(data: bytes, active: bool, base: int, size: int) -> None:
    offsets = parse_offset_index(data, base_offset=base, log_size_bytes=size, active=active)
    times = parse_time_index(data, base_offset=base, active=active)
    for index, width in ((offsets, 8), (times, 12)):
        counted = len(index.offsets) + index.stale_entries + index.blank_entries
        assert counted * width + index.padding_bytes + len(data) % width == len(data)
        assert all(0 <= c.position < c.end_position <= len(data) for c in index.corruptions)
    if not any(c.kind is Damage.ORDER for c in offsets.corruptions):
        assert np.all(np.diff(offsets.offsets) > 0)
        assert np.all(offsets.positions < max(size, 1))
