"""What was found in one file that is derived from a log: an index, or a producer snapshot.

In: nothing; who checks a file fills it. Out: `IndexFileFacts`, a row of `index_files`. Counts are exact, and the places
told are the first ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypedDict

from tidegauge.kafka_log.corruption import Corruption

_DETAILS: Final = 50


class FilePlace(TypedDict):
    """A place of a derived file that is wrong; `position` is None where it is none of the file's."""

    kind: str
    position: int | None
    detail: str


@dataclass(slots=True, kw_only=True)
class IndexFileFacts:
    """What one derived file says against its log. Counts are exact; `damages` lists the first places."""

    kind: str
    entries: int
    readable: bool = True
    form_errors: int = 0
    pointer_errors: int = 0
    range_errors: int = 0
    missing_entries: int = 0
    extra_entries: int = 0
    wrong_entries: int = 0
    last_stable_offset_errors: int = 0
    misplaced: bool = False
    content_checkable: bool = True
    uncheckable_reason: str | None = None
    stale_tail: bool = False
    aborted_unlisted: int | None = None
    aborted_unmarked: int | None = None
    undecided: dict[int, int] = field(default_factory=dict)
    """Producers that may be missing, or may have come back, because they had expired, and when each wrote last."""
    damages: list[FilePlace] = field(default_factory=list)

    @property
    def room(self) -> int:
        """How many more places it keeps: what is wrong all over need not be put into words all over."""
        return _DETAILS - len(self.damages)

    def note(self, kind: str, position: int | None, detail: str) -> None:
        """Keeps a place for the explanation, as long as there is room."""
        if self.room > 0:
            self.damages.append({"kind": kind, "position": position, "detail": detail})


def with_form(facts: IndexFileFacts, corruptions: Iterable[Corruption]) -> IndexFileFacts:
    """The same, with what the file's own form gets wrong."""
    for corruption in corruptions:
        facts.form_errors += 1
        facts.note("form", corruption.position, corruption.detail)
    return facts
