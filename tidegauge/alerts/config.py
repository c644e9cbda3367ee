"""Who is told, of what, and when not: a YAML file in, `Alerting` out.

A word that means nothing is an error that names its place, and an address, which holds secrets, is in no message.
`${NAME}` stands for an environment variable, so that secrets need not stand in the file.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from tidegauge.snapshots.errors import SnapshotError

SEVERITIES: Final = ("critical", "warning", "info")
RISKS: Final = ("now", "single", "double")
"""What is so already; what the loss of one broker or rack would cost; what only two together would."""
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class AlertsFileError(SnapshotError):
    """The file cannot be used; trying again would not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Hours in which a channel hears nothing but of severities that are worth waking somebody."""

    start: time
    end: time
    zone: ZoneInfo
    but: frozenset[str]

    def holds(self, now: datetime, severity: str) -> bool:
        """Whether a message waits."""
        at = now.astimezone(self.zone).time()
        inside = self.start <= at < self.end if self.start <= self.end else at >= self.start or at < self.end
        return inside and severity not in self.but


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One receiver."""

    name: str
    address: str
    """An Apprise URL, or Alertmanager's address."""
    is_alertmanager: bool
    severities: frozenset[str]
    clusters: frozenset[str] | None
    """None: all."""
    resolved: bool
    risks: frozenset[str]
    """Of `RISKS`; they are warnings, so that a channel without warnings hears of none."""
    quiet: Quiet | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """The whole file."""

    channels: tuple[Channel, ...]
    fresh_within_hours: float
    expected: frozenset[str]
    """Clusters that must have been audited, even if none of their runs is in the store."""
    console: str | None
    """Where the console is, for links."""


def read(path: Path) -> Alerting:
    """Reads the file. Raises `AlertsFileError`."""
    return parsed(_text(path), where=str(path), environ=os.environ)


def variables(path: Path) -> frozenset[str]:
    """The names of the environment variables that a file mentions. Raises `AlertsFileError`."""
    return frozenset(_VARIABLE.findall(_text(path)))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise AlertsFileError(
            f"{path}: {error.strerror}. This file says who gets alerts. Name it with --config or TIDEGAUGE_ALERTS."
        ) from error


def parsed(text: str, *, where: str, environ: Mapping[str, str]) -> Alerting:
    """What the file means. Raises `AlertsFileError`."""
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise AlertsFileError(f"{where}{line}: not YAML ({getattr(error, 'problem', error)}).") from error
    root = _Place(where).mapping(content, {"channels", "fresh_within_hours", "expect", "console"})
    place = _Place(where)
    channels = place.at("channels").mapping(root.get("channels"), None)
    if not channels:
        raise place.error("names no channel, so nobody would be told. Add one under `channels`.")
    hours = root.get("fresh_within_hours", 26)
    if isinstance(hours, bool) or not isinstance(hours, int | float) or hours <= 0:
        raise place.at("fresh_within_hours").error("is not a number of hours above 0.")
    console = root.get("console")
    if console is not None and not str(console).startswith(("http://", "https://")):
        raise place.at("console").error("is not a web address.")
    return Alerting(
        channels=tuple(
            _channel(str(name), given, place.at("channels").at(str(name)), environ) for name, given in channels.items()
        ),
        fresh_within_hours=float(hours),
        expected=frozenset(place.at("expect").texts(root.get("expect", []))),
        console=str(console).rstrip("/") if console is not None else None,
    )


def _channel(name: str, given: Any, place: "_Place", environ: Mapping[str, str]) -> Channel:
    known = {"url", "alertmanager", "severities", "clusters", "resolved", "quiet", "risks"}
    content = place.mapping(given, known)
    addresses = [key for key in ("url", "alertmanager") if key in content]
    if len(addresses) != 1:
        raise place.error("needs either `url` (an Apprise address) or `alertmanager` (its address), and one of them.")
    address = _filled(str(content[addresses[0]]), place.at(addresses[0]), environ)
    if addresses[0] == "alertmanager" and not address.startswith(("http://", "https://")):
        raise place.at("alertmanager").error("is no address that begins with http:// or https://.")
    clusters = content.get("clusters")
    resolved = content.get("resolved", True)
    if not isinstance(resolved, bool):
        raise place.at("resolved").error("is neither true nor false.")
    return Channel(
        name=name,
        address=address.rstrip("/") if addresses[0] == "alertmanager" else address,
        is_alertmanager=addresses[0] == "alertmanager",
        severities=_words(
            content.get("severities", ["critical", "warning"]), SEVERITIES, "severity", place.at("severities")
        ),
        clusters=frozenset(place.at("clusters").texts(clusters)) if clusters is not None else None,
        resolved=resolved,
        risks=_words(content.get("risks", ["now", "single"]), RISKS, "kind of risk", place.at("risks")),
        quiet=_quiet(content["quiet"], place.at("quiet")) if "quiet" in content else None,
    )


def _quiet(given: Any, place: "_Place") -> Quiet:
    content = place.mapping(given, {"from", "to", "timezone", "but"})
    try:
        zone = ZoneInfo(str(content.get("timezone", "UTC")))
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise place.at("timezone").error(
            f"{content.get('timezone')!r} is no time zone, such as Europe/Berlin."
        ) from error
    return Quiet(
        start=_clock(content.get("from"), place.at("from")),
        end=_clock(content.get("to"), place.at("to")),
        zone=zone,
        but=_words(content.get("but", ["critical"]), SEVERITIES, "severity", place.at("but")),
    )


def _clock(given: Any, place: "_Place") -> time:
    """YAML reads 22:00 without quotes as a number of minutes."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 24 * 60:
        return time(given // 60, given % 60)
    try:
        return time.fromisoformat(str(given))
    except ValueError as error:
        raise place.error(f"{given!r} is no time of day, such as 22:00.") from error


def _words(given: Any, known: Sequence[str], what: str, place: "_Place") -> frozenset[str]:
    found = place.texts(given)
    for each in found:
        if each not in known:
            raise place.error(f"{each!r} is no {what}. They are {', '.join(known)}.")
    return frozenset(found)


def _filled(text: str, place: "_Place", environ: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if not environ.get(match[1]):
            raise place.error(f"names the environment variable {match[1]}, which is not set.")
        return environ[match[1]]

    return _VARIABLE.sub(value, text)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the file one is, for errors."""

    path: str

    def at(self, key: str) -> "_Place":
        return _Place(f"{self.path}: {key}" if ": " not in self.path else f"{self.path}.{key}")

    def error(self, problem: str) -> AlertsFileError:
        return AlertsFileError(f"{self.path} {problem}")

    def mapping(self, given: Any, known: set[str] | None) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise self.error("is not a mapping of names to values.")
        for key in given:
            if known is not None and key not in known:
                raise self.error(
                    f"has the word {str(key)!r}, which means nothing here. Known: {', '.join(sorted(known))}."
                )
        return given

    def texts(self, given: Any) -> list[str]:
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise self.error("is not a list of words.")
        return given
