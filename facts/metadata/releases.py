"""Kafka's releases by the metadata.version that they know.

In: a level of the feature `metadata.version`. Out: the release that brought it. A level above all that are known here
is of the newest release or later, and is taken for that one; which rules a release keeps to is not decided here.

Source: MetadataVersion, of releases 3.9 and 4.4.
"""

from bisect import bisect_right
from typing import Final

Release = tuple[int, int]
"""A release of Kafka, major and minor: they compare as they follow each other."""

_FIRST_LEVELS: Final[tuple[tuple[int, Release], ...]] = (
    (1, (3, 0)),
    (2, (3, 1)),
    (3, (3, 2)),
    (4, (3, 3)),
    (8, (3, 4)),
    (9, (3, 5)),
    (12, (3, 6)),
    (15, (3, 7)),
    (20, (3, 8)),
    (21, (3, 9)),
    (22, (4, 0)),
    (26, (4, 1)),
    (28, (4, 2)),
    (30, (4, 3)),
    (31, (4, 4)),
    (34, (4, 5)),
)
"""The first level of each release."""


def release_of_level(level: int) -> Release | None:
    """The release, major and minor, that a level of metadata.version belongs to; None below the first."""
    at = bisect_right(_FIRST_LEVELS, level, key=lambda row: row[0])
    return _FIRST_LEVELS[at - 1][1] if at else None
