"""Records of Kafka's own topics, read and written: real ones byte for byte, made ones value for value."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.kafka_log.coordinator_records import (
    decode_coordinator_record,
    decode_remote_log_fields,
    encode_coordinator_record,
    encode_remote_log_record,
)
from tidegauge.kafka_log.coordinator_schemas import COORDINATOR_SCHEMAS, SHARE_STATE_SCHEMAS
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA, INTERNAL_TOPICS, REMOTE_LOG_METADATA
from tidegauge.kafka_log.metadata_records import METADATA_SCHEMAS, decode_metadata_record, encode_metadata_record
from tidegauge.kafka_log.records import Record, records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.schema_writer import write_message
from tidegauge.kafka_log.schemas import Field, Schema, SchemaReader, default_of, parse_schemas

Golden = Callable[[str], Path]
SCHEMAS = (*METADATA_SCHEMAS.values(), *COORDINATOR_SCHEMAS.values(), *SHARE_STATE_SCHEMAS.values())


def internal_records(capture: Path) -> Iterator[tuple[str, Record]]:
    """Every data record of the internal topics' logs and of the metadata snapshots."""
    for path in (*sorted(capture.glob("broker-*/__*/*.log")), *sorted(capture.glob("broker-*/**/*.checkpoint"))):
        topic = CLUSTER_METADATA if path.suffix == ".checkpoint" else path.parent.name.rsplit("-", 1)[0]
        data = path.read_bytes()
        headers, _ = scan_buffer(data)
        for _, records in records_in(data, headers[headers["control_type"] == -1]):
            assert not isinstance(records, Corruption)
            yield from ((topic, record) for record in records)


@pytest.mark.parametrize("capture", ["healthy", "unclean-before", "hanging-txn", "soak-01", "tiered"])
def test_every_real_record_is_written_as_it_was_read(golden: Golden, capture: str) -> None:
    met: Counter[str] = Counter()
    for topic, record in internal_records(golden(capture)):
        met[topic] += 1
        decoded: Any
        if topic == CLUSTER_METADATA:
            decoded = decode_metadata_record(record.value or b"")
            assert encode_metadata_record(decoded) == record.value
        elif topic == REMOTE_LOG_METADATA:
            decoded = decode_remote_log_fields(record.value or b"")
            assert encode_remote_log_record(decoded) == record.value
        else:
            decoded = decode_coordinator_record(topic, record.key, record.value)
            assert encode_coordinator_record(topic, decoded) == (record.key, record.value)
    assert met.keys() <= INTERNAL_TOPICS
    assert met[CLUSTER_METADATA] > 100


def values_of(schema: Schema, version: int) -> st.SearchStrategy[dict[str, Any]]:
    return struct_of(schema.fields, version)


def struct_of(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {f.name: field_of(f, version) if version in f.versions else st.just(default_of(f)) for f in fields}
    )


def field_of(field: Field, version: int) -> st.SearchStrategy[Any]:
    limits = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
    unsigned = {"uint16": 16, "uint32": 32}
    value: st.SearchStrategy[Any]
    if field.type in limits:
        value = st.integers(-(2 ** limits[field.type]), 2 ** limits[field.type] - 1)
    elif field.type in unsigned:
        value = st.integers(0, 2 ** unsigned[field.type] - 1)
    elif field.type == "bool":
        value = st.booleans()
    elif field.type == "float64":
        value = st.floats(allow_nan=False)
    elif field.type == "string":
        value = st.text(max_size=6)
    elif field.type == "bytes":
        value = st.binary(max_size=6)
    elif field.type == "uuid":
        value = st.sampled_from(["AAAAAAAAAAAAAAAAAAAAAA", "9YOIe34GRai1O2iOGO76jg", "_-__________________-w"])
    else:
        value = struct_of(field.fields, version)
    if field.is_array:
        value = st.lists(value, max_size=3).map(tuple)
    return st.none() | value if version in field.nullable else value


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
@settings(max_examples=8)
@given(data=st.data())
def test_any_values_come_back(schema: Schema, data: st.DataObject) -> None:
    version = data.draw(st.integers(schema.versions.low, schema.versions.high))
    values = data.draw(values_of(schema, version))
    reader = SchemaReader(write_message(schema, values, version))
    found = schema.read(reader, version)
    assert reader.remaining == 0
    assert found == values


def test_a_field_left_at_its_default_is_not_written() -> None:
    (schema,) = parse_schemas("R 1 0 0+\n  a int32 0+\n  b int64 0+ tag=0:0+ default=-1\n  c string 0+ tag=2:0+")
    assert write_message(schema, {"a": 1}, 0) == b"\0\0\0\1\0"
    assert write_message(schema, {"a": 1, "b": -1, "c": "x"}, 0) == b"\0\0\0\1\1\2\2\2x"


@pytest.mark.parametrize("values", [{"a": 2**31}, {"a": None}, {"a": "x"}, {"s": None}], ids=str)
def test_a_value_that_does_not_fit_is_refused(values: dict[str, Any]) -> None:
    (schema,) = parse_schemas("R 1 0 0+\n  a int32 0+\n  s string 0+")
    with pytest.raises(ValueError, match=r"null|R version 0 cannot be written"):
        write_message(schema, values, 0)
