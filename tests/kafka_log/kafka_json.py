"""Records as Kafka's own JSON converters print them, compared with what our decoder makes of the bytes.

Kafka's JSON says the fields that a version has, in camel case, and leaves out tagged fields that stand at their
default.
"""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from tidegauge.kafka_log.schemas import Field

Json = dict[str, Any]


def payload_of(printed: str) -> Json | None:
    """The value that the dump tool printed behind a record's header; None for a tombstone."""
    text = printed.partition(" payload: ")[2]
    return None if text.strip() == "<DELETE>" else json.loads(text)


def key_of(printed: str) -> Json:
    """The key that the dump tool printed behind a record's header."""
    return json.JSONDecoder().raw_decode(printed.partition(" key: ")[2])[0]


def difference(said: Json, read: Mapping[str, Any], fields: tuple[Field, ...], where: str = "") -> str | None:
    """The first field that Kafka and we understand differently, None if there is none."""
    named = {_snake(name): value for name, value in said.items()}
    if strange := set(named) - {field.name for field in fields}:
        return f"{where}: no such fields: {sorted(strange)}"
    for field in fields:
        here = f"{where}.{field.name}"
        if field.name in named:
            found = _value(named[field.name], read[field.name], field, here)
        else:
            found = None if read[field.name] == _default(field) else f"{here} is {read[field.name]!r}, not its default"
        if found:
            return found
    return None


def _value(said: Any, read: Any, field: Field, where: str, *, element: bool = False) -> str | None:
    if said is None or read is None:
        return None if said is read else f"{where}: {said!r} became {read!r}"
    if field.is_array and not element:
        if len(said) != len(read):
            return f"{where}: {len(said)} elements became {len(read)}"
        pairs = zip(said, read, strict=True)
        return next((d for a, b in pairs if (d := _value(a, b, field, f"{where}[]", element=True))), None)
    if field.fields:
        return difference(said, read, field.fields, where)
    if field.type == "bytes" and isinstance(said, dict):
        # What a member of a classic group sent: the tool takes it apart.
        return None if read else f"{where} is empty"
    if field.type == "bytes":
        said = base64.b64decode(said)
    return None if said == read and type(said) is type(read) else f"{where}: {said!r} became {read!r}"


def _default(field: Field) -> Any:
    """The default as the schema says it, worked out apart from the decoder."""
    if field.is_array:
        return None if field.default == "null" else ()
    if field.fields or field.default == "null":
        return None
    plain = {"bool": False, "string": "", "bytes": b"", "uuid": "A" * 22}.get(field.type, 0)
    if field.default is None or field.type == "string":
        return plain
    return field.default == "true" if field.type == "bool" else int(field.default)


def _snake(name: str) -> str:
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
