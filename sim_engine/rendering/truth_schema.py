"""TRUTH.json, schema version 1: what its keys hold.

In: the document. Out: what is wrong with its form; and the schema as a table for people. Every kind of note that
`sim_engine.truth.Truth` keeps is described here, field by field, and a reader may count on it.

Offsets and times are whole numbers, `_end_offset` is exclusive, times are milliseconds of virtual time since the epoch;
a partition is `<topic>-<partition>`. -1 stands for "none", where a number may be missing. Notes of one kind are in the
order in which they were made. Keys may be added; none changes its meaning.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegauge.sim_engine.truth import SCHEMA_VERSION

Type = str
"""int, text, bool, partition, or one of these with `?` (may be null) or `[]` (a list of them)."""

_TYPES: Final[Mapping[str, type]] = {"int": int, "text": str, "bool": bool, "partition": str}


@dataclass(frozen=True, slots=True)
class Key:
    """A field of a note: its name, its type, what it says."""

    name: str
    type: Type
    meaning: str


@dataclass(frozen=True, slots=True)
class Notes:
    """A list of the document: what a note in it says, and its fields. No fields: they are their makers' own."""

    meaning: str
    fields: tuple[Key, ...]


_AT: Final = Key("at_ms", "int", "when")
_CLIENT: Final = Key("client", "text", "the client's name")
_PARTITION: Final = Key("partition", "partition", "which partition")
_FIRST: Final = Key("base_offset", "int", "offset of the batch's first record")
_LAST: Final = Key("last_offset", "int", "offset of its last record")
_EPOCH: Final = Key("leader_epoch", "int", "leader epoch")
_START: Final = Key("start_offset", "int", "first offset")
_END: Final = Key("end_offset", "int", "the offset behind the last one")

NOTES: Final[Mapping[str, Notes]] = {
    "acknowledged": Notes(
        "a client was told that its batch is written",
        (
            _AT,
            _CLIENT,
            _PARTITION,
            _FIRST,
            _LAST,
            _EPOCH,
            Key("acks", "int", "1, or -1 for all"),
            Key("digests", "int[]", "CRC-32 of each record's value, -1 for a record without one"),
            Key("producer_id", "int", "the batch's producer id"),
            Key("producer_epoch", "int", "its epoch"),
            Key("base_sequence", "int", "its first sequence"),
            Key("transaction", "text?", "the transactional id"),
        ),
    ),
    "consumed": Notes("a consumer was given a batch", (_AT, _CLIENT, _PARTITION, _FIRST, _LAST, _EPOCH)),
    "told": Notes(
        "an error that ended a client's call, or the outcome of a transaction",
        (
            _AT,
            _CLIENT,
            Key("partition", "partition?", "which partition, if one is meant"),
            Key("what", "text", "the error's or outcome's name"),
            Key("offset", "int", "the offset that it is about"),
            Key("detail", "text", "what else was said"),
        ),
    ),
    "watermarks": Notes(
        "the true offsets of a partition from then on",
        (
            _AT,
            _PARTITION,
            Key("high_watermark", "int", "everything below it is committed"),
            Key("last_stable_offset", "int", "everything below it is decided"),
            Key("leader", "int", "who leads"),
            _EPOCH,
        ),
    ),
    "elections": Notes(
        "the controller's decision about a leader",
        (
            _AT,
            _PARTITION,
            Key("kind", "text", "first, clean, elr, preferred, last_known, unclean, same or none"),
            Key("leader", "int", "who leads now"),
            _EPOCH,
            Key("isr_before", "int[]", "the ISR before it"),
            Key("elr_before", "int[]", "the ELR before it"),
            Key("isr", "int[]", "the ISR after it"),
            Key("metadata_offset", "int", "its record's offset in the metadata log"),
        ),
    ),
    "losses": Notes(
        "records that the partition's log has lost, noted in the moment in which they were",
        (
            _AT,
            _PARTITION,
            _START,
            _END,
            _EPOCH,
            Key("cause", "text", "what lost them"),
            Key("broker_id", "int", "whose log counts now"),
            Key("committed", "bool", "they were committed; else they were only acknowledged (acks 1)"),
        ),
    ),
    "truncations": Notes(
        "a replica was cut",
        (_AT, _PARTITION, Key("broker_id", "int", "whose"), _START, _END, _EPOCH, Key("cause", "text", "why")),
    ),
    "faults": Notes(
        "something that was done to the cluster",
        (
            _AT,
            Key("kind", "text", "which fault"),
            Key("where", "text", "which broker, link or directory"),
            Key("detail", "text", "what exactly"),
            Key("partition", "partition?", "the partition that was hurt"),
            Key("on_disk", "bool", "a disk shows it"),
        ),
    ),
    "transactions": Notes("the transaction coordinators' own notes", ()),
    "groups": Notes("the group coordinators' own notes", ()),
}

OFFSETS: Final = (
    Key("leader", "int", "who leads"),
    _EPOCH,
    Key("high_watermark", "int", "the true high watermark"),
    Key("last_stable_offset", "int", "the true last stable offset"),
)
"""Under `partitions`, by partition: how it stands in the end."""


def problems(document: Mapping[str, Any]) -> list[str]:
    """What of the document is not of this schema. Keys that are not described here are none of them."""
    return list(_problems(document))


def markdown() -> str:
    """The schema as tables."""
    lines = ["| key | holds |", "| --- | --- |", f"| `schema_version` | {SCHEMA_VERSION} |"]
    lines += [f"| `{name}` | a list: {notes.meaning} |" for name, notes in NOTES.items()]
    lines += ["| `partitions` | by partition, how it stands in the end |"]
    for name, keys in (*((n, notes.fields) for n, notes in NOTES.items()), ("partitions", OFFSETS)):
        if keys:
            lines += ["", f"`{name}`", "", "| field | type | says |", "| --- | --- | --- |"]
            lines += [f"| `{key.name}` | {key.type} | {key.meaning} |" for key in keys]
    return "\n".join(lines) + "\n"


def _problems(document: Mapping[str, Any]) -> Iterator[str]:
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        yield f"schema_version is {version!r}, not {SCHEMA_VERSION}"
        return
    for name, notes in NOTES.items():
        listed = document.get(name)
        if not isinstance(listed, list):
            yield f"{name} is no list"
            continue
        for number, note in enumerate(listed):
            yield from _wrong_fields(f"{name}[{number}]", note, notes.fields)
    partitions = document.get("partitions")
    if not isinstance(partitions, Mapping):
        yield "partitions is no object"
        return
    for name, offsets in partitions.items():
        yield from _wrong_fields(f"partitions.{name}", offsets, OFFSETS)


def _wrong_fields(where: str, note: object, keys: tuple[Key, ...]) -> Iterator[str]:
    if not isinstance(note, Mapping):
        if keys:
            yield f"{where} is no object"
        return
    for key in keys:
        if key.name not in note:
            yield f"{where}.{key.name} is missing"
        elif not _is(note[key.name], key.type):
            yield f"{where}.{key.name} is no {key.type}"


def _is(value: object, type_: Type) -> bool:
    if type_.endswith("?"):
        return value is None or _is(value, type_[:-1])
    if type_.endswith("[]"):
        return isinstance(value, list) and all(_is(each, type_[:-2]) for each in value)
    return isinstance(value, _TYPES[type_]) and (type_ == "bool" or not isinstance(value, bool))
