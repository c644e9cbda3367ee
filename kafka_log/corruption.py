"""Damage as a value.

Bytes that cannot be what Kafka wrote never raise an exception: every decoder of this package hands out `Corruption`
values beside (or instead of) what it could read. An exception from this package means a mistake of the caller or ours.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final


class Damage(StrEnum):
    """What kind of rule the bytes break; the words are stored, so they stay as they are."""

    LENGTH = "length"
    """A length field cannot be right; the bytes up to the next sound entry are unreadable."""
    TORN_TAIL = "torn_tail"
    """The file ends in bytes that hold no whole entry: a write cut short, or a page that never reached the disk."""
    MAGIC = "magic"
    """An entry of an old or unknown message format."""
    CRC = "crc"
    """A checksum does not match the bytes that it covers."""
    FORM = "form"
    """The text or the structure is not the one of this file format."""
    VERSION = "version"
    """The format version is not one that we can read."""
    COUNT = "count"
    """A declared number of entries differs from what is there."""
    ORDER = "order"
    """Entries that must rise do not."""
    VALUE = "value"
    """A field holds a value that it can never have."""
    RECORDS = "records"
    """A batch's records cannot be read although its header can."""
    NOT_READ = "not_read"
    """Nothing is said against the bytes: they hold, or unpack to, more than is read (`compression`, `allowance`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption:
    """One stretch of damaged bytes.

    `position` (inclusive) and `end_position` (exclusive) are bytes counted from the start of the file or buffer.
    `start_offset` (inclusive) and `end_offset` (exclusive) are the record offsets at stake where the damaged entry or
    its neighbours still tell them, `records` the number of records it claims to hold; None where nothing can be said.
    `detail` is one plain sentence without position or file name.
    """

    kind: Damage
    position: int
    end_position: int
    detail: str
    start_offset: int | None = None
    end_offset: int | None = None
    records: int | None = None


def damage_values(corruption: Corruption) -> dict[str, Any]:
    """The fields as JSON holds them."""
    return {**asdict(corruption), "kind": corruption.kind.value}


def damage_of(values: Mapping[str, Any]) -> Corruption:
    """A `Corruption` by its fields, which somebody else may have written.

    Raises `AttributeError`, `KeyError`, `TypeError` or `ValueError` for what no decoder hands out.
    """
    if values.keys() != {field.name for field in fields(Corruption)}:
        raise KeyError("a damage has other fields than these")  # whose names are not told: they may be anything
    found = Corruption(**{**values, "kind": Damage(values["kind"])})
    places = (found.position, found.end_position)
    for number in (*places, found.start_offset, found.end_offset, found.records):
        if number is not None and (type(number) is not int or not -(1 << 63) <= number < 1 << 63):
            raise ValueError(f"{str(number)[:40]!r} is no number of a damage")
    if None in places or not 0 <= found.position <= found.end_position:
        raise ValueError("a damage lies nowhere")
    if not isinstance(found.detail, str):
        raise TypeError(f"a damage's detail is {type(found.detail).__name__}")
    found.detail.encode("utf-8")  # Half of a surrogate pair can be neither printed nor kept.
    return found


PLACES_KEPT: Final = 10_000


@dataclass(slots=True)
class Places:
    """A small file's damage, line by line or entry by entry: so many, and beyond them one for all others. A page of
    zeros is wrong all over, and a place takes a hundred times the bytes of a line.
    """

    kept: list[Corruption] = field(default_factory=list)
    _more: int = 0
    _first: Corruption | None = None
    _end_position: int = 0

    def add(self, corruption: Corruption) -> None:
        """One more; they come in the order of the file."""
        if len(self.kept) < PLACES_KEPT:
            self.kept.append(corruption)
            return
        self._more += 1
        self._first = self._first or corruption
        self._end_position = corruption.end_position

    def all(self) -> list[Corruption]:
        """All of them, the last one perhaps for many."""
        if self._first is None:
            return self.kept
        rest = replace(
            self._first,
            end_position=self._end_position,
            detail=f"{self._more} more, the first of which: {self._first.detail}",
        )
        return [*self.kept, rest]
