"""Messages on their way: a channel and alerts in, a request to somebody's service out.

In: alerts that are due. Out: which of them arrived, and what went wrong. Slack, e-mail, PagerDuty, web hooks and a
hundred more go through Apprise; Alertmanager has an API of its own. The rule that must hold: an alert counts as told
only when the service has said that it took it, and no error repeats an address, which is a secret.
"""

import json
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import groupby
from typing import Any, Final

from tidegauge.alerts.config import Alerting, Channel
from tidegauge.alerts.message import LONGEST_BODY, LONGEST_TITLE, digest, page, runbook, text, title
from tidegauge.alerts.model import INCIDENT, Alert, Word
from tidegauge.terminal import plain

TIMEOUT_SECONDS: Final = 15
ALERTMANAGER_HOLDS: Final = timedelta(hours=4)
"""How long Alertmanager takes an alert to go on when it hears no more: longer than any pause between two sendings."""

_PAGES: Final = re.compile(r"^pagerduty://", re.IGNORECASE)
"""Services that have an incident for each alert; the others get a digest a cluster."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Alerts that went out together, and why they did not arrive."""

    alerts: tuple[Alert, ...]
    problem: str | None = None


def deliver(channel: Channel, alerts: Sequence[Alert], alerting: Alerting, now: datetime) -> Iterator[Delivery]:
    """Sends; one delivery for each message."""
    if not alerts:
        return
    if channel.is_alertmanager:
        body = [labelled(alert, alerting.console, now) for alert in alerts]
        yield Delivery(tuple(alerts), _posted(f"{channel.address}/api/v2/alerts", body))
    elif _PAGES.match(channel.address):
        room = _room(channel.address)
        for alert in alerts:
            body_text = text(alert, alerting.console, room)
            yield Delivery((alert,), _notified(_with_identity(channel.address, alert), title(alert), body_text, alert))
    else:
        room = _room(channel.address)
        for _, several in groupby(sorted(alerts, key=_message), key=_message):
            together = tuple(several)
            heading, body_text = digest(together, alerting.console, room)
            yield Delivery(together, _notified(channel.address, heading, body_text, together[0]))


def _message(alert: Alert) -> tuple[str, bool]:
    """What is told together: a cluster's risks apart from all else."""
    return alert.key.cluster, bool(alert.risk)


def test_message(channel: Channel, now: datetime) -> str | None:
    """Tells a channel that it works; what went wrong, or None."""
    heading, body = (
        "[test] Tidegauge reaches this channel",
        f"Sent by `tidegauge alerts test` at {now:%Y-%m-%d %H:%M} UTC.",
    )
    if channel.is_alertmanager:
        labels = {"alertname": "TidegaugeTest", "severity": "info"}
        alert = {
            "labels": labels,
            "annotations": {"summary": heading, "description": body},
            "startsAt": _instant(now),
            "endsAt": _instant(now + timedelta(minutes=5)),
        }
        return _posted(f"{channel.address}/api/v2/alerts", [alert])
    return _notified(channel.address, heading, body, None)


def labelled(alert: Alert, console: str | None, now: datetime) -> dict[str, Any]:
    """As Alertmanager's API v2 takes it: labels identify, values annotate, `endsAt` says when it is over."""
    labels = {
        "alertname": alert.name,
        "severity": alert.severity,
        "cluster": alert.key.cluster,
        ("incident_id" if alert.name == INCIDENT else "alert_id"): alert.key.name,
        **alert.subject,
    }
    ends = alert.resolved_at or now + ALERTMANAGER_HOLDS
    return {
        "labels": {name: plain(value) for name, value in labels.items()},
        "annotations": {
            "summary": plain(alert.title),
            "description": "\n".join(map(plain, alert.explanation)),
            "next": plain(alert.next),
            "runbook_url": runbook(alert, console),
            **({"records": str(alert.records)} if alert.records is not None else {}),
        },
        "startsAt": _instant(alert.began_at),
        "endsAt": _instant(ends),
        **({"generatorURL": address} if (address := page(alert, console)) is not None else {}),
    }


def _with_identity(address: str, alert: Alert) -> str:
    """One incident for each alert, which the same service closes when it is over."""
    action = "resolve" if alert.word is Word.RESOLVED else "trigger"
    severity = {"critical": "critical", "warning": "warning"}.get(alert.severity, "info")
    joint = "&" if "?" in address else "?"
    # The opening is no part of it: one that comes back before anybody closed it belongs to it.
    identity = re.sub(r"[^A-Za-z0-9_.-]", "_", f"tidegauge-{alert.key.cluster}-{alert.key.name}")
    return f"{address}{joint}action={action}&dedup={identity}&severity={severity}"


def _room(address: str) -> int:
    """Characters of a text that the service takes: what is longer it refuses, and would each time."""
    import apprise

    service = apprise.Apprise.instantiate(address, suppress_exceptions=True)
    if not isinstance(service, apprise.NotifyBase):
        return LONGEST_BODY
    beside = 0 if service.title_maxlen else LONGEST_TITLE + len("\r\n")  # A service without titles has it in the text.
    return max(LONGEST_TITLE, min(LONGEST_BODY, int(service.body_maxlen) - beside))


def _notified(address: str, heading: str, body: str, alert: Alert | None) -> str | None:
    """Sends by Apprise; what went wrong, or None."""
    import apprise

    sender = apprise.Apprise()
    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:  # type: ignore[no-untyped-call]
        assert isinstance(log, StringIO)
        if not sender.add(address):
            return "Apprise knows no such address; see https://github.com/caronc/apprise for how they are written"
        kind = apprise.NotifyType.WARNING
        if alert is not None:
            over = alert.word is Word.RESOLVED
            worst = apprise.NotifyType.FAILURE if alert.severity == "critical" else apprise.NotifyType.WARNING
            kind = apprise.NotifyType.SUCCESS if over else worst
        sent = sender.notify(title=heading, body=body, notify_type=kind, body_format=apprise.NotifyFormat.TEXT)
        said = log.getvalue().strip()
    if sent:
        return None
    return _without(address, said.splitlines()[-1] if said else "the service did not take the message")


def _posted(url: str, body: Any) -> str | None:
    # Its scheme is HTTP's: `config` sees to that.
    request = urllib.request.Request(  # noqa: S310
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            answer.read()
    except urllib.error.HTTPError as error:
        return _without(url, f"it answered {error.code}: {error.read(300).decode(errors='replace').strip()}")
    except OSError as error:
        return _without(url, f"it cannot be reached: {getattr(error, 'reason', error)}")
    return None


def _without(address: str, said: str) -> str:
    """What a service or a library said, without the address's parts that could be secrets."""
    for part in sorted(set(re.split(r"[:/@?&=]+", address)), key=len, reverse=True):
        if len(part) > 5 and part not in ("localhost", "127.0.0.1"):
            said = said.replace(part, "***")
    return said


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
