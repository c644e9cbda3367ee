"""Kafka's record schemas, written: the values of `kafka_log.schemas` back to bytes.

In: a schema, a version, and fields by name. Out: the bytes that Kafka's own writer gives for them. The rule that must
hold: what `Schema.read` made of Kafka's bytes is written as the same bytes, but for tagged fields that the schema does
not know, which reading leaves out. A field that the version does not have is not written; one that is missing has its
default.
"""

import base64
import struct
from collections.abc import Mapping
from typing import Any

from tidegauge.kafka_log.schemas import NUMBERS, Field, FieldValue, Schema, default_of
from tidegauge.kafka_log.varint import write_unsigned


def write_message(schema: Schema, values: Mapping[str, FieldValue], version: int) -> bytes:
    """One message's bytes. Raises ValueError if a value does not fit its field."""
    try:
        return _struct(schema.fields, values, version, flexible=version in schema.flexible)
    except (struct.error, TypeError, AttributeError) as error:
        raise ValueError(f"{schema.name} version {version} cannot be written: {error}") from error


def _struct(fields: tuple[Field, ...], values: Mapping[str, Any], version: int, *, flexible: bool) -> bytes:
    out = bytearray()
    tagged: list[tuple[int, bytes]] = []
    for field in fields:
        value = values.get(field.name, default_of(field))
        if field.tag is not None and version in field.tagged:
            if value != default_of(field):
                tagged.append((field.tag, _field(field, value, version, flexible=True)))
        elif version in field.versions:
            out += _field(field, value, version, flexible=flexible)
    if flexible:
        out += write_unsigned(len(tagged))
        for tag, data in sorted(tagged):
            out += write_unsigned(tag) + write_unsigned(len(data)) + data
    return bytes(out)


def _field(field: Field, value: Any, version: int, *, flexible: bool) -> bytes:
    if field.flexible is not None:
        flexible = version in field.flexible
    if field.is_array:
        if value is None:
            return _length(field, None, version, flexible=flexible, of_text=False)
        head = _length(field, len(value), version, flexible=flexible, of_text=False)
        return head + b"".join(_value(field, item, version, flexible=flexible) for item in value)
    return _value(field, value, version, flexible=flexible)


def _value(field: Field, value: Any, version: int, *, flexible: bool) -> bytes:
    match field.type:
        case "bool":
            return b"\1" if value else b"\0"
        case "string" | "bytes":
            data = value.encode() if isinstance(value, str) else value
            size = None if data is None else len(data)
            return _length(field, size, version, flexible=flexible, of_text=field.type == "string") + (data or b"")
        case "uuid":
            return base64.urlsafe_b64decode(value + "==")
        case type_ if type_ in NUMBERS:
            return NUMBERS[type_].pack(value)
        case _:
            return _presence(field, value, version) + (
                b"" if value is None else _struct(field.fields, value, version, flexible=flexible)
            )


def _presence(field: Field, value: Any, version: int) -> bytes:
    """What stands before a struct that may be null, as `kafka_log.schemas` reads it; nothing before any other."""
    if version not in field.nullable or field.is_array:
        if value is None:
            raise ValueError(f"{field.name} is null")
        return b""
    if field.tag is not None and version in field.tagged:
        return write_unsigned(int(value is not None))
    return b"\xff" if value is None else b"\1"


def _length(field: Field, size: int | None, version: int, *, flexible: bool, of_text: bool) -> bytes:
    if size is None and version not in field.nullable:
        raise ValueError(f"{field.name} is null")
    if flexible:
        return write_unsigned(0 if size is None else size + 1)
    return NUMBERS["int16" if of_text else "int32"].pack(-1 if size is None else size)
