"""Metadata logs for tests: real ones read from a capture, and small ones written record by record."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tidegauge.facts.metadata.history import LoggedRecord
from tidegauge.kafka_log.log_dir import parse_metadata_checkpoint
from tidegauge.kafka_log.metadata_records import METADATA_SCHEMAS, MetadataRecord, decode_metadata_record
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_buffer

METADATA = "__cluster_metadata-0"
TOPIC_ID = "t" * 22
_SCHEMAS = {schema.name: schema for schema in METADATA_SCHEMAS.values()}
_EMPTY: dict[str, Any] = {"string": "", "uuid": "A" * 22, "bool": False, "bytes": b""}


def logged_records(file: Path, *, offset: int | None = None) -> Iterator[LoggedRecord]:
    """Every record of a log, or of a checkpoint if all of them are to stand at one offset."""
    data = file.read_bytes()
    headers, _ = scan_buffer(data)
    for _, records in records_in(data, headers[headers["control_type"] == -1]):
        assert isinstance(records, tuple)
        for record in records:
            decoded = decode_metadata_record(record.value or b"")
            assert isinstance(decoded, MetadataRecord)
            at = record.offset if offset is None else offset
            yield LoggedRecord(offset=at, timestamp_ms=record.timestamp, record=decoded)


def whole_log(directory: Path) -> list[LoggedRecord]:
    """Every record of one node's metadata log."""
    return [logged for log in sorted(directory.glob("*.log")) for logged in logged_records(log)]


def checkpoints(directory: Path) -> Iterator[tuple[int, list[LoggedRecord]]]:
    """End offset and records of each metadata snapshot but the one that the log begins with."""
    for file in sorted(directory.glob("*.checkpoint")):
        named = parse_metadata_checkpoint(file.name)
        assert named is not None
        if named.end_offset > 0:
            yield named.end_offset, list(logged_records(file, offset=named.end_offset))


def record(name: str, /, **fields: Any) -> MetadataRecord:
    """A record with the fields that matter; the others stand at their defaults."""
    schema = _SCHEMAS[name]
    values: dict[str, Any] = {}
    for field in schema.fields:
        if field.is_array:
            values[field.name] = None if field.default == "null" else ()
        elif field.default == "null":
            values[field.name] = None
        elif field.default is None or field.type in _EMPTY:
            values[field.name] = field.default == "true" if field.type == "bool" else _EMPTY.get(field.type, 0)
        else:
            values[field.name] = int(field.default)
    assert set(fields) <= set(values), set(fields) - set(values)
    return MetadataRecord(type_id=schema.api_key, name=name, version=schema.versions.high, fields={**values, **fields})


def a_log(records: Iterable[MetadataRecord], *, start: int = 0) -> list[LoggedRecord]:
    """A log of these records, one a second."""
    return [LoggedRecord(offset=at, timestamp_ms=1000 * at, record=r) for at, r in enumerate(records, start)]


def orders(**fields: Any) -> list[MetadataRecord]:
    """The topic orders with one partition, led by broker 1."""
    partition = {"replicas": (1, 2, 3), "isr": (1, 2, 3), "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    return [
        record("TopicRecord", name="orders", topic_id=TOPIC_ID),
        record("PartitionRecord", partition_id=0, topic_id=TOPIC_ID, **{**partition, **fields}),
    ]


def change(**fields: Any) -> MetadataRecord:
    """A change of orders-0."""
    return record("PartitionChangeRecord", partition_id=0, topic_id=TOPIC_ID, **fields)
