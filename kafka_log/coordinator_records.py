"""The coordinators' records: committed offsets (`__consumer_offsets`) and transactional ids (`__transaction_state`).

In: a record's key and value. Out: typed values for what facts need, `OtherCoordinatorRecord` for the rest, or a
`Corruption`; and key and value of such a record, to be written. The rules that must hold: a null value is a tombstone,
not damage; what was read and not changed is written as the same bytes; and what a record's arrays become is charged to
the `allowance` of the log which it was read out of.

    key   = type (i16) | fields      value = version (i16) | fields
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegauge.kafka_log.allowance import Allowance, of_one_record
from tidegauge.kafka_log.batch import LARGEST_LAST_OFFSET
from tidegauge.kafka_log.coordinator_schemas import COORDINATOR_SCHEMAS, SHARE_STATE_SCHEMAS
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.framed_records import read_framed, write_framed
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from tidegauge.kafka_log.schema_writer import write_message
from tidegauge.kafka_log.schemas import FieldValue, Schema, SchemaReader, damage_kind
from tidegauge.kafka_log.types import TopicPartition

_ZERO_UUID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_OFFSET_COMMIT_TYPES: Final = (0, 1)
TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""By the status byte of a TransactionLogValue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """A group's committed offset for a partition. A tombstone has offset -1 and says that there is none."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    commit_timestamp_ms: int | None
    topic_id: str | None
    version: int | None
    tombstone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """A transactional id at its coordinator."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    previous_producer_id: int | None
    next_producer_id: int | None
    timeout_ms: int
    state: str
    partitions: tuple[TopicPartition, ...]
    last_update_ms: int | None
    start_ms: int | None
    client_transaction_version: int | None
    tombstone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCoordinatorRecord:
    """A record of another type: a group's metadata, a member, …; `value` None is a tombstone."""

    key_type: int
    name: str
    key: Mapping[str, FieldValue]
    version: int | None
    value: Mapping[str, FieldValue] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """A segment in the remote tier (KIP-405); `end_offset` is exclusive. An update carries only its id and state."""

    segment_id: str
    topic: str
    topic_id: str
    partition: int
    start_offset: int | None
    end_offset: int | None
    max_timestamp_ms: int | None
    size_bytes: int | None
    state: str
    broker_id: int | None = None
    leader_epochs: tuple[tuple[int, int], ...] = ()
    """Leader epoch and start offset of each that it has records of."""
    states: tuple[str, ...] = ()
    """The states that its records told so far, this one last; empty for one that was put together otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogRecord:
    """A record of `__remote_log_metadata` with all its fields."""

    api_key: int
    name: str
    version: int
    fields: Mapping[str, FieldValue]


REMOTE_SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
"""By the state byte of a remote segment's record (RemoteLogSegmentState)."""
_REMOTE_SEGMENT: Final = 0
_REMOTE_SEGMENT_UPDATE: Final = 1


def _pairs(schemas: Mapping[str, Schema], *, transactions: bool = False) -> Mapping[int, tuple[Schema, Schema]]:
    """Key type -> (key schema, value schema); of the transaction coordinator, or of the others."""
    keys = [s for s in schemas.values() if s.name.endswith("Key")]
    return {
        s.api_key: (s, schemas[s.name.removesuffix("Key") + "Value"])
        for s in keys
        if s.name.startswith("Transaction") == transactions
    }


_REMOTE_SCHEMAS: Final[Mapping[int, Schema]] = {
    s.api_key: s for s in COORDINATOR_SCHEMAS.values() if s.name.startswith("Remote")
}
_GROUP_SCHEMAS: Final = _pairs(COORDINATOR_SCHEMAS)
_TRANSACTION_SCHEMAS: Final = _pairs(COORDINATOR_SCHEMAS, transactions=True)
_SHARE_STATE_SCHEMAS: Final = _pairs(SHARE_STATE_SCHEMAS)
_OF_TOPIC: Final[Mapping[str, Mapping[int, tuple[Schema, Schema]]]] = {
    CONSUMER_OFFSETS: _GROUP_SCHEMAS,
    TRANSACTION_STATE: _TRANSACTION_SCHEMAS,
    SHARE_GROUP_STATE: _SHARE_STATE_SCHEMAS,
}


def record_schemas(topic: str, key_type: int) -> tuple[Schema, Schema]:
    """The schemas of key and value of a type of record of a coordinator's topic."""
    return _OF_TOPIC[topic][key_type]


def remote_log_schema(api_key: int) -> Schema:
    """The schema of a type of record of `__remote_log_metadata`."""
    return _REMOTE_SCHEMAS[api_key]


def decode_coordinator_record(
    topic: str, key: bytes | None, value: bytes | None, *, allowance: Allowance | None = None
) -> OtherCoordinatorRecord | Corruption:
    """Decodes a record of any coordinator's topic field by field, whatever its type."""
    return _decode(key, value, _OF_TOPIC[topic], allowance)


def encode_coordinator_record(topic: str, record: OtherCoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a record of a coordinator's topic. Raises ValueError if a field does not fit."""
    key_schema, value_schema = _OF_TOPIC[topic][record.key_type]
    key = record.key_type.to_bytes(2, "big") + write_message(key_schema, record.key, 0)
    if record.value is None or record.version is None:
        return key, None
    return key, record.version.to_bytes(2, "big") + write_message(value_schema, record.value, record.version)


def decode_offsets_record(
    key: bytes | None, value: bytes | None, *, allowance: Allowance | None = None
) -> OffsetCommit | OtherCoordinatorRecord | Corruption:
    """Decodes a record of `__consumer_offsets`."""
    decoded = _decode(key, value, _GROUP_SCHEMAS, allowance)
    if isinstance(decoded, Corruption) or decoded.key_type not in _OFFSET_COMMIT_TYPES:
        return decoded
    named: Mapping[str, Any] = decoded.key
    said: Mapping[str, Any] = decoded.value or {}
    topic_id = said.get("topic_id")
    return OffsetCommit(
        group=named["group"],
        topic=named["topic"],
        partition=named["partition"],
        offset=said.get("offset", -1),
        leader_epoch=_known(said.get("leader_epoch")),
        commit_timestamp_ms=_known(said.get("commit_timestamp")),
        topic_id=None if topic_id in (None, _ZERO_UUID) else topic_id,
        version=decoded.version,
        tombstone=decoded.value is None,
    )


def decode_transaction_record(
    key: bytes | None, value: bytes | None, *, allowance: Allowance | None = None
) -> TransactionState | OtherCoordinatorRecord | Corruption:
    """Decodes a record of `__transaction_state`."""
    decoded = _decode(key, value, _TRANSACTION_SCHEMAS, allowance)
    if isinstance(decoded, Corruption):
        return decoded
    named: Mapping[str, Any] = decoded.key
    said: Mapping[str, Any] = decoded.value or {}
    status = said.get("transaction_status", TRANSACTION_STATES.index("Dead"))
    if not 0 <= status < len(TRANSACTION_STATES):
        return _damage(value or b"", Damage.VALUE, f"transaction status {status} is not known")
    version = said.get("client_transaction_version")
    return TransactionState(
        transactional_id=named["transactional_id"],
        producer_id=said.get("producer_id", -1),
        producer_epoch=said.get("producer_epoch", -1),
        previous_producer_id=_known(said.get("previous_producer_id")),
        next_producer_id=_known(said.get("next_producer_id")),
        timeout_ms=said.get("transaction_timeout_ms", 0),
        state=TRANSACTION_STATES[status],
        partitions=tuple(
            TopicPartition(topic=p["topic"], partition=n)
            for p in said.get("transaction_partitions") or ()
            for n in p["partition_ids"]
        ),
        last_update_ms=_known(said.get("transaction_last_update_timestamp_ms")),
        start_ms=_known(said.get("transaction_start_timestamp_ms")),
        # The field is tagged and left out at its default, so 0 is "not said" as much as "version 0 or 1".
        client_transaction_version=version or None,
        tombstone=decoded.value is None,
    )


def decode_share_state_record(
    key: bytes | None, value: bytes | None, *, allowance: Allowance | None = None
) -> OtherCoordinatorRecord | Corruption:
    """Decodes a record of `__share_group_state`: how far a share group has got with a partition."""
    return _decode(key, value, _SHARE_STATE_SCHEMAS, allowance)


def decode_remote_log_record(
    value: bytes | None, *, allowance: Allowance | None = None
) -> RemoteSegment | Corruption | None:
    """Decodes a record of `__remote_log_metadata`; None for one that is not about a single segment."""
    if value is None:
        return None
    decoded = decode_remote_log_fields(value, allowance=allowance)
    if isinstance(decoded, Corruption):
        return decoded
    if decoded.api_key not in (_REMOTE_SEGMENT, _REMOTE_SEGMENT_UPDATE):
        return None
    said: Mapping[str, Any] = decoded.fields
    state = said["remote_log_segment_state"]
    if not 0 <= state < len(REMOTE_SEGMENT_STATES):
        return _damage(value, Damage.VALUE, f"remote segment state {state} is not known")
    owner: Mapping[str, Any] = said["remote_log_segment_id"]["topic_id_partition"]
    end = said.get("end_offset")
    if end is not None and end > LARGEST_LAST_OFFSET:
        return _damage(value, Damage.VALUE, f"end offset {end} is no record's: no log ends behind it")
    return RemoteSegment(
        segment_id=said["remote_log_segment_id"]["id"],
        topic=owner["name"],
        topic_id=owner["id"],
        partition=owner["partition"],
        start_offset=said.get("start_offset"),
        end_offset=end + 1 if end is not None else None,
        max_timestamp_ms=said.get("max_timestamp_ms"),
        size_bytes=said.get("segment_size_in_bytes"),
        state=REMOTE_SEGMENT_STATES[state],
        broker_id=said.get("broker_id"),
        leader_epochs=tuple((e["leader_epoch"], e["offset"]) for e in said.get("segment_leader_epochs") or ()),
        states=(REMOTE_SEGMENT_STATES[state],),
    )


def decode_remote_log_fields(value: bytes, *, allowance: Allowance | None = None) -> RemoteLogRecord | Corruption:
    """Decodes a record of `__remote_log_metadata` field by field, whatever its type."""
    framed = read_framed(value, _REMOTE_SCHEMAS, what="remote log record", allowance=allowance)
    if isinstance(framed, Corruption):
        return framed
    schema = framed.schema
    return RemoteLogRecord(api_key=schema.api_key, name=schema.name, version=framed.version, fields=framed.fields)


def encode_remote_log_record(record: RemoteLogRecord) -> bytes:
    """The value of a record of `__remote_log_metadata`. Raises ValueError if a field does not fit."""
    return write_framed(_REMOTE_SCHEMAS[record.api_key], record.version, record.fields)


def _decode(
    key: bytes | None,
    value: bytes | None,
    schemas: Mapping[int, tuple[Schema, Schema]],
    allowance: Allowance | None,
) -> OtherCoordinatorRecord | Corruption:
    if key is None:
        return _damage(b"", Damage.FORM, "the record has no key")
    read = key
    allowance = allowance if allowance is not None else of_one_record(key, value)
    try:
        reader = SchemaReader(key, allowance)
        key_type = int(reader.number("int16"))
        if key_type not in schemas:
            return _damage(key, Damage.VALUE, f"key type {key_type} is not known")
        key_schema, value_schema = schemas[key_type]
        name = key_schema.name.removesuffix("Key")
        named = key_schema.read(reader, 0)
        if reader.remaining:
            return _damage(key, Damage.FORM, f"{key_schema.name}: {reader.remaining} bytes are left over")
        version: int | None = None
        said: Mapping[str, FieldValue] | None = None
        if value is not None:
            read = value
            reader = SchemaReader(value, allowance)
            version = int(reader.number("int16"))
            if not value_schema.has_version(version):
                return _damage(value, Damage.VERSION, f"{value_schema.name} version {version} is not known")
            said = value_schema.read(reader, version)
            if reader.remaining:
                return _damage(value, Damage.FORM, f"{value_schema.name}: {reader.remaining} bytes are left over")
    except ValueError as error:
        return _damage(read, damage_kind(error), str(error))
    return OtherCoordinatorRecord(key_type=key_type, name=name, key=named, version=version, value=said)


def _damage(data: bytes, kind: Damage, detail: str) -> Corruption:
    return Corruption(kind=kind, position=0, end_position=len(data), detail=detail)


def _known(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None
