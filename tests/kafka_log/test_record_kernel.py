"""The compiled walk over records against the reader in Python, and against bytes that are no records."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.record_kernel import (
    BROKEN_FORM,
    BROKEN_OFFSETS,
    BROKEN_TIMESTAMPS,
    RECORD_DIGEST,
    check_records,
    digest_records,
)
from tidegauge.kafka_log.records import Record, RecordBatch

FIELD = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 1 << 42),
        key=FIELD,
        value=FIELD,
        headers=st.lists(st.tuples(st.text("ab", max_size=3), FIELD), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


def batch_of(records: list[Record], *, base_offset: int = 500) -> RecordBatch:
    numbered = tuple(replace(r, offset=base_offset + at) for at, r in enumerate(records))
    return RecordBatch(
        base_offset=base_offset,
        last_offset=base_offset + len(records) - 1,
        partition_leader_epoch=0,
        crc=0,
        attributes=0,
        base_timestamp=records[0].timestamp,
        max_timestamp=max(r.timestamp for r in records),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records=numbered,
    )


def body_of(batch: RecordBatch) -> np.ndarray:
    return np.frombuffer(write_batch(batch, codec=CompressionType.NONE)[layout.RECORDS_AT :], np.uint8)


def checked(batch: RecordBatch, body: np.ndarray) -> int:
    return check_records(
        body,
        0,
        len(body),
        len(batch.records),
        batch.last_offset - batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.attributes,
    )


@given(RECORDS)
def test_what_is_written_is_right_and_is_told_apart_by_keys_and_values(records: list[Record]) -> None:
    batch = batch_of(records)
    body = body_of(batch)
    assert checked(batch, body) == 0
    out = np.zeros(len(records), dtype=RECORD_DIGEST)
    assert digest_records(body, 0, len(body), batch.base_offset, out) == len(body)
    assert out["offset"].tolist() == [r.offset for r in batch.records]
    assert out["has_key"].tolist() == [int(r.key is not None) for r in records]
    assert out["has_value"].tolist() == [int(r.value is not None) for r in records]
    for name in ("key", "value"):
        digests: dict[int, bytes | None] = {}
        for row, record in zip(out, records, strict=True):
            field = getattr(record, name)
            if field is not None:
                assert digests.setdefault(int(row[f"{name}_digest"]), field) == field
        assert len(digests) == len({getattr(r, name) for r in records} - {None})


@given(RECORDS, st.binary(min_size=1, max_size=8), st.data())
def test_no_bytes_are_read_past_the_end(records: list[Record], other: bytes, data: st.DataObject) -> None:
    batch = batch_of(records)
    body = bytearray(body_of(batch).tobytes())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at : at + len(other)] = other
    broken = np.frombuffer(bytes(body), np.uint8)
    assert 0 <= checked(batch, broken) <= (BROKEN_FORM | BROKEN_OFFSETS | BROKEN_TIMESTAMPS)
    out = np.zeros(len(records), dtype=RECORD_DIGEST)
    assert -1 <= digest_records(broken, 0, len(broken), 0, out) <= len(broken)


def test_each_kind_of_wrong_has_its_bit() -> None:
    batch = batch_of([Record(offset=0, timestamp=1_000 + n, key=b"k", value=b"v") for n in range(3)])
    assert checked(batch, body_of(batch)[:-1]) == BROKEN_FORM
    assert checked(replace(batch, max_timestamp=9_999), body_of(batch)) == BROKEN_TIMESTAMPS
    twice = replace(batch, records=(*batch.records[:2], replace(batch.records[2], offset=501)))
    assert checked(batch, body_of(twice)) == BROKEN_OFFSETS
    assert checked(replace(batch, last_offset=501), body_of(batch)) == BROKEN_OFFSETS
    stamped = replace(batch, attributes=8, max_timestamp=9_999)
    assert checked(stamped, body_of(stamped)) == 0, "LogAppendTime is the header's"
