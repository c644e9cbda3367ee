"""Records of Kafka's internal topics: against what its dump tool prints, older versions, tombstones, damage."""

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kafka_log.captures import CAPTURES, LIVES, OLD_FORMATS, ZOOKEEPER
from tests.kafka_log.kafka_dump import dumped_files
from tests.kafka_log.kafka_json import Json, difference, key_of, payload_of
from tidegauge.kafka_log.coordinator_records import (
    TRANSACTION_STATES,
    OffsetCommit,
    OtherCoordinatorRecord,
    RemoteLogRecord,
    RemoteSegment,
    TransactionState,
    decode_offsets_record,
    decode_remote_log_fields,
    decode_remote_log_record,
    decode_share_state_record,
    decode_transaction_record,
    encode_remote_log_record,
)
from tidegauge.kafka_log.coordinator_schemas import COORDINATOR_SCHEMAS, SHARE_STATE_SCHEMAS
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.records import Record, records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.types import TopicPartition

Golden = Callable[[str], Path]
TOPICS = ["__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata"]
SCHEMAS = {**COORDINATOR_SCHEMAS, **SHARE_STATE_SCHEMAS}


def decoded(topic: str, record: Record) -> object:
    match topic:
        case "__consumer_offsets":
            return decode_offsets_record(record.key, record.value)
        case "__transaction_state":
            return decode_transaction_record(record.key, record.value)
        case "__share_group_state":
            return decode_share_state_record(record.key, record.value)
        case _:
            return decode_remote_log_record(record.value)


def data_records(path: Path) -> list[Record]:
    data = path.read_bytes()
    headers, _ = scan_buffer(data)
    batches = records_in(data, headers[headers["control_type"] == -1])
    return [record for _, records in batches if isinstance(records, tuple) for record in records]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def commit_key(group: str, topic: str, partition: int, key_type: int = 1) -> bytes:
    return struct.pack(">h", key_type) + text(group) + text(topic) + struct.pack(">i", partition)


def transaction_key(name: str) -> bytes:
    return struct.pack(">h", 0) + text(name)


@pytest.mark.parametrize("capture", [*CAPTURES, *LIVES, *OLD_FORMATS, *ZOOKEEPER])
def test_every_record_of_kafkas_internal_topics_decodes(golden: Golden, capture: str) -> None:
    found = Counter[str]()
    for topic in TOPICS:
        for log in golden(capture).glob(f"broker-*/**/{topic}-*/*.log"):
            for record in data_records(log):
                what = decoded(topic, record)
                assert not isinstance(what, Corruption), (log, record.offset, what)
                found[topic] += 1
    # Transactions came with format 2.
    assert found["__consumer_offsets" if capture in OLD_FORMATS else "__transaction_state"] >= 6


@pytest.mark.parametrize("capture", ["healthy", "epochs", "unclean-before", "hanging-txn"])
def test_records_say_what_kafkas_dump_tool_prints(golden: Golden, capture: str) -> None:
    compared = Counter[str]()
    for path, batches in dumped_files(golden(capture)):
        topic = path.parent.name.rpartition("-")[0]
        printed = [r["rest"] for b in batches if not b.fields["attributes"] & 0x20 for r in b.records]
        if topic not in TOPICS or not printed:
            continue
        for record, line in zip(data_records(path), printed, strict=True):
            what, key, value = decoded(topic, record), key_of(line), payload_of(line)
            assert (value is None) == (record.value is None)
            agree(what, key, value)
            compared[topic] += 1
    assert compared["__transaction_state"] >= 10
    assert capture != "healthy" or min(compared[t] for t in TOPICS[:3]) >= 7


def or_minus_one(value: int | None) -> int:
    return -1 if value is None else value


def agree(what: object, key: Json, value: Json | None) -> None:
    said: dict[str, Any] = {} if value is None else value["data"]
    match what:
        case OffsetCommit():
            assert key["type"] == "1"
            assert key["data"] == {"group": what.group, "topic": what.topic, "partition": what.partition}
            assert what.tombstone == (value is None)
            assert (what.offset, what.topic_id) == (said.get("offset", -1), said.get("topicId"))
            assert or_minus_one(what.leader_epoch) == said.get("leaderEpoch", -1)
            assert what.commit_timestamp_ms == said.get("commitTimestamp")
            assert str(what.version) == (value or {"version": "None"})["version"]
        case TransactionState():
            assert key == {"type": "0", "data": {"transactionalId": what.transactional_id}}
            assert (what.producer_id, what.producer_epoch) == (said["producerId"], said["producerEpoch"])
            assert (what.timeout_ms, what.state) == (
                said["transactionTimeoutMs"],
                TRANSACTION_STATES[said["transactionStatus"]],
            )
            assert or_minus_one(what.previous_producer_id) == said.get("previousProducerId", -1)
            assert or_minus_one(what.next_producer_id) == said.get("nextProducerId", -1)
            partitions = said["transactionPartitions"] or []
            assert what.partitions == tuple(
                TopicPartition(p["topic"], n) for p in partitions for n in p["partitionIds"]
            )
            assert what.last_update_ms == said["transactionLastUpdateTimestampMs"]
            assert or_minus_one(what.start_ms) == said["transactionStartTimestampMs"]
            assert (what.client_transaction_version or 0) == said.get("clientTransactionVersion", 0)
        case OtherCoordinatorRecord():
            assert str(what.key_type) == key["type"]
            assert difference(key["data"], what.key, SCHEMAS[f"{what.name}Key"].fields) is None
            assert (what.value is None) == (value is None)
            if what.value is not None:
                assert difference(said, what.value, SCHEMAS[f"{what.name}Value"].fields) is None
        case _:
            raise AssertionError(what)


def test_remote_segments_are_those_of_the_remote_storage(golden: Golden) -> None:
    states = Counter[str]()
    for log in golden("tiered").glob("broker-1/__remote_log_metadata-*/*.log"):
        for record in data_records(log):
            segment = decode_remote_log_record(record.value)
            assert isinstance(segment, RemoteSegment)
            states[segment.state] += 1
            if segment.state == "COPY_SEGMENT_STARTED":
                assert segment.start_offset is not None
                assert segment.end_offset is not None
                assert 0 <= segment.start_offset < segment.end_offset
            elif segment.start_offset is None:
                assert (segment.end_offset, segment.size_bytes) == (None, None)
    assert states["COPY_SEGMENT_STARTED"] >= states["COPY_SEGMENT_FINISHED"] > 0


OLD_COMMITS = {
    0: struct.pack(">hq", 0, 42) + text("m") + struct.pack(">q", 7),
    1: struct.pack(">hq", 1, 42) + text("m") + struct.pack(">qq", 7, 9),
    2: struct.pack(">hq", 2, 42) + text("m") + struct.pack(">q", 7),
    3: struct.pack(">hqi", 3, 42, 5) + text("m") + struct.pack(">q", 7),
}


@pytest.mark.parametrize("version", OLD_COMMITS)
def test_commits_of_older_brokers_are_read(version: int) -> None:
    assert decode_offsets_record(commit_key("g", "orders", 3), OLD_COMMITS[version]) == OffsetCommit(
        group="g",
        topic="orders",
        partition=3,
        offset=42,
        leader_epoch=5 if version == 3 else None,
        commit_timestamp_ms=7,
        topic_id=None,
        version=version,
        tombstone=False,
    )


def test_the_oldest_key_type_is_a_commit_too() -> None:
    commit = decode_offsets_record(commit_key("g", "orders", 3, key_type=0), OLD_COMMITS[0])
    assert isinstance(commit, OffsetCommit)
    assert commit.offset == 42


def test_a_null_commit_is_a_tombstone() -> None:
    assert decode_offsets_record(commit_key("g", "orders", 3), None) == OffsetCommit(
        group="g",
        topic="orders",
        partition=3,
        offset=-1,
        leader_epoch=None,
        commit_timestamp_ms=None,
        topic_id=None,
        version=None,
        tombstone=True,
    )


def test_transaction_states_of_brokers_before_transaction_version_2_are_read() -> None:
    partitions = struct.pack(">i", 1) + text("pay") + struct.pack(">iii", 2, 0, 4)
    value = struct.pack(">hqhib", 0, 1000, 3, 60_000, 1) + partitions + struct.pack(">qq", 8, 6)
    assert decode_transaction_record(transaction_key("tx"), value) == TransactionState(
        transactional_id="tx",
        producer_id=1000,
        producer_epoch=3,
        previous_producer_id=None,
        next_producer_id=None,
        timeout_ms=60_000,
        state="Ongoing",
        partitions=(TopicPartition("pay", 0), TopicPartition("pay", 4)),
        last_update_ms=8,
        start_ms=6,
        client_transaction_version=None,
        tombstone=False,
    )


def test_a_null_transaction_state_is_a_tombstone() -> None:
    state = decode_transaction_record(transaction_key("tx"), None)
    assert isinstance(state, TransactionState)
    assert (state.transactional_id, state.tombstone, state.partitions) == ("tx", True, ())


@pytest.mark.parametrize(
    ("key", "value", "kind", "why", "size"),
    [
        (None, b"", Damage.FORM, "no key", 0),
        (b"\0", None, Damage.FORM, "2 bytes are promised, 1 are left", 1),
        (b"\x7f\xff", None, Damage.VALUE, "key type 32767", 2),
        (commit_key("g", "t", 0) + b"\0", None, Damage.FORM, "1 bytes are left over", 13),
        (commit_key("g", "t", 0), b"\0\x09", Damage.VERSION, "version 9", 2),
        (commit_key("g", "t", 0), OLD_COMMITS[3] + b"\0", Damage.FORM, "1 bytes are left over", 26),
        (commit_key("g", "t", 0), OLD_COMMITS[3][:-1], Damage.FORM, "8 bytes are promised, 7 are left", 24),
        (commit_key("g", "t", 0), b"", Damage.FORM, "2 bytes are promised, 0 are left", 0),
    ],
)
def test_what_cannot_be_read_says_where_and_why(
    key: bytes | None, value: bytes | None, kind: Damage, why: str, size: int
) -> None:
    found = decode_offsets_record(key, value)
    assert isinstance(found, Corruption)
    assert (found.kind, found.position, found.end_position) == (kind, 0, size)
    assert why in found.detail


@pytest.mark.parametrize("status", [-1, len(TRANSACTION_STATES)])
def test_a_state_that_kafka_does_not_have_is_damage(status: int) -> None:
    value = struct.pack(">hqhib", 0, 1000, 3, 60_000, status) + struct.pack(">iqq", -1, 8, 6)
    found = decode_transaction_record(transaction_key("tx"), value)
    assert isinstance(found, Corruption)
    assert found.kind is Damage.VALUE


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ],
)
def test_states_have_the_names_that_kafka_gives_them(status: int, name: str) -> None:
    value = struct.pack(">hqhib", 0, 1000, 3, 60_000, status) + struct.pack(">iqq", -1, 8, 6)
    state = decode_transaction_record(transaction_key("tx"), value)
    assert isinstance(state, TransactionState)
    assert state.state == name


KEY_TYPES = st.integers(-1, 30).map(lambda key_type: struct.pack(">h", key_type))


@settings(max_examples=300)
@given(
    key=st.none() | st.tuples(KEY_TYPES, st.binary(max_size=40)).map(b"".join), value=st.none() | st.binary(max_size=90)
)
def test_any_bytes_are_a_record_or_damage(key: bytes | None, value: bytes | None) -> None:
    for decode in (decode_offsets_record, decode_transaction_record, decode_share_state_record):
        found = decode(key, value)
        assert not isinstance(found, Corruption) or found.end_position in (0, len(key or b""), len(value or b""))
    assert decode_remote_log_record(value) is None or value is not None


@settings(max_examples=200)
@given(which=st.sampled_from(sorted(OLD_COMMITS)), where=st.integers(0, 100), flip=st.integers(1, 255))
def test_a_flipped_byte_is_another_value_or_damage(which: int, where: int, flip: int) -> None:
    value = bytearray(OLD_COMMITS[which])
    value[where % len(value)] ^= flip
    found = decode_offsets_record(commit_key("g", "orders", 3), bytes(value))
    assert isinstance(found, OffsetCommit | Corruption)


def test_a_remote_segment_behind_whose_end_offset_no_log_ends_is_damage(golden: Golden) -> None:
    """Its record tells the last offset; the one behind it must have room in 64 bits, too."""
    logs = sorted(golden("tiered").glob("broker-1/__remote_log_metadata-*/*.log"))
    read = [decode_remote_log_fields(record.value or b"") for log in logs for record in data_records(log)]
    copied = next(r for r in read if isinstance(r, RemoteLogRecord) and r.fields.get("end_offset") is not None)
    for end, kind in (((1 << 63) - 2, RemoteSegment), ((1 << 63) - 1, Corruption)):
        value = encode_remote_log_record(replace(copied, fields={**copied.fields, "end_offset": end}))
        assert isinstance(decode_remote_log_record(value), kind)
