"""Values in, words for a reader out: the templates' filters."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from tidegauge.console.figures import plain
from tidegauge.expectations.verdicts import shown

_DASH: Final = "–"
_MISSED: Final = timedelta(hours=36)
"""A picture of a cluster that is audited daily and of last night is younger."""
_OLD: Final = timedelta(days=7)


def count(value: int | Decimal | None) -> str:
    """1234567 as 1,234,567; a dash where it is not known."""
    return _DASH if value is None else f"{int(value):,}"


def size(value: int | Decimal | None) -> str:
    """Bytes, in the unit that keeps three digits."""
    if value is None:
        return _DASH
    number = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            return f"{number:,.0f} B" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1024
    raise AssertionError("the last unit takes any size")


def instant(value: datetime | None) -> str:
    """An instant to the minute, UTC."""
    return _DASH if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def iso(value: datetime | float | None) -> str:
    """An instant for machines."""
    if value is None:
        return ""
    moment = datetime.fromtimestamp(value, UTC) if isinstance(value, int | float) else value.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(value: float, span_s: float) -> str:
    """An instant on an axis that is so long: no finer than the axis can show."""
    moment = datetime.fromtimestamp(value, UTC)
    if span_s >= 3 * 86_400:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%m-%d %H:%M}" if span_s >= 6 * 3_600 else f"{moment:%H:%M:%S}"


def date(value: datetime) -> str:
    """A day, UTC."""
    return f"{value.astimezone(UTC):%Y-%m-%d}"


def ago(value: datetime | None, now: datetime) -> str:
    """How long before now."""
    if value is None:
        return _DASH
    seconds = (now - value).total_seconds()
    if seconds < 0:
        return "in the future, by this machine's clock"
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            number = int(seconds // length)
            return f"{number} {unit}{'' if number == 1 else 's'} ago"
    return "just now"


def staleness(value: datetime | None, now: datetime) -> str:
    """How the age of a picture is shown: nothing of one of last night, else how odd or bad it is."""
    if value is None or now - value > _OLD:
        return "bad-text"
    return "warn" if now - value > _MISSED else ""


def place(subject: Mapping[str, Any]) -> str:
    """What a breach is about, in a few words: the partition first, then the rest."""
    rest = {name: value for name, value in subject.items() if value is not None}
    words = []
    if "topic" in rest and "partition" in rest:
        words.append(f"{shown('', rest.pop('topic'))}-{rest.pop('partition')}")
    rest.pop("topic_id", None)
    words += [f"{name.removesuffix('_id').replace('_', ' ')} {shown(name, value)}" for name, value in rest.items()]
    return ", ".join(words) or "the cluster"


def label(name: str) -> str:
    """A column's name as words."""
    return name.replace("_", " ")


def value_of(value: object, name: str = "") -> str:
    """A value of the evidence as text."""
    return "not known" if value is None else shown(name, value) or ""


def plural(number: int | Decimal | None, one: str, many: str | None = None) -> str:
    """`3 breaches`."""
    some = many or f"{one}s"
    return f"{some} not counted" if number is None else f"{int(number):,} {one if number == 1 else some}"


def vouched(verification: str) -> str:
    """Who vouches for a name, as the store's `verification` has it."""
    return {
        "airflow": "logged in to Airflow",
        "proxy": "logged in to the proxy",
        "token": "by a token",
    }.get(verification, "unverified")


def as_json(value: object) -> str:
    """For an attribute that a script reads."""
    return json.dumps(value, default=plain)


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "count": count,
    "size": size,
    "instant": instant,
    "iso": iso,
    "clock": clock,
    "date": date,
    "ago": ago,
    "staleness": staleness,
    "place": place,
    "label": label,
    "shown": value_of,
    "plural": plural,
    "vouched": vouched,
    "as_json": as_json,
}
