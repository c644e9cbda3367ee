"""How alerts read: one alert in, its title, text and links out; several of a cluster in, one digest out.

The rule that must hold: whatever a name holds stays text. Line breaks and control characters in it are shown, not
obeyed, and what a channel would read as markup is broken by who sends it (`deliver`).
"""

from collections.abc import Sequence
from typing import Final

from tidegauge.addresses import Links
from tidegauge.alerts.model import DATED_AHEAD, INCIDENT, NO_FRESH_AUDIT, OTHER_CLUSTER, REFUSALS, RISK, Alert, Word
from tidegauge.terminal import unlinked

MOST_IN_A_DIGEST: Final = 10
LONGEST_TITLE: Final = 250
LONGEST_LINE: Final = 500
"""Characters. A group's name has up to 32,767: a service refuses what is longer than it takes, and whoever gives such a
name would silence the cluster's alerts by it.
"""
LONGEST_BODY: Final = 30_000
"""Of what takes more than anybody reads."""
_CUT: Final = "…"
_LINES_OF_AN_ARGUMENT: Final = 6
_OF_NAMES: Final = "docs/guides/store.md#which-cluster-a-name-stands-for"
_OF_DATES: Final = "docs/guides/store.md#snapshots-of-the-future"
_OF_RISKS: Final = "docs/guides/alerts.md#risks"
_OF_INCIDENTS: Final = "docs/guides/incidents.md"


def title(alert: Alert) -> str:
    """What, where, in which cluster, and whether it is over."""
    state = "resolved" if alert.word is Word.RESOLVED else alert.severity
    return _cut(unlinked(f"[{state}] {alert.title}"), LONGEST_TITLE)


def runbook(alert: Alert, console: str | None) -> str:
    """Where what to do is written: a page of the console, else the path of a file in Tidegauge's repository."""
    if alert.name == NO_FRESH_AUDIT:
        return f"{console}/runs" if console else "docs/guides/schedule.md"
    if alert.name == RISK:
        return _OF_RISKS
    if alert.name == OTHER_CLUSTER:
        return _OF_NAMES
    return _OF_DATES if alert.name == DATED_AHEAD else _OF_INCIDENTS


def page(alert: Alert, console: str | None) -> str | None:
    """The alert's own page in the console, or its cluster's."""
    if console is None:
        return None
    links = Links(console)
    if alert.name == INCIDENT:
        return links.incident(alert.key.cluster, alert.key.name)
    return links.cluster(alert.key.cluster)


def text(alert: Alert, console: str | None, longest: int = LONGEST_BODY) -> str:
    """The argument, what to run next, where to read on. Of what is too long the argument goes first."""
    lines = [unlinked(line) for line in alert.explanation[:_LINES_OF_AN_ARGUMENT]]
    if alert.word is Word.RESOLVED:
        assert alert.resolved_at is not None
        lines = [unlinked(f"Over since {alert.resolved_at:%Y-%m-%d %H:%M} UTC: {_why_over(alert)}.")]
    elif alert.records:
        lines.append(f"Records {'at risk' if alert.risk else 'concerned'}: {alert.records}.")
    if alert.next and alert.word is Word.FIRING:
        lines.append(f"Next: {unlinked(alert.next)}")
    lines.append(f"Runbook: {runbook(alert, console)}")
    if (address := page(alert, console)) is not None:
        lines.append(f"Look: {address}")
    lines = [_cut(line, LONGEST_LINE) for line in lines]
    while len(lines) > 1 and sum(map(len, lines)) + len(lines) > longest:
        del lines[max(0, len(lines) - 3)]
    return _cut("\n".join(lines), longest)


def _cut(told: str, longest: int) -> str:
    return told if len(told) <= longest else told[: max(0, longest - len(_CUT))] + _CUT


def _why_over(alert: Alert) -> str:
    if alert.name == INCIDENT:
        return alert.explanation[0]
    return "somebody settled it" if alert.name in REFUSALS else "the audit of that instant no longer finds it"


def digest(alerts: Sequence[Alert], console: str | None, longest: int = LONGEST_BODY) -> tuple[str, str]:
    """Title and text of one message about incidents, or about risks, of one cluster; the first ones in full, as many as
    `longest` characters take, the rest counted.
    """
    if len(alerts) == 1:
        return title(alerts[0]), text(alerts[0], console, longest)
    firing = sum(alert.word is Word.FIRING for alert in alerts)
    what = (" risk" if firing == 1 else " risks") if alerts[0].risk else ""
    parts = [f"{firing} new{what}"] if firing else []
    over = " risks over" if alerts[0].risk else " resolved"
    parts += [f"{len(alerts) - firing}{over}"] if firing < len(alerts) else []
    worst = next((alert.severity for alert in alerts if alert.word is Word.FIRING), "resolved")
    where = f": {Links(console).cluster(alerts[0].key.cluster)}" if console else "."
    room = longest - len(f"\n\nand {len(alerts)} more{where}")
    shown: list[str] = []
    for alert in alerts[:MOST_IN_A_DIGEST]:
        told = f"{title(alert)}\n{text(alert, console)}"
        if shown and sum(map(len, shown)) + 2 * len(shown) + len(told) > room:
            break
        shown.append(_cut(told, max(0, room)))
    body = "\n\n".join(shown)
    if len(alerts) > len(shown):
        body += f"\n\nand {len(alerts) - len(shown)} more{where}"
    return _cut(unlinked(f"[{worst}] {alerts[0].key.cluster}: {', '.join(parts)}"), LONGEST_TITLE), _cut(body, longest)
