"""A JSON object that somebody else wrote, field by field: each is asked for by its type.

In: what `json.loads` gave. Out: values. A value of another type, one that is too large, or a path that leads out of the
snapshot is an error that names the field.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

LARGEST_WHOLE: Final = (1 << 63) - 1
LONGEST_NAME: Final = 255
"""Bytes: as many as a file's name has. An entry of a Postgres index takes 2,704, and some have three names in it: one
snapshot with a longer name would end the audit of the others.
"""


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object whose fields are asked for by type: who wrote the manifest need not mean well.

    Every method raises `KeyError` where the field is not there and `TypeError` or `ValueError` where it is something
    else; `optional`: a field that is not there is None.
    """

    values: Mapping[str, Any]

    @classmethod
    def of(cls, value: object, what: str) -> "Fields":
        """Of what should be an object."""
        if not isinstance(value, dict):
            raise TypeError(f"{what} must be an object, not {_kind(value)}")
        return cls(value)

    def text(self, key: str) -> str:
        """A text that UTF-8 can hold."""
        value = self.values[key]
        if not isinstance(value, str):
            raise TypeError(f"{key} must be a text, not {_kind(value)}")
        value.encode("utf-8")  # Half of a surrogate pair can be neither printed nor kept.
        if "\0" in value:
            raise ValueError(f"{key} holds a NUL")
        return value

    def name(self, key: str) -> str:
        """A text by which results are kept, and found again."""
        value = self.text(key)
        if len(value.encode("utf-8")) > LONGEST_NAME:
            raise ValueError(f"{key} is longer than {LONGEST_NAME} bytes")
        return value

    def text_or_none(self, key: str, *, optional: bool = False) -> str | None:
        """A text, or null."""
        value = self.values.get(key) if optional else self.values[key]
        return None if value is None else self.text(key)

    def path(self, key: str) -> str:
        """A path that stays below the snapshot's root."""
        return _relative(self.text(key))

    def whole(self, key: str, *, most: int = LARGEST_WHOLE) -> int:
        """A whole number from 0 to `most`."""
        value = self.values[key]
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{key} must be a whole number, not {_kind(value)}")
        if not 0 <= value <= most:
            raise ValueError(f"{key} must lie in [0, {most}]")
        return value

    def whole_or_none(self, key: str, *, optional: bool = False, most: int = LARGEST_WHOLE) -> int | None:
        """A whole number from 0 to `most`, or null."""
        value = self.values.get(key) if optional else self.values[key]
        return None if value is None else self.whole(key, most=most)

    def flag(self, key: str) -> bool:
        """True or false; false where it is not there."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise TypeError(f"{key} must be true or false, not {_kind(value)}")
        return value

    def object_or_none(self, key: str) -> "Fields | None":
        """An object; None where it is not there."""
        value = self.values.get(key)
        return None if value is None else Fields.of(value, key)

    def objects(self, key: str) -> "Iterable[Fields]":
        """A list of objects."""
        value = self.values[key]
        if not isinstance(value, list):
            raise TypeError(f"{key} must be a list, not {_kind(value)}")
        return (Fields.of(each, f"each of {key}") for each in value)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def no_number(text: str) -> object:
    """For `json.loads`, which else takes NaN and Infinity."""
    raise ValueError(f"{text} is no number of JSON")


def _relative(path: str) -> str:
    """A manifest may only name files below its own root."""
    if not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise ValueError(f"path {path!r} leaves the snapshot")
    return path
