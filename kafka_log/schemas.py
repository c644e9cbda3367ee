"""Kafka's record schemas as data, and the reader that walks them.

In: schemas in a compact notation, and a record's bytes. Out: its fields by name. The rule that must hold: nothing is
read beyond the buffer, no size is believed before it is checked against what is left, unknown tagged fields are
skipped, and what arrays become is charged to the log's `Allowance`: a record may unpack from nothing.

The notation, one message after another, fields indented below their owner:

    <Name> <api key or -> <versions> <flexible versions or none>
      <field> <type> <versions> [nullable=<versions>] [tag=<n>:<versions>] [default=<value>] [flexible=<versions>]

Types are Kafka's: bool, int8 … int64, uint16, float64, string, bytes, uuid, a struct's name, or [] before any of them.
A flexible version has compact lengths (uvarint, one more than the length, 0 is null) and tagged fields at each struct's
end (KIP-482). In `flexible=` a field says that it stays in the old form.
"""

import base64
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidegauge.kafka_log.allowance import STRUCT_VALUES, Allowance, BeyondAllowanceError, of_one_record, values_in
from tidegauge.kafka_log.corruption import Damage
from tidegauge.kafka_log.varint import BROKEN, read_unsigned

FieldValue = bool | int | float | str | bytes | None | tuple["FieldValue", ...] | Mapping[str, "FieldValue"]
"""A decoded field: a uuid is its base64 text, an array a tuple, a struct a mapping."""

NUMBERS: Final = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "uint16": struct.Struct(">H"),
    "uint32": struct.Struct(">I"),
    "float64": struct.Struct(">d"),
}
"""A number\'s type -> its bytes, for who reads and who writes."""
_UUID_BYTES: Final = 16
_LONG: Final = 16
"""Bytes of a text or of bytes from which on they are looked at: most are shorter."""
_ZERO_UUID: Final = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; empty if `low` is above `high`."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


_NONE: Final = Versions(0, -1)
_OPEN: Final = 32767


def _versions(text: str) -> Versions:
    if text == "none":
        return _NONE
    if text.endswith("+"):
        return Versions(int(text[:-1]), _OPEN)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: its name, type, the versions that have it, and, for a struct, its own fields."""

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: str | None
    flexible: Versions | None
    fields: tuple["Field", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """One message: name, api key (-1 where it has none), versions and fields."""

    name: str
    api_key: int
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]

    def has_version(self, version: int) -> bool:
        """Whether this version is known."""
        return version in self.versions

    def read(self, reader: "SchemaReader", version: int) -> Mapping[str, FieldValue]:
        """Reads all fields of one message. Raises ValueError where the bytes cannot be it."""
        return _read_struct(self.fields, reader, version, flexible=version in self.flexible)


class SchemaReader:
    """A cursor over one record's bytes. Every method raises ValueError rather than read past the end.

    `allowance` is the log's; without one the record has its own. Where it ends, `BeyondAllowanceError` is raised.
    """

    def __init__(self, data: bytes, allowance: Allowance | None = None) -> None:
        self._data = data
        self._at = 0
        self._end = len(data)
        self.allowance = allowance if allowance is not None else of_one_record(data)

    @property
    def remaining(self) -> int:
        """Bytes not yet read."""
        return self._end - self._at

    def part(self, size: int) -> "SchemaReader":
        """The next bytes as a reader's own, not copied: they may be nearly all there are."""
        if not 0 <= size <= self.remaining:
            raise ValueError(f"{size} bytes are promised, {self.remaining} are left")
        part = SchemaReader(self._data, self.allowance)
        part._at, part._end = self._at, self._at + size
        self._at += size
        return part

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if not 0 <= size <= self.remaining:
            raise ValueError(f"{size} bytes are promised, {self.remaining} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, type_: str) -> int | float:
        """A fixed-size number."""
        format_ = NUMBERS[type_]
        value: int | float = format_.unpack(self.take(format_.size))[0]
        return value

    def uvarint(self) -> int:
        """An unsigned varint of at most 32 bits."""
        value, after = read_unsigned(self._data, self._at)
        if after == BROKEN or after > self._end:
            raise ValueError("a varint is cut short or too long")
        self._at = after
        return value

    def long(self, size: int, *, is_text: bool) -> bytes:
        """The next bytes, of which there may be many."""
        data = self.take(size)
        if size >= _LONG and (values := values_in(data, is_text=is_text)):
            self.allowance.spend_values(values)
        return data

    def length(self, *, flexible: bool, of_text: bool) -> int | None:
        """A length; None is null. Text has a 16-bit length in the old form, bytes and arrays a 32-bit one."""
        size = self.uvarint() - 1 if flexible else int(self.number("int16" if of_text else "int32"))
        if size < -1 or size > self.remaining:
            raise ValueError(f"a length of {size}, {self.remaining} bytes are left")
        return None if size == -1 else size


def _read_struct(
    fields: tuple[Field, ...], reader: SchemaReader, version: int, *, flexible: bool
) -> Mapping[str, FieldValue]:
    values: dict[str, FieldValue] = {}
    tagged: dict[int, Field] = {}
    for field in fields:
        if field.tag is not None and version in field.tagged:
            tagged[field.tag] = field
            values[field.name] = default_of(field)
        elif version in field.versions:
            values[field.name] = _read_field(field, reader, version, flexible=flexible)
        else:
            values[field.name] = default_of(field)
    if flexible:
        for _ in range(reader.uvarint()):
            reader.allowance.spend_values(1)
            tag, size = reader.uvarint(), reader.uvarint()
            data = reader.part(size)
            if tag in tagged:
                values[tagged[tag].name] = _read_field(tagged[tag], data, version, flexible=True)
                if data.remaining:
                    raise ValueError(f"tagged field {tagged[tag].name} leaves {data.remaining} bytes over")
    return values


def _read_field(field: Field, reader: SchemaReader, version: int, *, flexible: bool) -> FieldValue:
    if field.flexible is not None:
        flexible = version in field.flexible
    if field.is_array:
        size = reader.length(flexible=flexible, of_text=False)
        if size is None:
            return _null(field, version)
        _spend_on_scalars(field, reader, size)
        return tuple(_read_value(field, reader, version, flexible=flexible) for _ in range(size))
    return _read_value(field, reader, version, flexible=flexible)


def _spend_on_scalars(field: Field, reader: SchemaReader, size: int) -> None:
    if field.fields:
        return  # Each is charged when it is read: how many of them the bytes hold is not known before.
    least = NUMBERS[field.type].size if field.type in NUMBERS else _UUID_BYTES if field.type == "uuid" else 1
    # A length that cannot be right is damage, and costs nothing.
    if size * least > reader.remaining:
        raise ValueError(f"an array of {size}, {reader.remaining} bytes are left")
    reader.allowance.spend_values(size)


def _read_value(field: Field, reader: SchemaReader, version: int, *, flexible: bool) -> FieldValue:
    match field.type:
        case "bool":
            return reader.take(1) != b"\0"
        case "string":
            size = reader.length(flexible=flexible, of_text=True)
            return _null(field, version) if size is None else _text(reader.long(size, is_text=True))
        case "bytes":
            size = reader.length(flexible=flexible, of_text=False)
            return _null(field, version) if size is None else reader.long(size, is_text=False)
        case "uuid":
            return base64.urlsafe_b64encode(reader.take(_UUID_BYTES)).decode().rstrip("=")
        case type_ if type_ in NUMBERS:
            return reader.number(type_)
        case _:
            if version in field.nullable and not field.is_array and not _is_there(field, reader, version):
                return None
            reader.allowance.spend_values(STRUCT_VALUES + len(field.fields))
            return _read_struct(field.fields, reader, version, flexible=flexible)


def _is_there(field: Field, reader: SchemaReader, version: int) -> bool:
    """Reads what stands before a struct that may be null: a uvarint if it is tagged (0: null), else a byte (-1)."""
    if field.tag is not None and version in field.tagged:
        return reader.uvarint() > 0
    return reader.number("int8") >= 0


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"a text is not UTF-8: {error.reason}") from error


def _null(field: Field, version: int) -> FieldValue:
    if version not in field.nullable:
        raise ValueError(f"{field.name} is null")
    return None


def damage_kind(error: ValueError) -> Damage:
    """What is to be said of a record that could not be read."""
    return Damage.NOT_READ if isinstance(error, BeyondAllowanceError) else Damage.FORM


def default_of(field: Field) -> FieldValue:
    """A field's value where nothing is written of it."""
    if field.is_array:
        return None if field.default == "null" else ()
    match field.type:
        case "bool":
            return field.default == "true"
        case "string":
            return None if field.default == "null" else (field.default or "").strip("'")
        case "bytes":
            return None if field.default == "null" else b""
        case "uuid":
            return _ZERO_UUID
        case type_ if type_ in NUMBERS:
            return int(field.default) if field.default is not None else 0
        case _:
            return None if field.default == "null" else {f.name: default_of(f) for f in field.fields}


def parse_schemas(text: str) -> tuple[Schema, ...]:
    """Reads schemas in the notation above."""
    lines = [line for line in text.splitlines() if line.strip()]
    schemas = []
    at = 0
    while at < len(lines):
        name, api_key, versions, flexible = lines[at].split()
        end = at + 1
        while end < len(lines) and lines[end].startswith(" "):
            end += 1
        schemas.append(
            Schema(
                name=name,
                api_key=-1 if api_key == "-" else int(api_key),
                versions=_versions(versions),
                flexible=_versions(flexible),
                fields=tuple(_fields(lines[at + 1 : end])),
            )
        )
        at = end
    return tuple(schemas)


def _fields(lines: list[str]) -> Iterator[Field]:
    at = 0
    while at < len(lines):
        depth = _depth(lines[at])
        end = at + 1
        while end < len(lines) and _depth(lines[end]) > depth:
            end += 1
        name, type_, versions, *rest = lines[at].split()
        options = dict(option.split("=", 1) for option in rest)
        tag, _, tagged = options.get("tag", "").partition(":")
        yield Field(
            name=name,
            type=type_.removeprefix("[]"),
            is_array=type_.startswith("[]"),
            versions=_versions(versions),
            nullable=_versions(options["nullable"]) if "nullable" in options else _NONE,
            tag=int(tag) if tag else None,
            tagged=_versions(tagged) if tagged else _NONE,
            default=options.get("default"),
            flexible=_versions(options["flexible"]) if "flexible" in options else None,
            fields=tuple(_fields(lines[at + 1 : end])),
        )
        at = end


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
