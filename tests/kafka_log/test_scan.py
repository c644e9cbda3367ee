"""The scan: sound files against Kafka's dump tool; damage of every kind; control batches; the compiled code's cache."""

import io
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.kafka_log.captures import CAPTURES, LIVES, OLD_FORMATS, ZOOKEEPER
from tests.kafka_log.kafka_dump import dumped_files
from tests.kafka_log.writing import batch, marker, old_entry, record
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.scan import BATCH_HEADER, scan_batches, scan_buffer
from tidegauge.kafka_log.scan_kernel import S_LAST_OFFSET, S_WASTED, STATE_FIELDS, Step, search_kernel

Golden = Callable[[str], Path]

DUMPED = ["healthy", "epochs", "unclean-before", "hanging-txn"]
SEGMENTS = [
    "broker-1/codec-gzip-0/00000000000000000000.log",
    "broker-1/__transaction_state-0/00000000000000000000.log",
    "broker-2/compacted-0/00000000000000001600.log",
]
"""Of `healthy`: batches of several KB, many small ones, and cleaned ones."""


def value_of(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def log_of(count: int, *, value_bytes: int = 40, first_offset: int = 0) -> bytes:
    return b"".join(
        batch(first_offset + i, record(0, b"key", value_of(value_bytes, i)), 1, leader_epoch=4) for i in range(count)
    )


def covered(size: int, rows: np.ndarray, corruptions: tuple[Corruption, ...]) -> bool:
    """Whether every byte is in a row or in a corruption."""
    spans = [(int(row["position"]), int(row["position"] + row["size_bytes"])) for row in rows]
    at = 0
    for start, end in sorted(spans + [(c.position, c.end_position) for c in corruptions]):
        if start > at:
            return False
        at = max(at, end)
    return at == size


def scan_in_pieces(
    data: bytes, *, read_bytes: int, block_rows: int, buffer_bytes: int
) -> tuple[np.ndarray, tuple[Corruption, ...]]:
    """Scan with a small buffer that a slow file fills bit by bit."""
    file = io.BytesIO(data)
    blocks = [
        (block.headers.copy(), block.corruptions)
        for block in scan_batches(
            lambda target: file.readinto(target[:read_bytes]), block_rows=block_rows, buffer_bytes=buffer_bytes
        )
    ]
    return np.concatenate([rows for rows, _ in blocks]), tuple(c for _, found in blocks for c in found)


# ------------------------------------------------------------------------------------------------- sound files


@pytest.mark.parametrize("capture", [*CAPTURES, *LIVES, *OLD_FORMATS, *ZOOKEEPER])
def test_every_segment_and_snapshot_of_a_real_cluster_is_sound(golden: Golden, capture: str) -> None:
    paths = [p for pattern in ("*.log", "*.checkpoint") for p in golden(capture).glob(f"broker-*/**/{pattern}")]
    assert len(paths) > 20
    for path in paths:
        data = path.read_bytes()
        rows, corruptions = scan_buffer(data)
        assert corruptions == (), path
        assert covered(len(data), rows, ()), path
        assert rows["control_records_ok"].all(), path


@pytest.mark.parametrize("capture", DUMPED)
def test_headers_are_those_that_kafkas_dump_tool_prints(golden: Golden, capture: str) -> None:
    files = list(dumped_files(golden(capture)))
    assert sum(len(batches) for _, batches in files) > 250
    for path, batches in files:
        rows, _ = scan_buffer(path.read_bytes())
        assert len(rows) == len(batches), path
        for row, dumped in zip(rows, batches, strict=True):
            assert {name: int(row[name]) for name in dumped.fields} == dumped.fields, path
            if dumped.delete_horizon is not None:
                assert row["base_timestamp"] == dumped.delete_horizon


@pytest.mark.parametrize("capture", DUMPED)
def test_control_batches_say_what_kafkas_dump_tool_says_of_their_records(golden: Golden, capture: str) -> None:
    types = {"LeaderChange": 2, "SnapshotHeader": 3, "SnapshotFooter": 4, "KRaftVersion": 5, "KRaftVoters": 6}
    seen = set()
    for path, batches in dumped_files(golden(capture)):
        rows, _ = scan_buffer(path.read_bytes())
        for row, dumped in zip(rows, batches, strict=True):
            if not dumped.fields["attributes"] & 0x20:
                assert (row["control_type"], row["coordinator_epoch"]) == (-1, -1)
            elif dumped.records:
                words = dumped.records[0]["rest"].split()
                if words[0] == "endTxnMarker:":
                    expected = ({"ABORT": 0, "COMMIT": 1}[words[1]], int(words[3]))
                else:
                    expected = (types[words[0].rstrip(":")], -1)
                assert (row["control_type"], row["coordinator_epoch"]) == expected, path
                seen.add(expected[0])
    assert {2, 3, 4} <= seen
    assert capture != "healthy" or {0, 1} <= seen


def test_an_empty_file_has_neither_batches_nor_damage() -> None:
    rows, corruptions = scan_buffer(b"")
    assert (len(rows), corruptions) == (0, ())
    assert rows.dtype == BATCH_HEADER


def test_a_batch_without_records_is_sound() -> None:
    rows, corruptions = scan_buffer(batch(1190, b"", 0, last_offset_delta=9, producer_id=4, producer_epoch=0))
    assert corruptions == ()
    assert (rows["base_offset"][0], rows["last_offset"][0], rows["record_count"][0]) == (1190, 1199, 0)


def test_a_batch_bigger_than_the_buffer_is_read_whole() -> None:
    data = log_of(3) + batch(3, record(0, None, value_of(300_000)), 1) + log_of(3, first_offset=4)
    rows, corruptions = scan_in_pieces(data, read_bytes=10_000, block_rows=4, buffer_bytes=64)
    assert corruptions == ()
    assert rows["base_offset"].tolist() == list(range(7))


def test_rows_of_a_block_are_a_view_on_a_reused_array() -> None:
    blocks = [block.headers for block in scan_batches(io.BytesIO(log_of(40)).readinto, block_rows=10)]
    assert [len(block) for block in blocks if len(block)] == [10, 10, 10, 10]
    assert np.shares_memory(blocks[0], blocks[1])


def test_what_the_file_raises_passes_through() -> None:
    def broken(_: memoryview) -> int:
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        list(scan_batches(broken))


# ----------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("segment", SEGMENTS)
@settings(max_examples=250)
@given(draw=st.data())
def test_a_flipped_byte_is_told_and_touches_only_its_batch(golden: Golden, segment: str, draw: st.DataObject) -> None:
    sound = (golden("healthy") / segment).read_bytes()
    rows, _ = scan_buffer(sound)
    index = draw.draw(st.integers(0, len(rows) - 1), label="batch")
    start, size = int(rows[index]["position"]), int(rows[index]["size_bytes"])
    # Half of the flips hit the header, the rest anything.
    within = draw.draw(st.integers(0, 60) | st.integers(0, size - 1), label="byte within the batch")
    damaged = bytearray(sound)
    damaged[start + within] ^= draw.draw(st.integers(1, 255), label="flipped bits")

    end = start + 12 + int.from_bytes(damaged[start + 8 : start + 12], "big", signed=True)
    # A length that is off by whole batches cannot be told from the right one: the row then covers them all.
    assume(end == start + size or end not in {*rows["position"].tolist(), len(sound)})

    found, corruptions = scan_buffer(damaged)

    assert covered(len(sound), found, corruptions)
    others = np.delete(rows, index)
    if 8 <= within < 12:  # the length: the batch is lost, the next one is found
        assert found[found["position"] != start].tobytes() == others.tobytes()
        assert (corruptions[0].position, corruptions[-1].end_position) == (start, start + size)
        if len(found) < len(rows):
            assert [c.kind for c in corruptions] == [Damage.LENGTH if index < len(rows) - 1 else Damage.TORN_TAIL]
        else:  # a shorter length in a log with holes: bytes after it that nobody can tell from lost batches
            assert [c.kind for c in corruptions] == [Damage.CRC, Damage.LENGTH]
            assert rows[index]["last_offset"] + 1 < rows[index + 1]["base_offset"]
        return
    assert len(found) == len(rows)
    assert np.delete(found, index).tobytes() == others.tobytes()
    if within < 16:  # base offset and leader epoch: outside the checksum, the rules about offsets and epochs must tell
        touched = {"base_offset", "last_offset"} if within < 8 else {"partition_leader_epoch"}
        assert corruptions == ()
    elif within == 16:
        touched = {"magic"}
        assert [c.kind for c in corruptions] == [Damage.MAGIC]
    else:
        touched = set(BATCH_HEADER.names or ()) - {"position", "size_bytes", "base_offset", "partition_leader_epoch"}
        assert [(c.kind, c.position, c.end_position) for c in corruptions] == [(Damage.CRC, start, start + size)]
        assert found[index]["crc_valid"] == 0
    for name in set(BATCH_HEADER.names or ()) - touched:
        assert found[index][name] == rows[index][name], name


@pytest.mark.parametrize("segment", SEGMENTS)
@settings(max_examples=100)
@given(draw=st.data())
def test_a_cut_at_any_length_gives_the_whole_batches_and_a_torn_tail(
    golden: Golden, segment: str, draw: st.DataObject
) -> None:
    sound = (golden("healthy") / segment).read_bytes()
    rows, _ = scan_buffer(sound)
    length = draw.draw(st.integers(0, len(sound)))
    whole = rows[rows["position"] + rows["size_bytes"] <= length]
    end = int(whole["position"][-1] + whole["size_bytes"][-1]) if len(whole) else 0

    found, corruptions = scan_buffer(sound[:length])

    assert found.tobytes() == whole.tobytes()
    expected = [] if end == length else [(Damage.TORN_TAIL, end, length)]
    assert [(c.kind, c.position, c.end_position) for c in corruptions] == expected
    if expected and length - end >= 61:
        cut = rows[len(whole)]
        claimed = (corruptions[0].start_offset, corruptions[0].end_offset, corruptions[0].records)
        assert claimed == (cut["base_offset"], cut["last_offset"] + 1, cut["record_count"])


@pytest.mark.parametrize("segment", SEGMENTS)
@settings(max_examples=100)
@given(draw=st.data())
def test_overwritten_stretches_leave_the_other_batches_readable(
    golden: Golden, segment: str, draw: st.DataObject
) -> None:
    sound = (golden("healthy") / segment).read_bytes()
    rows, _ = scan_buffer(sound)
    start = draw.draw(st.integers(0, len(sound) - 1), label="start")
    size = draw.draw(st.sampled_from([61, 512, 4096]), label="size")
    filling = draw.draw(st.sampled_from([b"\0", b"\xff", b"\2", b"\0\0\0\2", b"text"]) | st.binary(min_size=1))
    damaged = bytearray(sound)
    damaged[start : start + size] = (filling * size)[: len(damaged[start : start + size])]

    found, corruptions = scan_buffer(damaged)

    assert covered(len(sound), found, corruptions)
    untouched = rows[(rows["position"] + rows["size_bytes"] <= start) | (rows["position"] >= start + size)]
    assert {row.tobytes() for row in untouched} <= {row.tobytes() for row in found}


@settings(max_examples=150)
@given(
    draw=st.data(),
    read_bytes=st.integers(1, 700),
    block_rows=st.integers(2, 9),
    buffer_bytes=st.sampled_from([61, 100, 1000, 100_000]),
)
def test_how_the_bytes_arrive_changes_nothing(
    golden: Golden, draw: st.DataObject, read_bytes: int, block_rows: int, buffer_bytes: int
) -> None:
    damaged = bytearray((golden("healthy") / SEGMENTS[1]).read_bytes()[:12_000])
    for _ in range(draw.draw(st.integers(0, 6), label="damaged places")):
        at = draw.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + 1] = draw.draw(st.binary(max_size=30))  # may add or take bytes as well
    rows, corruptions = scan_buffer(damaged)
    pieces = scan_in_pieces(bytes(damaged), read_bytes=read_bytes, block_rows=block_rows, buffer_bytes=buffer_bytes)
    assert pieces[0].tobytes() == rows.tobytes()
    assert pieces[1] == corruptions
    assert covered(len(damaged), rows, corruptions)


@pytest.mark.parametrize("buffer_bytes", [61, 200, 400, 100_000])
def test_a_broken_magic_after_a_wrong_checksum_is_seen_whatever_the_buffer_holds(buffer_bytes: int) -> None:
    log = bytearray(log_of(6, value_bytes=100))
    size = len(log) // 6
    log[2 * size - 2] ^= 1  # in the value of batch 1
    log[2 * size + 16] = 0  # the magic of batch 2 …
    log[3 * size - 2] ^= 1  # … which is damaged otherwise, too
    rows, corruptions = scan_in_pieces(bytes(log), read_bytes=50, block_rows=3, buffer_bytes=buffer_bytes)
    assert rows["base_offset"].tolist() == [0, 1, 3, 4, 5]
    assert [(c.kind, c.position) for c in corruptions] == [(Damage.CRC, size), (Damage.LENGTH, 2 * size)]


def test_a_length_that_ends_amid_the_next_batch_does_not_cost_that_batch(golden: Golden) -> None:
    """What lies there reads as an entry of an old format: magic 0, an offset in range, a length."""
    log = bytearray((golden("healthy") / SEGMENTS[0]).read_bytes())
    rows, _ = scan_buffer(log)
    start = int(rows[10]["position"])
    log[start + 11] ^= 0xFF
    found, corruptions = scan_buffer(log)
    assert found["position"].tolist() == [position for position in rows["position"].tolist() if position != start]
    assert [(c.kind, c.position, c.end_position) for c in corruptions] == [
        (Damage.LENGTH, start, start + rows[10]["size_bytes"])
    ]


@settings(max_examples=200)
@given(data=st.binary(max_size=400) | st.lists(st.sampled_from([b"\0", b"\1", b"\2", b"\0\0\0\x3d"])).map(b"".join))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    rows, corruptions = scan_buffer(data)
    assert covered(len(data), rows, corruptions)


def test_a_text_file_is_one_torn_tail() -> None:
    text = b"This is not a log, whatever its name says.\n" * 500
    rows, corruptions = scan_buffer(text)
    assert len(rows) == 0
    assert [(c.kind, c.position, c.end_position) for c in corruptions] == [(Damage.TORN_TAIL, 0, len(text))]
    assert corruptions[0].detail.endswith("its first bytes cannot be a batch's header")  # and not what they are


def test_a_preallocated_tail_is_told_as_zeroes() -> None:
    log = log_of(5)
    rows, corruptions = scan_buffer(log + bytes(50_000))
    assert len(rows) == 5
    (tail,) = corruptions
    assert (tail.kind, tail.position, tail.start_offset, tail.end_offset) == (Damage.TORN_TAIL, len(log), 5, None)
    assert "all of them are zero" in tail.detail
    assert "zero" not in scan_buffer(log + bytes(50_000) + b"\1")[1][0].detail


def test_a_zeroed_page_costs_what_it_covers_and_keeps_the_offsets_of_the_batch_before() -> None:
    log = bytearray(log_of(200, value_bytes=100))
    size = len(log) // 200
    start = 50 * size + 100  # the page begins inside batch 50
    log[start : start + 4096] = bytes(4096)
    rows, corruptions = scan_buffer(log)
    first_whole = -(-(start + 4096) // size)
    assert rows["base_offset"].tolist() == [*range(51), *range(first_whole, 200)]
    assert [c.kind for c in corruptions] == [Damage.CRC, Damage.LENGTH]
    assert (corruptions[0].start_offset, corruptions[0].end_offset, corruptions[0].records) == (50, 51, 1)
    assert (corruptions[1].position, corruptions[1].end_position) == (51 * size, first_whole * size)
    assert (corruptions[1].start_offset, corruptions[1].end_offset) == (51, first_whole)


def test_a_batch_inside_a_value_is_not_taken_for_the_log_when_the_length_is_broken() -> None:
    inner = batch(7, record(0, None, b"a copied batch"), 1)
    outer = bytearray(batch(1000, record(0, None, inner), 1))
    outer[8:12] = (3).to_bytes(4, "big")
    before, after = log_of(1, first_offset=999), log_of(1, first_offset=1001)
    rows, corruptions = scan_buffer(before + outer + after)
    assert rows["base_offset"].tolist() == [999, 1001]
    assert [(c.kind, c.start_offset, c.end_offset) for c in corruptions] == [(Damage.LENGTH, 1000, 1001)]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_give_a_row_each(magic: int) -> None:
    old = [old_entry(offset, magic, b"") for offset in range(3)]
    rows, corruptions = scan_buffer(b"".join(old) + log_of(2, first_offset=3))
    assert rows["base_offset"].tolist() == rows["last_offset"].tolist() == [0, 1, 2, 3, 4]
    assert rows["magic"].tolist() == [magic] * 3 + [2, 2]
    assert rows["crc_valid"].all()
    assert rows["partition_leader_epoch"].tolist() == [-1, -1, -1, 4, 4]
    assert rows["max_timestamp"].tolist()[:3] == [1000 if magic else -1] * 3
    assert corruptions == ()


def test_a_damaged_old_entry_is_told_by_its_own_checksum() -> None:
    old = bytearray(b"".join(old_entry(offset, 1, b"value") for offset in range(3)))
    old[len(old) // 3 * 2 - 1] ^= 1
    rows, corruptions = scan_buffer(old)
    assert rows["crc_valid"].tolist() == [1, 0, 1]
    assert [(c.kind, c.start_offset, c.end_offset, c.records) for c in corruptions] == [(Damage.CRC, 1, 2, 1)]


@pytest.mark.parametrize("crc_is_right", [True, False])
@pytest.mark.parametrize("delta", [0, 5])
@pytest.mark.parametrize("log", ["new", "old"])
def test_an_offset_without_a_log_end_behind_it_is_no_batch(log: str, delta: int, crc_is_right: bool) -> None:
    """There is no checksum over a base offset, and the one behind the last must have room in 64 bits."""
    largest = (1 << 63) - 2

    def last(offset: int) -> bytes:
        if log == "old":
            made = bytearray(old_entry(offset, 1, b"x" * 20))
        else:
            made = bytearray(batch(offset - delta, record(0, None, b"x"), 1, last_offset_delta=delta))
        made[-1] ^= not crc_is_right
        return bytes(made)

    first = old_entry(7, 1, b"x") if log == "old" else batch(7, record(0, None, b"x"), 1)
    rows, damage = scan_buffer(first + last(largest))
    assert [int(row["last_offset"]) for row in rows] == [7, largest]
    assert {c.end_offset for c in damage} == (set() if crc_is_right else {largest + 1})
    rows, damage = scan_buffer(first + last(largest + 1))
    assert [int(row["last_offset"]) for row in rows] == [7]
    assert [(c.kind, c.position, c.end_offset) for c in damage] == [(Damage.TORN_TAIL, len(first), None)]


def test_a_last_offset_below_all_offsets_is_no_batch() -> None:
    """A right checksum stands over the last offset's delta, and none over the base offset that it is added to."""
    smallest = -(1 << 63)
    first = batch(7, record(0, None, b"x"), 1)
    rows, damage = scan_buffer(first + batch(smallest, record(0, None, b"x"), 1, last_offset_delta=-1))
    assert [int(row["last_offset"]) for row in rows] == [7]
    assert [(c.kind, c.position, c.end_offset) for c in damage] == [(Damage.TORN_TAIL, len(first), None)]
    rows, _ = scan_buffer(first + batch(smallest + 1, record(0, None, b"x"), 1, last_offset_delta=-1))
    assert [int(row["last_offset"]) for row in rows] == [7, smallest]


def test_several_megabytes_of_garbage_between_batches_are_passed() -> None:
    garbage = value_of(3_000_000)
    rows, corruptions = scan_buffer(log_of(3) + garbage + log_of(3, first_offset=9))
    assert rows["base_offset"].tolist() == [0, 1, 2, 9, 10, 11]
    assert [(c.kind, c.start_offset, c.end_offset) for c in corruptions] == [(Damage.LENGTH, 3, 9)]
    assert corruptions[0].end_position - corruptions[0].position == len(garbage)


def test_headers_that_all_promise_the_rest_of_the_file_cannot_make_the_search_quadratic() -> None:
    size, count = 61, 30_000
    one = bytearray(batch(5, b"", 1))
    one[17] ^= 1
    hostile = np.frombuffer(bytes(one) * count, np.uint8).reshape(count, size).copy()
    hostile[:, 8:12] = (size * np.arange(count, 0, -1) - 12).astype(">i4").view(np.uint8).reshape(count, 4)
    state = np.zeros(STATE_FIELDS, np.int64)
    state[S_LAST_OFFSET] = 4
    step = search_kernel(hostile.ctypes.data, 0, hostile.size, 0, True, state)
    assert step == Step.DONE
    promised = int(hostile.size) * count // 2
    assert promised > 10 * state[S_WASTED] > 0
    assert state[S_WASTED] <= (1 << 31) + 8 * hostile.size


# -------------------------------------------------------------------------------------------- control batches


def test_an_end_marker_tells_its_type_and_coordinator_epoch() -> None:
    rows, _ = scan_buffer(marker(0) + marker(1, key=bytes(4)))
    assert rows["control_type"].tolist() == [1, 0]
    assert rows["coordinator_epoch"].tolist() == [7, 7]
    assert rows["control_records_ok"].tolist() == [1, 1]


def test_a_control_batch_that_the_cleaner_emptied_is_right() -> None:
    rows, _ = scan_buffer(batch(0, b"", 0, attributes=0x30, producer_id=9, producer_epoch=1))
    assert (rows["control_type"][0], rows["control_records_ok"][0]) == (-2, 1)


def test_a_kraft_batch_of_several_control_records_is_right() -> None:
    records = record(0, b"\0\0\0\2", b"\0\0") + record(1, b"\0\0\0\5", b"\0\0") + record(2, b"\0\0\0\6", b"\0\0")
    rows, _ = scan_buffer(batch(0, records, 3, attributes=0x20))
    assert (rows["control_type"][0], rows["coordinator_epoch"][0], rows["control_records_ok"][0]) == (2, -1, 1)


@pytest.mark.parametrize(
    ("wrong", "control_type"),
    [
        (marker(0, attributes=0x20), 1),
        (marker(0, producer_id=-1, producer_epoch=-1), 1),
        (marker(0, base_sequence=0), 1),
        (marker(0, value=b"\0\0\0"), 1),
        (marker(0, key=b"\0\0\0\x63"), -2),
        (marker(0, key=b"\0"), -2),
        (marker(0, attributes=0x31), -2),
        (batch(0, record(0, b"\0\0\0\1", bytes(6)) * 2, 2, attributes=0x30, producer_id=9, producer_epoch=1), 1),
        (batch(0, b"", 1, attributes=0x30, producer_id=9, producer_epoch=1), -2),
        (batch(0, b"\xff" * 40, 1, attributes=0x30, producer_id=9, producer_epoch=1), -2),
    ],
    ids=[
        "not transactional",
        "no producer",
        "a sequence",
        "value cut short",
        "unknown type",
        "key cut short",
        "compressed",
        "two records",
        "no bytes",
        "endless number",
    ],
)
def test_control_batches_of_the_wrong_shape_are_marked(wrong: bytes, control_type: int) -> None:
    rows, corruptions = scan_buffer(wrong)
    assert corruptions == ()  # the checksum is right: the shape is for the invariants to judge
    assert (rows["control_type"][0], rows["control_records_ok"][0]) == (control_type, 0)
    assert rows["coordinator_epoch"][0] == -1  # nothing of a value that may be a user's


# ---------------------------------------------------------------------------------------------- compiled code


@pytest.mark.slow
def test_compiled_code_is_kept_on_disk_and_works_in_another_process(tmp_path: Path) -> None:
    program = (
        "import sys; from tidegauge.kafka_log.scan import scan_buffer;"
        "from tidegauge.kafka_log.scan_kernel import scan_kernel as kernel;"
        "rows, _ = scan_buffer(sys.stdin.buffer.read());"
        "counts = [sum(found.values()) for found in (kernel.stats.cache_hits, kernel.stats.cache_misses)];"
        "print(len(rows), int(rows['crc_valid'].sum()), *counts)"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    answers = [
        subprocess.run(
            [sys.executable, "-c", program], input=log_of(9), env=environment, capture_output=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert [int(word) for word in answers[0]] == [9, 9, 0, 1]
    assert [int(word) for word in answers[1]] == [9, 9, 1, 0]
