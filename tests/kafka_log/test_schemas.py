"""The schema reader: against messages that Kafka's own classes wrote, its notation, damage.

`kafka_messages.tsv` holds messages of every record type and version that Kafka 4.4 knows: its generated classes filled
at random and serialised by themselves, one a line: type, version, bytes, and what Kafka's JSON converter says of them.
"""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kafka_log.kafka_json import difference
from tidegauge.kafka_log.coordinator_schemas import COORDINATOR_SCHEMAS, SHARE_STATE_SCHEMAS
from tidegauge.kafka_log.metadata_records import METADATA_SCHEMAS
from tidegauge.kafka_log.schemas import Schema, SchemaReader, parse_schemas
from tidegauge.kafka_log.varint import write_unsigned

SCHEMAS: dict[str, Schema] = {
    **{schema.name: schema for schema in METADATA_SCHEMAS.values()},
    **COORDINATOR_SCHEMAS,
    **SHARE_STATE_SCHEMAS,
}
LINES = Path(__file__).with_name("kafka_messages.tsv").read_text(encoding="utf-8").splitlines()
MESSAGES = [
    (name, int(version), bytes.fromhex(data), said) for name, version, data, said in (x.split("\t") for x in LINES)
]


def one(text: str) -> Schema:
    (schema,) = parse_schemas(text)
    return schema


def test_kafkas_own_messages_are_read_as_kafka_reads_them() -> None:
    for name, version, data, said in MESSAGES:
        reader = SchemaReader(data)
        read = SCHEMAS[name].read(reader, version)
        assert reader.remaining == 0, (name, version)
        assert difference(json.loads(said), read, SCHEMAS[name].fields, f"{name} v{version}") is None


def test_every_schema_and_every_version_has_a_message() -> None:
    known = {(name, v) for name, s in SCHEMAS.items() for v in range(s.versions.low, s.versions.high + 1)}
    assert {(name, version) for name, version, _, _ in MESSAGES} == known


def test_every_first_part_of_a_message_is_damage_not_a_crash() -> None:
    for name, version, data, _ in MESSAGES:
        for end in range(0, len(data), max(len(data) // 12, 1)):
            with pytest.raises(ValueError):
                SCHEMAS[name].read(SchemaReader(data[:end]), version)


@settings(max_examples=400)
@given(message=st.sampled_from(MESSAGES), where=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_flipped_byte_is_read_or_refused(message: tuple[str, int, bytes, str], where: int, flip: int) -> None:
    name, version, data, _ = message
    if not data:
        return
    damaged = bytearray(data)
    damaged[where % len(data)] ^= flip
    try:
        fields = SCHEMAS[name].read(SchemaReader(bytes(damaged)), version)
    except ValueError:
        return
    assert set(fields) == {field.name for field in SCHEMAS[name].fields}


@settings(max_examples=200)
@given(name=st.sampled_from(sorted(SCHEMAS)), data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    schema = SCHEMAS[name]
    for version in range(schema.versions.low, schema.versions.high + 1):
        try:
            fields = schema.read(SchemaReader(data), version)
        except ValueError:
            continue
        assert set(fields) == {field.name for field in schema.fields}


@pytest.mark.parametrize(
    ("flexible", "count"),
    [("none", (2**31 - 1).to_bytes(4, "big")), ("0+", write_unsigned(2**31)), ("0+", write_unsigned(2**32 - 1))],
)
@pytest.mark.parametrize("type_", ["[]int64", "[]string", "bytes", "[]uuid"])
def test_a_huge_count_is_refused_before_anything_is_allocated(flexible: str, count: bytes, type_: str) -> None:
    schema = one(f"Big 0 0 {flexible}\n  items {type_} 0+")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="bytes are left"):
            schema.read(SchemaReader(count + bytes(20)), 0)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_unknown_tagged_fields_are_skipped() -> None:
    schema = one("Tagged 0 0 0+\n  number int8 0+\n  more int16 0+ tag=3:0+ default=-1")
    reader = SchemaReader(bytes([7, 2, 3, 2, 0, 9, 44, 1, 255]))
    assert schema.read(reader, 0) == {"number": 7, "more": 9}
    assert reader.remaining == 0
    assert schema.read(SchemaReader(bytes([7, 0])), 0) == {"number": 7, "more": -1}


def test_a_tagged_field_must_fill_its_size() -> None:
    schema = one("Tagged 0 0 0+\n  more int16 0+ tag=3:0+ default=-1")
    with pytest.raises(ValueError, match="leaves 1 bytes over"):
        schema.read(SchemaReader(bytes([1, 3, 3, 0, 9, 0])), 0)


def test_null_is_refused_where_the_schema_has_none() -> None:
    schema = one("Plain 0 0-1 none\n  name string 0+ nullable=1+")
    assert schema.read(SchemaReader(b"\xff\xff"), 1) == {"name": None}
    with pytest.raises(ValueError, match="name is null"):
        schema.read(SchemaReader(b"\xff\xff"), 0)


@pytest.mark.parametrize(
    ("tag", "data", "inner"),
    [
        ("", b"\x01\x05", {"x": 5}),
        ("", b"\xff", None),
        ("tag=0:0+", bytes([1, 0, 3, 1, 5, 0]), {"x": 5}),
        ("tag=0:0+", bytes([1, 0, 4, 0x80, 1, 5, 0]), {"x": 5}),
        ("tag=0:0+", bytes([1, 0, 1, 0]), None),
        ("tag=0:0+", bytes([0]), None),
    ],
)
def test_a_struct_that_may_be_null_says_so_before_it(tag: str, data: bytes, inner: dict[str, int] | None) -> None:
    flexible = "0+" if tag else "none"
    schema = one(f"Outer 0 0 {flexible}\n  inner Inner 0+ nullable=0+ {tag} default=null\n    x int8 0+")
    assert schema.read(SchemaReader(data), 0) == {"inner": inner}


def test_the_notation_is_read_to_the_last_word() -> None:
    schema = one(
        "Named 5 1-3 2+\n  a []Part 1-2 nullable=2\n    b int32 1+ default=-7\n  c bool 3+ tag=4:3+ default=true"
    )
    a, c = schema.fields
    assert (schema.name, schema.api_key, schema.has_version(0), schema.has_version(3)) == ("Named", 5, False, True)
    assert (1 in schema.flexible, 2 in schema.flexible) == (False, True)
    assert (a.name, a.type, a.is_array, 2 in a.versions, 3 in a.versions, 1 in a.nullable) == (
        *("a", "Part", True, True),
        *(False, False),
    )
    assert (a.fields[0].name, a.fields[0].default) == ("b", "-7")
    assert (c.tag, 2 in c.tagged, 3 in c.tagged, c.default) == (4, False, True, "true")
