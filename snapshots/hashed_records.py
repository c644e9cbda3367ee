"""What names topics inside files, with the names hashed: Kafka's internal topics' records, and offset checkpoints.

In: one batch of an internal topic's log, or a checkpoint's text, and the `TopicNames`. Out: the same with other names.
The rules that must hold: no name of a user's topic is left, nor one that a client chose; a field that this release does
not know to be harmless is hashed (text) or emptied (bytes); and what cannot be decoded is replaced by a record that
cannot be decoded either, so that the audit still counts it. Offsets, times, ids and numbers stay.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.allowance import Allowance, of_internal_topic
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.checkpoints import offset_entry
from tidegauge.kafka_log.control import OtherControl, decode_control_record
from tidegauge.kafka_log.coordinator_records import (
    decode_coordinator_record,
    decode_remote_log_fields,
    encode_coordinator_record,
    encode_remote_log_record,
    record_schemas,
    remote_log_schema,
)
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.headers_file import Rewrite
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA, REMOTE_LOG_METADATA
from tidegauge.kafka_log.metadata_records import METADATA_SCHEMAS, decode_metadata_record, encode_metadata_record
from tidegauge.kafka_log.records import Record, RecordBatch, read_batch
from tidegauge.kafka_log.schemas import Field
from tidegauge.snapshots.topic_names import TopicNames

_TOPIC_FIELDS: Final = frozenset(
    {
        "ClearElrRecord.topic_name",
        "ConsumerGroupRegularExpressionValue.topics",
        "LegacyOffsetCommitKey.topic",
        "OffsetCommitKey.topic",
        "PartitionsSchema.topic",
        "TopicIdPartitionEntry.name",
        "TopicInfo.name",
        "TopicInfo.topic_name",
        "TopicMetadata.topic_name",
        "TopicPartitionsInfo.topic_name",
        "TopicRecord.name",
        "ConsumerGroupMemberMetadataValue.subscribed_topic_names",
        "ShareGroupMemberMetadataValue.subscribed_topic_names",
        "Subtopology.repartition_sink_topics",
        "Subtopology.source_topics",
    }
)
"""Owner and field of what is a topic's name."""
_KEPT_FIELDS: Final = frozenset(
    {
        "AccessControlEntryRecord.host",
        "BeginTransactionRecord.name",
        "BrokerEndpoint.host",
        "BrokerEndpoint.name",
        "BrokerFeature.name",
        "ClientQuotaRecord.key",
        "ConfigRecord.name",
        "ControllerEndpoint.host",
        "ControllerEndpoint.name",
        "ControllerFeature.name",
        "EntityData.entity_type",
        "FeatureLevelRecord.name",
        "GroupMetadataValue.protocol",
        "GroupMetadataValue.protocol_type",
        "RegisterBrokerRecord.rack",
    }
)
"""Texts that name no topic and no client. All others are hashed."""
_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4
_LITERAL_PATTERN: Final = 3
_CONTROL_KEY_BYTES: Final = 4


def hashed_log(topic: str, names: TopicNames) -> Rewrite:
    """One batch of an internal topic to the same with other names; None where its records cannot be read. Of one log:
    its batches share an allowance.
    """
    allowance = of_internal_topic()

    def rewrite(batch: bytes) -> bytes | None:
        read = read_batch(batch, allowance=allowance)
        if isinstance(read, Corruption):
            return None
        if read.attributes & layout.CONTROL_BIT:
            return write_batch(replace(read, records=tuple(_control_record(r, allowance) for r in read.records)))
        hashed = (_hashed_record(topic, r, names, allowance) for r in read.records)
        return write_batch(replace(read, records=tuple(hashed)))

    return rewrite


def hashed_checkpoint(data: bytes, names: TopicNames) -> bytes:
    """An offset checkpoint with other names; a line that is no entry is blanked, and stays no entry."""
    lines = []
    for at, line in enumerate(data.splitlines(keepends=True)):
        end = line[len(line.rstrip()) :]
        # As text, which has more white space than bytes have.
        words = line.decode("utf-8", "replace").split()
        entry = offset_entry(line)
        if not words or (at < 2 and len(words) == 1 and words[0].isascii() and words[0].isdigit()):
            lines.append(line)
        elif at >= 2 and entry is not None:
            lines.append(f"{names.hashed(entry.topic)} {entry.partition} {entry.offset}".encode() + end)
        else:
            lines.append(b"?" + end)
    return b"".join(lines)


def unreadable_batch(base_offset: int) -> bytes:
    """A batch that stands for one that cannot be read: no records, and a wrong checksum."""
    empty = RecordBatch(
        base_offset=base_offset,
        last_offset=base_offset,
        partition_leader_epoch=0,
        crc=0,
        attributes=0,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records=(),
    )
    data = bytearray(write_batch(empty))
    data[layout.CRC_AT] ^= 0xFF
    return bytes(data)


def _control_record(record: Record, allowance: Allowance) -> Record:
    """A control record that Kafka writes stays; of any other the type is left."""
    decoded = decode_control_record(record, allowance=allowance)
    if not isinstance(decoded, Corruption | OtherControl):
        return replace(record, headers=())
    key = record.key[:_CONTROL_KEY_BYTES] if record.key is not None else None
    return replace(record, key=key, value=None, headers=())


def _hashed_record(topic: str, record: Record, names: TopicNames, allowance: Allowance) -> Record:
    key: bytes | None
    value: bytes | None
    try:
        if topic == CLUSTER_METADATA:
            key, value = None, _metadata_value(record, names, allowance)
        elif topic == REMOTE_LOG_METADATA:
            key, value = None, _remote_value(record, names, allowance)
        else:
            key, value = _coordinator_pair(topic, record, names, allowance)
    except ValueError:
        key, value = None, b""  # No decoder takes this for a record, as none took the one that it stands for.
    return replace(record, key=key, value=value, headers=())


def _metadata_value(record: Record, names: TopicNames, allowance: Allowance) -> bytes:
    decoded = decode_metadata_record(record.value or b"", allowance=allowance)
    if isinstance(decoded, Corruption):
        raise ValueError(decoded.detail)
    fields = _hashed(METADATA_SCHEMAS[decoded.type_id].fields, decoded.fields, names, owner=decoded.name)
    return encode_metadata_record(replace(decoded, fields=fields))


def _remote_value(record: Record, names: TopicNames, allowance: Allowance) -> bytes | None:
    if record.value is None:
        return None
    decoded = decode_remote_log_fields(record.value, allowance=allowance)
    if isinstance(decoded, Corruption):
        raise ValueError(decoded.detail)
    fields = _hashed(remote_log_schema(decoded.api_key).fields, decoded.fields, names, owner=decoded.name)
    return encode_remote_log_record(replace(decoded, fields=fields))


def _coordinator_pair(
    topic: str, record: Record, names: TopicNames, allowance: Allowance
) -> tuple[bytes, bytes | None]:
    decoded = decode_coordinator_record(topic, record.key, record.value, allowance=allowance)
    if isinstance(decoded, Corruption):
        raise ValueError(decoded.detail)
    key_schema, value_schema = record_schemas(topic, decoded.key_type)
    return encode_coordinator_record(
        topic,
        replace(
            decoded,
            key=_hashed(key_schema.fields, decoded.key, names, owner=key_schema.name),
            value=None
            if decoded.value is None
            else _hashed(value_schema.fields, decoded.value, names, owner=value_schema.name),
        ),
    )


def _hashed(fields: tuple[Field, ...], values: Mapping[str, Any], names: TopicNames, *, owner: str) -> dict[str, Any]:
    found = {}
    for field in fields:
        value = values.get(field.name)
        if field.is_array and value is not None:
            found[field.name] = tuple(_hashed_value(field, item, values, names, owner) for item in value)
        else:
            found[field.name] = _hashed_value(field, value, values, names, owner)
    return found


def _hashed_value(field: Field, value: Any, beside: Mapping[str, Any], names: TopicNames, owner: str) -> Any:
    if isinstance(value, Mapping):
        return _hashed(field.fields, value, names, owner=field.type)
    if isinstance(value, bytes):
        return b""
    if not isinstance(value, str) or field.type == "uuid":
        return value
    place = f"{owner}.{field.name}"
    if place in _TOPIC_FIELDS:
        return names.hashed(value)
    if place in _KEPT_FIELDS:
        return value
    return _by_resource(place, value, beside, names)


def _by_resource(place: str, value: str, beside: Mapping[str, Any], names: TopicNames) -> str:
    """Names and values whose meaning the resource beside them tells: of a topic, of a broker, or of something else."""
    kind = beside.get("resource_type")
    if place == "ConfigRecord.resource_name":
        return value if kind == _BROKER_RESOURCE else _resource(value, kind, names)
    if place == "ConfigRecord.value":
        return value if kind in (_TOPIC_RESOURCE, _BROKER_RESOURCE) else names.identifier(value)
    if place == "AccessControlEntryRecord.resource_name":
        if value == "*":
            return value
        return (
            _resource(value, kind, names) if beside.get("pattern_type") == _LITERAL_PATTERN else names.identifier(value)
        )
    return names.identifier(value)


def _resource(value: str, kind: Any, names: TopicNames) -> str:
    return names.hashed(value) if kind == _TOPIC_RESOURCE else names.identifier(value)
