"""What headers mode makes of each file of a log dir."""

import io

import pytest

from tests.kafka_log.writing import batch, record
from tidegauge.kafka_log.allowance import of_internal_topic
from tidegauge.kafka_log.batch import HEADER_BYTES
from tidegauge.kafka_log.checkpoints import parse_offset_checkpoint
from tidegauge.kafka_log.coordinator_records import (
    OtherCoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.headers_file import HeadersReader, kept_records
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.metadata_records import (
    METADATA_SCHEMAS,
    MetadataRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from tidegauge.kafka_log.records import Record, records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.snapshots.headers import How, treatment, write_treated
from tidegauge.snapshots.topic_names import TopicNames

NAMES = TopicNames(b"one key for all brokers")
ORDERS = NAMES.hashed("orders")
SEGMENT = "00000000000000000000"
ID = "9YOIe34GRai1O2iOGO76jg"
DELETED = "orders-0.0123456789abcdef0123456789abcdef-delete"
CACHED = f"remote-log-index-cache/0_{ID}.txnindex"
METADATA_SNAPSHOT = "__cluster_metadata-0/00000000000000000350-0000000001.checkpoint"

PLAIN = {
    "meta.properties": (How.COPIED, "meta.properties"),
    ".kafka_cleanshutdown": (How.COPIED, ".kafka_cleanshutdown"),
    "replication-offset-checkpoint": (How.COPIED, "replication-offset-checkpoint"),
    "bootstrap.checkpoint": (How.COPIED, "bootstrap.checkpoint"),
    CACHED: (How.COPIED, CACHED),
    f"orders-0/{SEGMENT}.log": (How.HEADERS, f"orders-0/{SEGMENT}.headers"),
    f"orders-0/{SEGMENT}.log.deleted": (How.HEADERS, f"orders-0/{SEGMENT}.headers.deleted"),
    f"orders-0/{SEGMENT}.log.swap": (How.HEADERS, f"orders-0/{SEGMENT}.headers.swap"),
    f"orders-0/{SEGMENT}.log.cleaned": (How.HEADERS, f"orders-0/{SEGMENT}.headers.cleaned"),
    f"{DELETED}/{SEGMENT}.log": (How.HEADERS, f"{DELETED}/{SEGMENT}.headers"),
    f"__not_kafkas-0/{SEGMENT}.log": (How.HEADERS, f"__not_kafkas-0/{SEGMENT}.headers"),
    f"orders-0/{SEGMENT}.index": (How.COPIED, f"orders-0/{SEGMENT}.index"),
    f"orders-0/{SEGMENT}.timeindex.deleted": (How.COPIED, f"orders-0/{SEGMENT}.timeindex.deleted"),
    f"orders-0/{SEGMENT}.snapshot": (How.COPIED, f"orders-0/{SEGMENT}.snapshot"),
    "orders-0/leader-epoch-checkpoint": (How.COPIED, "orders-0/leader-epoch-checkpoint"),
    "orders-0/partition.metadata": (How.COPIED, "orders-0/partition.metadata"),
    f"__consumer_offsets-7/{SEGMENT}.log": (How.COPIED, f"__consumer_offsets-7/{SEGMENT}.log"),
    METADATA_SNAPSHOT: (How.COPIED, METADATA_SNAPSHOT),
    "__cluster_metadata-0/quorum-state": (How.COPIED, "__cluster_metadata-0/quorum-state"),
}
UNKNOWN = (
    "orders.tar",
    "replication-offset-checkpoint.tmp",
    "orders-0/notes.txt",
    f"orders-0/{SEGMENT}.log.bak",
    f"orders-0/copy of {SEGMENT}.log",
    f"orders-0/{SEGMENT}.headers",
    f"orders-0/old/{SEGMENT}.log",
    f"backup/{SEGMENT}.log",
    f"kafka-tiered-storage/orders-0-{ID}/{SEGMENT}-{ID}.log",
    f"remote-log-index-cache/{SEGMENT}.log",
    "orders-0/00000000000000000350-0000000001.checkpoint",
)


@pytest.mark.parametrize("path", PLAIN)
def test_what_is_known_goes_its_way(path: str) -> None:
    found = treatment(path)
    assert (found.how, found.path) == PLAIN[path]
    hashed = treatment(path, NAMES)
    assert hashed.path.startswith(NAMES.path(path).split("/")[0])
    assert "orders" not in hashed.path
    assert (hashed.how is How.HEADERS) == (found.how is How.HEADERS)


@pytest.mark.parametrize("path", UNKNOWN)
def test_what_nobody_knows_stays_behind(path: str) -> None:
    found, hashed = treatment(path), treatment(path, NAMES)
    assert (found.how, found.path, hashed.how) == (How.LEFT_OUT, path, How.LEFT_OUT)
    assert found.reason == "headers mode copies only what is known to hold no record of a user's topic"
    assert "orders" not in hashed.path


def written(path: str, data: bytes, names: TopicNames | None = NAMES) -> bytes:
    out = io.BytesIO()
    write_treated(treatment(path, names), io.BytesIO(data).readinto, out.write, names)
    return out.getvalue()


def test_what_is_copied_stays_as_it_is() -> None:
    assert written("meta.properties", b"x" * 3_000_000) == b"x" * 3_000_000


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_checkpoint_keeps_its_offsets_under_other_names(line_end: str) -> None:
    text = line_end.join(["0", "3", "orders 0 17", "__consumer_offsets 3 4", "orders 11 0", ""])
    found = parse_offset_checkpoint(written("replication-offset-checkpoint", text.encode()))
    assert [(e.topic, e.partition, e.offset) for e in found.entries] == [
        (ORDERS, 0, 17),
        ("__consumer_offsets", 3, 4),
        (ORDERS, 11, 0),
    ]
    assert found.corruptions == ()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"0\n0\n",
        b"\x00\xffgarbage\n",
        b"0\norders 0 1\n",
        b"orders\n1\norders 0 1\n",
        b"0\n2\norders 0 1\norders 1\n",
        b"0\n2\norders 0 -1\n\norders orders orders\n",
        b"0\n1\norders 0 99999999999999999999\n",
        b"0\n1\nord\x1fers 0 1\n",
        b"0\n1\n\x1f\norders 0 1 2\n",
        b"0\n1\n" + b"\0" * 5000 + b"orders 0 1\n",
        "0\n1\norders 0 1\u00b2\n".encode(),
    ],
)
def test_a_broken_checkpoint_stays_as_broken_and_names_nothing(text: bytes) -> None:
    before, hidden = parse_offset_checkpoint(text), written("cleaner-offset-checkpoint", text)
    after = parse_offset_checkpoint(hidden)
    assert b"orders" not in hidden
    assert [c.kind for c in after.corruptions] == [c.kind for c in before.corruptions]
    assert (after.empty, after.declared_entries, len(after.entries)) == (
        before.empty,
        before.declared_entries,
        len(before.entries),
    )


def metadata(type_id: int, version: int, **fields: object) -> bytes:
    schema = METADATA_SCHEMAS[type_id]
    return encode_metadata_record(
        MetadataRecord(type_id=type_id, name=schema.name, version=version, fields=fields)  # type: ignore[arg-type]
    )


def only_record(data: bytes) -> Record:
    (_, records), *_ = records_in(data, scan_buffer(data)[0])
    assert not isinstance(records, Corruption)
    return records[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (metadata(2, 0, name="orders", topic_id=ID), {"name": ORDERS, "topic_id": ID}),
        (metadata(2, 0, name="__consumer_offsets", topic_id=ID), {"name": "__consumer_offsets"}),
        (
            metadata(4, 0, resource_type=2, resource_name="orders", name="retention.ms", value="1"),
            {"resource_name": ORDERS, "name": "retention.ms", "value": "1"},
        ),
        (
            metadata(4, 0, resource_type=4, resource_name="1", name="log.retention.ms", value="1"),
            {"resource_name": "1", "value": "1"},
        ),
        (
            metadata(4, 0, resource_type=32, resource_name="orders", name="share.x", value="orders"),
            {"resource_name": NAMES.identifier("orders"), "value": NAMES.identifier("orders")},
        ),
        (metadata(28, 0, topic_name="orders"), {"topic_name": ORDERS}),
        (metadata(28, 0, topic_name=""), {"topic_name": ""}),
        (
            metadata(18, 0, resource_type=2, pattern_type=3, resource_name="orders", principal="User:orders", host="*"),
            {"resource_name": ORDERS, "principal": NAMES.identifier("User:orders"), "host": "*"},
        ),
        (
            metadata(18, 0, resource_type=2, pattern_type=4, resource_name="orders", principal="", host="*"),
            {"resource_name": NAMES.identifier("orders")},
        ),
        (
            metadata(18, 0, resource_type=2, pattern_type=3, resource_name="*", principal="", host="*"),
            {"resource_name": "*"},
        ),
        (
            metadata(11, 0, name="orders", salt=b"orders", stored_key=b"o", server_key=b"o"),
            {"salt": b"", "stored_key": b""},
        ),
        (
            metadata(14, 0, entity=({"entity_type": "client-id", "entity_name": "orders"},), key="producer_byte_rate"),
            {"key": "producer_byte_rate"},
        ),
        (metadata(25, 0, reason="orders could not be made"), {"reason": NAMES.identifier("orders could not be made")}),
    ],
)
def test_a_metadata_record_names_no_topic(value: bytes, expected: dict[str, object]) -> None:
    data = written(METADATA_SNAPSHOT, batch(0, record(0, None, value), 1))
    assert b"orders" not in data
    decoded = decode_metadata_record(only_record(data).value or b"")
    assert isinstance(decoded, MetadataRecord)
    assert {name: decoded.fields[name] for name in expected} == expected


def test_a_metadata_snapshot_that_cannot_be_read_stays_unreadable() -> None:
    sound = batch(0, record(0, None, metadata(2, 0, name="orders", topic_id=ID)), 1)
    rotten = bytearray(batch(1, record(0, None, b"orders"), 1))
    rotten[-2] ^= 1
    unknown = batch(2, record(0, None, b"\1\x7f\0orders"), 1)
    data = written(METADATA_SNAPSHOT, sound + bytes(rotten) + unknown)
    assert b"orders" not in data
    headers, _ = scan_buffer(data)
    assert headers["crc_valid"].tolist() == [1, 0, 1]
    assert headers["base_offset"].tolist() == [0, 1, 2]
    *_, (_, last) = records_in(data, headers)
    assert not isinstance(last, Corruption)
    assert isinstance(decode_metadata_record(last[0].value or b""), Corruption)


def coordinator(key_type: int, version: int, key: dict[str, object], value: dict[str, object] | None) -> Record:
    made = OtherCoordinatorRecord(key_type=key_type, name="", key=key, version=version, value=value)  # type: ignore[arg-type]
    encoded_key, encoded_value = encode_coordinator_record(CONSUMER_OFFSETS, made)
    return Record(offset=0, timestamp=0, key=encoded_key, value=encoded_value)


_MEMBER = {
    "client_id": "orders-client",
    "client_host": "/10.0.0.1",
    "subscribed_topic_names": ("orders", "__consumer_offsets"),
    "subscribed_topic_regex": "ord.*orders",
    "rebalance_timeout_ms": 5,
    "classic_member_metadata": {
        "session_timeout_ms": 1,
        "supported_protocols": ({"name": "range", "metadata": b"orders"},),
    },
}


def test_a_coordinators_log_is_the_same_log_by_other_names() -> None:
    commit = coordinator(
        1,
        4,
        {"group": "g-orders", "topic": "orders", "partition": 3},
        {"offset": 7, "metadata": "orders", "topic_id": ID},
    )
    member = coordinator(5, 0, {"group_id": "g-orders", "member_id": "orders-1"}, dict(_MEMBER))
    gone = coordinator(1, 4, {"group": "g-orders", "topic": "orders", "partition": 3}, None)
    log = b"".join(batch(at, record(0, r.key, r.value), 1) for at, r in enumerate((commit, member, gone)))
    log += batch(3, record(0, b"\0\x7forders", b"orders"), 1)
    path = f"__consumer_offsets-0/{SEGMENT}.log"
    file = written(path, log)
    assert treatment(path, NAMES).path == f"__consumer_offsets-0/{SEGMENT}.headers"
    (block,) = HeadersReader(io.BytesIO(file).readinto).blocks()
    assert block.headers.tobytes() == scan_buffer(log)[0].tobytes()
    everything = file + b"".join(block.kept.values())
    assert b"orders" not in everything.replace(b"__consumer_offsets", b"")
    found = []
    for _, records in kept_records(block, allowance=of_internal_topic()):
        assert not isinstance(records, Corruption)
        found.append(decode_coordinator_record(CONSUMER_OFFSETS, records[0].key, records[0].value))
    first, second, third, last = found
    assert isinstance(first, OtherCoordinatorRecord)
    assert isinstance(second, OtherCoordinatorRecord)
    assert isinstance(third, OtherCoordinatorRecord)
    assert isinstance(last, Corruption)
    key = {"group": NAMES.identifier("g-orders"), "topic": ORDERS, "partition": 3}
    assert (first.key, third.key, third.value) == (key, key, None)
    assert first.value is not None
    assert (first.value["offset"], first.value["topic_id"]) == (7, ID)
    assert second.value is not None
    assert second.value["subscribed_topic_names"] == (ORDERS, "__consumer_offsets")
    assert second.value["rebalance_timeout_ms"] == 5


def test_a_compressed_internal_batch_keeps_its_header_and_is_kept_unpacked() -> None:
    import zlib

    key = coordinator(1, 4, {"group": "g", "topic": "orders", "partition": 3}, None).key
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(record(0, key, None)) + packer.flush()
    log = batch(0, packed, 1, attributes=1)
    (block,) = HeadersReader(io.BytesIO(written(f"__consumer_offsets-0/{SEGMENT}.log", log)).readinto).blocks()
    assert block.headers["attributes"].tolist() == [1]
    assert block.headers["size_bytes"].tolist() == [HEADER_BYTES + len(packed)]
    assert b"orders" not in block.kept[0]
    assert len(list(kept_records(block, allowance=of_internal_topic()))) == 1


def test_what_is_left_out_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="left out"):
        written("orders.tar", b"")
