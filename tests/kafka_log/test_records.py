"""Records inside batches: against Kafka's dump tool, against what producers noted, round trips, damage."""

import gzip
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kafka_log.kafka_dump import dumped_files
from tests.kafka_log.writing import batch, record
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.records import Record, RecordBatch, read_batch, read_records, records_in
from tidegauge.kafka_log.scan import scan_buffer

Golden = Callable[[str], Path]


def size_of(data: bytes | None) -> int:
    return -1 if data is None else len(data)


@pytest.mark.parametrize("capture", ["healthy", "epochs", "unclean-before", "hanging-txn"])
def test_records_are_those_that_kafkas_dump_tool_prints(golden: Golden, capture: str) -> None:
    compared = 0
    for path, batches in dumped_files(golden(capture)):
        data = path.read_bytes()
        rows, _ = scan_buffer(data)
        for index, records in records_in(data, rows):
            assert isinstance(records, tuple), path
            assert len(records) == rows[index]["record_count"]
            if not (dumped := batches[index].records):
                continue
            found = [
                (r.offset, r.timestamp, size_of(r.key), size_of(r.value), ",".join(name for name, _ in r.headers))
                for r in records
            ]
            assert found == [
                (int(d["offset"]), int(d["timestamp"]), int(d["key_size"]), int(d["value_size"]), d["header_keys"])
                for d in dumped
            ], path
            compared += len(found)
    assert compared > 100


def test_keys_are_those_whose_writing_the_brokers_acknowledged(golden: Golden) -> None:
    """The capture's producers noted topic, partition, offset and key of each record that was acknowledged to them."""
    capture = golden("healthy")
    acknowledged: dict[str, dict[int, str]] = {}
    with gzip.open(capture / "acks.tsv.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            _, _, topic, partition, offset, *_, key = line.rstrip("\n").split("\t")
            acknowledged.setdefault(f"{topic}-{partition}", {})[int(offset)] = key
    codecs: dict[int, int] = {}
    for directory, keys in acknowledged.items():
        for path in (capture / "broker-1" / directory).glob("*.log"):
            data = path.read_bytes()
            rows, _ = scan_buffer(data)
            for index, records in records_in(data, rows):
                assert isinstance(records, tuple)
                found = {r.offset: (r.key or b"").decode() for r in records if r.offset in keys}
                assert found == {offset: keys[offset] for offset in found}, path
                codec = int(rows[index]["attributes"]) & 7
                codecs[codec] = codecs.get(codec, 0) + len(found)
    assert codecs.keys() == {0, 1, 2, 3, 4}
    assert min(codecs.values()) > 250


@settings(max_examples=100)
@given(
    fields=st.lists(
        st.tuples(
            st.none() | st.binary(max_size=70),
            st.none() | st.binary(max_size=200),
            st.integers(-(1 << 40), 1 << 40),
            st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
        ),
        max_size=80,
    )
)
def test_records_come_back(
    fields: list[tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]],
) -> None:
    body = b"".join(
        record(i, key, value, timestamp_delta=delta, headers=headers)
        for i, (key, value, delta, headers) in enumerate(fields)
    )
    expected = tuple(
        Record(offset=100 + i, timestamp=5_000 + delta, key=key, value=value, headers=headers)
        for i, (key, value, delta, headers) in enumerate(fields)
    )
    assert read_records(batch(100, body, len(fields), base_timestamp=5_000)) == expected
    if fields:
        packed = bytes(cramjam.zstd.compress(body))
        assert read_records(batch(100, packed, len(fields), attributes=4, base_timestamp=5_000)) == expected


def test_a_batch_has_its_headers_fields() -> None:
    data = batch(7, record(2, b"k", None), 1, last_offset_delta=2, leader_epoch=3, producer_id=4, producer_epoch=5)
    read = read_batch(data)
    assert isinstance(read, RecordBatch)
    assert (read.base_offset, read.last_offset, read.partition_leader_epoch) == (7, 9, 3)
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (4, 5, -1)
    assert read.records == (Record(offset=9, timestamp=1_000, key=b"k", value=None),)


def test_with_append_time_every_record_has_the_batchs_time() -> None:
    body = record(0, None, b"a", timestamp_delta=1) + record(1, None, b"b", timestamp_delta=2)
    records = read_records(batch(0, body, 2, attributes=0x08, max_timestamp=9_999))
    assert isinstance(records, tuple)
    assert [r.timestamp for r in records] == [9_999, 9_999]


def test_a_batch_that_the_cleaner_emptied_has_no_records_even_if_it_was_compressed() -> None:
    assert read_records(batch(5, b"", 0, attributes=4, last_offset_delta=3)) == ()


ONE = record(0, b"key", b"value")
LARGEST = (1 << 63) - 1


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (batch(0, ONE, 2), "1 records, the header tells 2"),
        (batch(0, ONE * 2, 1), "more than the 1 records"),
        (batch(0, ONE, -1), "record count is -1"),
        (batch(0, ONE[:-1], 1), "record 0 says it has"),
        (batch(0, b"\x80", 1), "cut short"),
        (batch(0, b"\0", 1), "cut short"),
        (batch(0, b"\x04\0\0", 1), "cut short"),
        (batch(0, b"\x0e\0\0\0\x50abc", 1), "a field says it has 40 bytes"),
        (batch(0, b"\x0c\0\0\0\1\1\x50", 1), "it has 40 headers"),
        (batch(0, b"\x0e\0\0\0\1\1\2\1", 1), "no name"),
        (batch(0, b"\x0e\0\0\0\1\1\0\0", 1), "left over"),
        (batch(0, b"", 1), "0 records, the header tells 1"),
        (batch(0, ONE, 1, attributes=7), "compression that does not exist"),
        (batch(0, ONE, 1, attributes=4), "zstd cannot be unpacked"),
        (batch(0, ONE, 1)[:-1], "the length field says"),
        (b"short", "less than a header"),
        (batch(LARGEST, record(1, b"k", None), 1, last_offset_delta=0), "a record's offset has no room in 64 bits"),
        (batch(LARGEST, ONE, 1, last_offset_delta=1), "its last offset has no room"),
        (batch(0, record(0, b"k", None, timestamp_delta=1), 1, base_timestamp=LARGEST), "timestamp has no room"),
        (batch(0, record(0, b"k", None, timestamp_delta=-1), 1, base_timestamp=-LARGEST - 1), "timestamp has no room"),
    ],
)
def test_what_cannot_be_read_is_told(broken: bytes, why: str) -> None:
    result = read_records(broken)
    assert isinstance(result, Corruption)
    assert (result.kind, result.position, result.end_position) == (Damage.RECORDS, 0, len(broken))
    assert why in result.detail


def test_a_magic_that_nobody_writes_is_told() -> None:
    data = bytearray(batch(0, ONE, 1))
    data[16] = 9
    rows, _ = scan_buffer(data)
    ((index, result),) = records_in(data, rows)
    assert isinstance(result, Corruption)
    assert (index, result.kind, result.end_position) == (0, Damage.MAGIC, len(data))


def test_a_batch_with_a_wrong_checksum_is_not_read_but_the_others_are() -> None:
    data = bytearray(batch(0, ONE, 1) + batch(1, ONE, 1) + batch(2, ONE, 1))
    size = len(data) // 3
    data[2 * size - 2] ^= 1
    rows, _ = scan_buffer(data)
    results = [result for _, result in records_in(data, rows)]
    assert [isinstance(result, tuple) for result in results] == [True, False, True]
    assert isinstance(results[1], Corruption)
    assert (results[1].kind, results[1].position, results[1].end_position) == (Damage.CRC, size, 2 * size)
    assert (results[1].start_offset, results[1].end_offset, results[1].records) == (1, 2, 1)


def test_rows_of_another_file_are_the_callers_mistake() -> None:
    rows, _ = scan_buffer(batch(0, ONE, 1))
    with pytest.raises(ValueError, match="outside the 10 bytes"):
        list(records_in(bytes(10), rows))


@settings(max_examples=300)
@given(draw=st.data())
def test_any_flip_gives_records_or_a_corruption(golden: Golden, draw: st.DataObject) -> None:
    path = golden("healthy") / "broker-1/__transaction_state-0/00000000000000000000.log"
    data = path.read_bytes()
    rows, _ = scan_buffer(data)
    row = rows[draw.draw(st.integers(0, len(rows) - 1))]
    damaged = bytearray(data[row["position"] : row["position"] + row["size_bytes"]])
    damaged[draw.draw(st.integers(0, len(damaged) - 1))] ^= draw.draw(st.integers(1, 255))
    assert isinstance(read_records(damaged), tuple | Corruption)
