"""Records of the metadata log: against what Kafka's dump tool prints of them, its frame, damage."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kafka_log.captures import CAPTURES, LIVES
from tests.kafka_log.kafka_dump import dumped_files
from tests.kafka_log.kafka_json import difference, payload_of
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.log_dir import parse_metadata_checkpoint
from tidegauge.kafka_log.metadata_records import METADATA_SCHEMAS, MetadataRecord, decode_metadata_record
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.varint import write_unsigned

Golden = Callable[[str], Path]
TOPIC_NAMED_A = bytes.fromhex("01 02 00 02 61") + bytes(16) + b"\0"


def values(path: Path) -> list[bytes]:
    data = path.read_bytes()
    headers, corruptions = scan_buffer(data)
    assert corruptions == ()
    decoded = records_in(data, headers[headers["control_type"] == -1])
    return [r.value or b"" for _, records in decoded if isinstance(records, tuple) for r in records]


@pytest.mark.parametrize("capture", [*CAPTURES, *LIVES])
def test_every_record_of_every_log_and_checkpoint_decodes(golden: Golden, capture: str) -> None:
    directories = list(golden(capture).glob("broker-*/**/__cluster_metadata-0"))
    files = [f for d in directories for f in (*d.glob("*.log"), *d.glob("*.checkpoint"))]
    assert len(directories) == len(list(golden(capture).glob("broker-*")))
    assert capture in LIVES or sum(parse_metadata_checkpoint(f.name) is not None for f in files) >= 3
    for file in files:
        found = [decode_metadata_record(value) for value in values(file)]
        assert found or file.suffix == ".checkpoint"  # the first checkpoint may hold control records only
        assert [record for record in found if isinstance(record, Corruption)] == []


@pytest.mark.parametrize("capture", ["healthy", "epochs", "unclean-before", "hanging-txn"])
def test_records_say_what_kafkas_dump_tool_prints(golden: Golden, capture: str) -> None:
    compared = 0
    for path, batches in dumped_files(golden(capture)):
        if path.parent.name != "__cluster_metadata-0":
            continue
        printed = [r["rest"] for b in batches if not b.fields["attributes"] & 0x20 for r in b.records]
        if not printed:
            continue
        for value, text in zip(values(path), printed, strict=True):
            said, record = payload_of(text), decode_metadata_record(value)
            assert isinstance(record, MetadataRecord)
            assert said is not None
            assert said["type"].replace("_", "") == record.name.upper()
            assert said["version"] == record.version
            assert difference(said["data"], record.fields, METADATA_SCHEMAS[record.type_id].fields, record.name) is None
            compared += 1
    assert compared > 150


def test_a_record_is_frame_type_version_and_fields() -> None:
    assert decode_metadata_record(TOPIC_NAMED_A) == MetadataRecord(
        type_id=2, name="TopicRecord", version=0, fields={"name": "a", "topic_id": "A" * 22}
    )


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        (b"", Damage.FORM, "varint"),
        (b"\x02" + TOPIC_NAMED_A[1:], Damage.VERSION, "frame version 2"),
        (b"\x01\x7f\x00", Damage.VALUE, "type 127"),
        (b"\x01\x02\x05" + TOPIC_NAMED_A[3:], Damage.VERSION, "TopicRecord version 5"),
        (TOPIC_NAMED_A[:-1], Damage.FORM, "varint"),
        (TOPIC_NAMED_A[:-2], Damage.FORM, "16 bytes are promised, 15 are left"),
        (TOPIC_NAMED_A + b"\0", Damage.FORM, "1 bytes are left over"),
        (TOPIC_NAMED_A.replace(b"a", b"\xff"), Damage.FORM, "UTF-8"),
        (b"\x01\x02\x00\x00" + bytes(17), Damage.FORM, "name is null"),
    ],
)
def test_what_cannot_be_a_record_says_why(value: bytes, kind: Damage, why: str) -> None:
    found = decode_metadata_record(value)
    assert isinstance(found, Corruption)
    assert (found.kind, found.position, found.end_position) == (kind, 0, len(value))
    assert why in found.detail


def test_every_type_that_kafka_44_writes_is_known() -> None:
    # 6, 13 and 16 were given up before the metadata log was declared ready for production.
    assert set(METADATA_SCHEMAS) == set(range(30)) - {6, 13, 16}


@settings(max_examples=400)
@given(type_id=st.sampled_from(sorted(METADATA_SCHEMAS)), version=st.integers(0, 4), fields=st.binary(max_size=120))
def test_any_bytes_are_a_record_or_damage(type_id: int, version: int, fields: bytes) -> None:
    value = b"\x01" + write_unsigned(type_id) + write_unsigned(version) + fields
    found = decode_metadata_record(value)
    assert isinstance(found, Corruption) or (found.type_id, found.version) == (type_id, version)


@given(value=st.binary(max_size=60))
def test_any_value_is_read_without_an_exception(value: bytes) -> None:
    assert isinstance(decode_metadata_record(value), MetadataRecord | Corruption)
