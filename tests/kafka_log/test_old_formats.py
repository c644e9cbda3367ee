"""Message formats 0 and 1, on files that Kafka 3.9 wrote in them: every record is found where it was acknowledged."""

import csv
import gzip
import io
import struct
import tracemalloc
import zlib
from pathlib import Path

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Golden
from tests.kafka_log.captures import OLD_FORMATS
from tests.kafka_log.test_scan import covered, log_of, scan_in_pieces
from tests.kafka_log.writing import old_entry
from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.compression import decompress
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.headers_file import scan_headers, write_headers
from tidegauge.kafka_log.old_formats import digest_entry, inside, of_old_format
from tidegauge.kafka_log.records import Record, read_batch, records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.snapshots.hashed_records import hashed_log
from tidegauge.snapshots.topic_names import TopicNames

TOPICS = {"ancient-0": 0, "orders-0": 1, "orders-1": 1, "safe-0": 1}
"""Partition -> magic of its first format."""
CODECS = {0, 1, 2, 3}


def logs(capture: Path, partition: str, *brokers: int) -> list[bytes]:
    return [
        path.read_bytes()
        for broker in brokers or (1, 2, 3)
        for path in sorted((capture / f"broker-{broker}" / partition).glob("*.log"))
    ]


def records_of(log: bytes) -> list[Record]:
    rows, corruptions = scan_buffer(log)
    assert corruptions == ()
    found: list[Record] = []
    for index, records in records_in(log, rows):
        assert not isinstance(records, Corruption), records
        row = rows[index]
        assert (records[0].offset, records[-1].offset) == (row["base_offset"], row["last_offset"])
        assert len(records) == row["record_count"]
        found += records
    return found


def acknowledged(capture: Path) -> dict[tuple[str, int], dict[str, str]]:
    with gzip.open(capture / "acks.tsv.gz", "rt") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return {(f"{r['topic']}-{r['partition']}", int(r["offset"])): r for r in rows}


@pytest.mark.parametrize("partition", TOPICS)
def test_every_acknowledged_record_is_read_where_it_was_acknowledged(golden: Golden, partition: str) -> None:
    capture = golden("format-1")
    wanted = {offset: row for (place, offset), row in acknowledged(capture).items() if place == partition}
    assert len(wanted) == 160
    for broker in (1, 2, 3):
        found = {r.offset: r for log in logs(capture, partition, broker) for r in records_of(log)}
        assert found.keys() == wanted.keys()
        for offset, row in wanted.items():
            assert (found[offset].value or b"").startswith(f"{row['tag']}:{row['n']}:".encode())
            assert found[offset].key == row["key"].encode()


@pytest.mark.parametrize(("partition", "magic"), TOPICS.items())
def test_an_entry_is_a_batch_of_its_format(golden: Golden, partition: str, magic: int) -> None:
    (log,) = logs(golden("format-1"), partition, 1)
    rows, _ = scan_buffer(log)
    assert of_old_format(rows).all()
    assert set(rows["magic"].tolist()) == {magic}
    assert rows["crc_valid"].all()
    assert set((rows["attributes"] & 7).tolist()) == CODECS, "every codec that the format knows"
    assert (rows["base_offset"][1:] == rows["last_offset"][:-1] + 1).all()
    assert rows["base_offset"][0] == 0
    assert ((rows["max_timestamp"] == -1) == (magic == 0)).all()
    wrappers = rows[rows["attributes"] & 7 != 0]
    assert (wrappers["record_count"] > 1).any()
    for name in ("partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence", "control_type"):
        assert set(rows[name].tolist()) == {-1}, name


def test_times_are_the_records_own_or_the_wrappers(golden: Golden) -> None:
    for partition, append_time in (("orders-0", 0), ("safe-0", 8)):
        (log,) = logs(golden("format-1"), partition, 1)
        rows, _ = scan_buffer(log)
        assert set((rows["attributes"] & 8).tolist()) == {append_time}
        for index, records in records_in(log, rows):
            assert not isinstance(records, Corruption)
            times = {r.timestamp for r in records}
            assert max(times) == rows["max_timestamp"][index]
            assert len(times) == 1 or not append_time


def test_the_wrong_checksum_of_an_lz4_head_in_format_0_is_passed_over_as_kafka_does(golden: Golden) -> None:
    (log,) = logs(golden("format-1"), "ancient-0", 1)
    rows, _ = scan_buffer(log)
    wrong = 0
    for row in rows[rows["attributes"] & 7 == CompressionType.LZ4]:
        entry = log[row["position"] : row["position"] + row["size_bytes"]]
        wrong += isinstance(decompress(CompressionType.LZ4, entry[26:]), Corruption)
    assert wrong > 0


def test_what_was_upgraded_is_read_through(golden: Golden) -> None:
    (log,) = [b"".join(logs(golden("format-upgraded"), "orders-0", 2))]
    rows, corruptions = scan_buffer(log)
    assert corruptions == ()
    assert sorted(set(rows["magic"].tolist())) == [1, 2]
    assert (np.diff(rows["magic"]) >= 0).all()
    assert (rows["partition_leader_epoch"][rows["magic"] == 2] > 0).all()


def test_the_groups_commits_of_old_formats_are_read(golden: Golden) -> None:
    found = [
        record
        for partition in range(3)
        for log in logs(golden("format-1"), f"__consumer_offsets-{partition}", 1)
        for record in records_of(log)
    ]
    assert any(b"behind" in (r.key or b"") for r in found)
    assert any(b"billing" in (r.key or b"") for r in found)


@pytest.mark.parametrize("capture", OLD_FORMATS)
def test_digests_are_those_of_the_records(golden: Golden, capture: str) -> None:
    for log in logs(golden(capture), "accounts-0", 2):
        rows, _ = scan_buffer(log)
        for row in rows[of_old_format(rows)]:
            entry = memoryview(log)[row["position"] : row["position"] + row["size_bytes"]]
            found = digest_entry(entry, int(row["record_count"]), allowance=Allowance())
            batch = read_batch(entry)
            assert not isinstance(found, Corruption)
            assert not isinstance(batch, Corruption)
            digests = np.concatenate(list(found))
            assert digests["offset"].tolist() == [r.offset for r in batch.records]
            assert digests["has_value"].tolist() == [r.value is not None for r in batch.records]
            by_key = {r.key: d for r, d in zip(batch.records, digests["key_digest"].tolist(), strict=True)}
            assert len(set(by_key.values())) == len(by_key)


@pytest.mark.parametrize("buffer_bytes", [61, 500, 1 << 20])
def test_rows_do_not_depend_on_the_buffer(golden: Golden, buffer_bytes: int) -> None:
    (log,) = logs(golden("format-1"), "orders-0", 1)
    rows, _ = scan_buffer(log)
    pieces, _ = scan_in_pieces(log, read_bytes=100, block_rows=3, buffer_bytes=buffer_bytes)
    assert pieces.tobytes() == rows.tobytes()


# --------------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("partition", ["ancient-0", "orders-0"])
def test_a_broken_length_costs_its_entry_and_no_other(golden: Golden, partition: str) -> None:
    (log,) = logs(golden("format-1"), partition, 1)
    rows, _ = scan_buffer(log)
    for at in (0, 3, len(rows) - 2):
        broken = bytearray(log)
        broken[int(rows[at]["position"]) + 9] ^= 0x7F
        found, corruptions = scan_buffer(broken)
        assert found["base_offset"].tolist() == np.delete(rows["base_offset"], at).tolist()
        (told,) = corruptions
        assert (told.kind, told.end_offset) == (Damage.LENGTH, int(rows[at]["last_offset"]) + 1)


def test_a_cut_tail_is_told_as_one_that_was_cut(golden: Golden) -> None:
    (log,) = logs(golden("format-1"), "orders-0", 1)
    rows, corruptions = scan_buffer(log[:-7])
    (tail,) = corruptions
    assert tail.kind is Damage.TORN_TAIL
    assert "length field says" in tail.detail
    assert tail.start_offset == int(rows[-1]["last_offset"]) + 1


def test_a_changed_byte_is_a_wrong_checksum_and_costs_no_offset(golden: Golden) -> None:
    (log,) = logs(golden("format-1"), "orders-0", 1)
    rows, _ = scan_buffer(log)
    for at in np.flatnonzero(rows["attributes"] & 7 != 0)[:5]:
        broken = bytearray(log)
        broken[int(rows[at]["position"] + rows[at]["size_bytes"]) - 3] ^= 1
        found, corruptions = scan_buffer(broken)
        assert found["base_offset"].tolist() == rows["base_offset"].tolist()
        assert [(c.kind, c.position) for c in corruptions] == [(Damage.CRC, int(rows[at]["position"]))]


def test_old_entries_inside_a_value_are_not_taken_for_the_log_once_it_is_of_format_2() -> None:
    log = bytearray(log_of(3) + b"".join(old_entry(5 + n, 1, b"a copy") for n in range(3)) + log_of(2, first_offset=9))
    rows, corruptions = scan_buffer(log[: len(log_of(3))] + b"\1" + log[len(log_of(3)) :])
    assert rows["base_offset"].tolist() == [0, 1, 2, 9, 10]
    assert [c.kind for c in corruptions] == [Damage.LENGTH]


def wrapper(offset: int, magic: int, codec: int, packed: bytes) -> bytes:
    """A compressed entry with a right checksum."""
    covered = struct.pack(">bb", magic, codec) + (struct.pack(">q", 1_000) if magic else b"")
    covered += struct.pack(">ii", -1, len(packed)) + packed
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"not entries at all, but bytes",
        old_entry(0, 1, b"a") + old_entry(1, 1, b"b")[:-1],
        old_entry(0, 0, b"of another format"),
        old_entry(1, 1, b"a") + old_entry(1, 1, b"b"),
        wrapper(1, 1, 1, bytes(cramjam.gzip.compress(old_entry(0, 1, b"a wrapper in a wrapper")))),
    ],
)
def test_a_wrapper_that_cannot_be_read_is_said_to_be_so_and_hides_no_other(plain: bytes) -> None:
    log = old_entry(4, 1, b"") + wrapper(9, 1, 1, bytes(cramjam.gzip.compress(plain))) + old_entry(10, 1, b"")
    rows, corruptions = scan_buffer(log)
    assert corruptions == ()
    assert rows["record_count"].tolist() == [1, -1, 1]
    assert (rows["base_offset"].tolist(), rows["last_offset"].tolist()) == ([4, 5, 10], [4, 9, 10])
    assert isinstance(read_batch(log[len(old_entry(4, 1, b"")) : -len(old_entry(10, 1, b""))]), Corruption)


def test_what_unpacks_to_more_than_the_limit_is_not_read() -> None:
    bomb = memoryview(wrapper(9, 1, 1, bytes(cramjam.gzip.compress(bytes(64 << 20)))))
    tracemalloc.start()
    found = inside(bomb, max_plain_bytes=1 << 20)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert isinstance(found, Corruption)
    assert found.kind == Damage.NOT_READ


@settings(max_examples=150)
@given(edits=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(1, 255)), min_size=1, max_size=4))
def test_no_changed_bytes_raise_or_hide_a_byte(golden: Golden, edits: list[tuple[int, int]]) -> None:
    for partition in ("ancient-0", "orders-0"):
        (log,) = logs(golden("format-1"), partition, 1)
        damaged = bytearray(log)
        for at, change in edits:
            damaged[at % len(damaged)] ^= change
        rows, corruptions = scan_buffer(damaged)
        assert covered(len(damaged), rows, corruptions)
        assert (rows["base_offset"] <= rows["last_offset"]).all()
        for _, records in records_in(damaged, rows):
            assert isinstance(records, tuple | Corruption)


@settings(max_examples=150)
@given(magic=st.integers(0, 1), codec=st.integers(0, 7), packed=st.binary(max_size=200))
def test_nothing_in_a_wrapper_raises(magic: int, codec: int, packed: bytes) -> None:
    log = wrapper(7, magic, codec, packed)
    rows, _ = scan_buffer(log)
    assert len(rows) == 1
    read = read_batch(log)
    assert isinstance(read, Corruption) == (rows["record_count"][0] < 0)


# ----------------------------------------------------------------------------------------------- headers of a log alone


def test_a_headers_file_tells_the_rows_of_the_log_and_no_record(golden: Golden) -> None:
    for partition in ("ancient-0", "orders-0"):
        (log,) = logs(golden("format-1"), partition, 1)
        rows, _ = scan_buffer(log)
        kept = io.BytesIO()
        write_headers(io.BytesIO(log).readinto, kept.write)
        assert b"day-gzip" not in kept.getvalue()
        kept.seek(0)
        found = np.concatenate([block.headers.copy() for block in scan_headers(kept.readinto)])
        assert found.tobytes() == rows.tobytes()


def test_commits_of_old_formats_are_kept_with_other_names(golden: Golden) -> None:
    names = TopicNames(b"a key of 16 bytes")
    found = 0
    for partition in range(3):
        for log in logs(golden("format-1"), f"__consumer_offsets-{partition}", 1):
            rewrite = hashed_log("__consumer_offsets", names)
            rows, _ = scan_buffer(log)
            for row in rows:
                entry = log[int(row["position"]) : int(row["position"] + row["size_bytes"])]
                again = rewrite(entry)
                assert again is not None
                assert b"orders" not in again
                was, now = read_batch(entry), read_batch(again)
                assert not isinstance(was, Corruption)
                assert not isinstance(now, Corruption)
                assert [r.offset for r in now.records] == [r.offset for r in was.records]
                found += b"orders" in entry
    assert found > 0
