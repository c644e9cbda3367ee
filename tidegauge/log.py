"""What a command says on standard error, as a line: a sentence for people, or a JSON object for whoever collects logs.

In: a sentence, and by `about` whose it is. Out: a line. `TIDEGAUGE_LOG_FORMAT=json` chooses objects:

    {"at": "2026-11-26T04:00:00.123Z", "level": "info", "message": "publish: payments/20261126T030000Z",
     "command": "audit", "cluster": "payments", "snapshot_id": "20261126T030000Z", "run_id": "…"}

`level` is `info`, or `error` for what a command ends with. Ids are there as soon as they are known.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, Literal

Level = Literal["info", "error"]

FORMAT: Final = "TIDEGAUGE_LOG_FORMAT"
FORMATS: Final = ("text", "json")

_ABOUT: ContextVar[dict[str, str]] = ContextVar("about", default={})  # noqa: B039  # never changed in place


def as_json() -> bool:
    """Whether lines are objects."""
    return os.environ.get(FORMAT) == "json"


def line(text: str, level: Level = "info", *, now: datetime | None = None) -> str:
    """The text itself, or an object that has it as `message`."""
    if not as_json():
        return text
    at = (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"at": at, "level": level, "message": text, **_ABOUT.get()}, ensure_ascii=False)


@contextmanager
def about(**ids: str | None) -> Iterator[None]:
    """Lines of the block say whose they are, besides what is said of those around it; None: not known."""
    token = _ABOUT.set(_with(ids))
    try:
        yield
    finally:
        _ABOUT.reset(token)


def about_from_now(**ids: str | None) -> None:
    """The same until the process, or a block around, ends: an error is told where no block is any more."""
    _ABOUT.set(_with(ids))


def about_nothing() -> None:
    """What was said from now on is over: another command may come in this process."""
    _ABOUT.set({})


def _with(ids: dict[str, str | None]) -> dict[str, str]:
    return _ABOUT.get() | {name: value for name, value in ids.items() if value is not None}
