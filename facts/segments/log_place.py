"""A place of a log where something is wrong, as `segments.damages` tells it."""

from typing import TypedDict


class LogPlace(TypedDict):
    """Where it stands in the segment's file, which offsets are concerned, and what is wrong."""

    kind: str
    position: int
    end_position: int
    start_offset: int
    end_offset: int
    records: int
    detail: str


class DamagedPlace(TypedDict):
    """The same of bytes that cannot be read: None where they do not tell which offsets stood there."""

    kind: str
    position: int
    end_position: int
    start_offset: int | None
    end_offset: int | None
    records: int | None
    detail: str
