"""The frame that Kafka puts around a record of its own topics whose type is not in the key.

In: a record's value and the schemas by api key. Out: `Framed`, or a `Corruption`; and the other way. All of a value is
read, and a type or version that the schemas don't have is a `Corruption`, never a guess.

    value = frame version (uvarint, 1) | api key (uvarint) | version (uvarint) | fields

Source: MetadataRecordSerde, RemoteLogMetadataSerde (both by way of AbstractApiMessageSerde).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.schema_writer import write_message
from tidegauge.kafka_log.schemas import FieldValue, Schema, SchemaReader, damage_kind
from tidegauge.kafka_log.varint import write_unsigned

_FRAME_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Framed:
    """A record's value: its type, by the schema, its version and its fields."""

    schema: Schema
    version: int
    fields: Mapping[str, FieldValue]


def read_framed(
    value: bytes, schemas: Mapping[int, Schema], *, what: str, allowance: Allowance | None = None
) -> Framed | Corruption:
    """Reads a value, all of it. `what` names the kind of record for whoever reads of the damage; `allowance` is that of
    the log.
    """
    reader = SchemaReader(value, allowance)
    try:
        frame, api_key, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
        if frame != _FRAME_VERSION:
            return _damage(value, Damage.VERSION, f"frame version {frame}, only {_FRAME_VERSION} is known")
        schema = schemas.get(api_key)
        if schema is None:
            return _damage(value, Damage.VALUE, f"{what} type {api_key} is not known")
        if not schema.has_version(version):
            return _damage(value, Damage.VERSION, f"{schema.name} version {version} is not known")
        fields = schema.read(reader, version)
    except ValueError as error:
        return _damage(value, damage_kind(error), str(error))
    if reader.remaining:
        return _damage(value, Damage.FORM, f"{schema.name}: {reader.remaining} bytes are left over")
    return Framed(schema=schema, version=version, fields=fields)


def write_framed(schema: Schema, version: int, fields: Mapping[str, FieldValue]) -> bytes:
    """The value of a record. Raises ValueError if a field does not fit."""
    frame = write_unsigned(_FRAME_VERSION) + write_unsigned(schema.api_key) + write_unsigned(version)
    return frame + write_message(schema, fields, version)


def _damage(value: bytes, kind: Damage, detail: str) -> Corruption:
    return Corruption(kind=kind, position=0, end_position=len(value), detail=detail)
