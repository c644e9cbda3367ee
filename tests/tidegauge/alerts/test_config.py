"""The alerts file: what it means, and what is said of a mistake in it."""

from datetime import UTC, datetime, time
from pathlib import Path

import pytest

from tidegauge.alerts.config import Alerting, AlertsFileError, parsed, read

WHOLE = """
console: https://tidegauge.example.com/
fresh_within_hours: 30
expect: [payments]
channels:
  on-call:
    url: pagerduty://${KEY}@${API}
    severities: [critical]
  team:
    url: slack://a/b/c
    clusters: [payments, orders]
    resolved: false
    quiet: {from: 22:00, to: "07:00", timezone: Europe/Berlin, but: [critical]}
  alertmanager:
    alertmanager: http://alertmanager:9093/
"""


def of(text: str, **environ: str) -> Alerting:
    return parsed(text, where="alerts.yaml", environ=environ)


def test_the_whole_file() -> None:
    found = of(WHOLE, KEY="k", API="a")
    assert (found.console, found.fresh_within_hours, found.expected) == (
        "https://tidegauge.example.com",
        30,
        {"payments"},
    )
    on_call, team, alertmanager = found.channels
    assert (on_call.address, on_call.severities, on_call.clusters) == ("pagerduty://k@a", {"critical"}, None)
    assert (team.clusters, team.resolved, team.severities) == ({"payments", "orders"}, False, {"critical", "warning"})
    assert team.quiet is not None
    assert (team.quiet.start, team.quiet.end) == (time(22), time(7))
    assert (alertmanager.is_alertmanager, alertmanager.address) == (True, "http://alertmanager:9093")


@pytest.mark.parametrize(
    ("at", "severity", "waits"),
    [
        (datetime(2026, 7, 1, 19, 59, tzinfo=UTC), "warning", False),
        (datetime(2026, 7, 1, 20, 0, tzinfo=UTC), "warning", True),  # 22:00 in Berlin in summer
        (datetime(2026, 7, 2, 4, 59, tzinfo=UTC), "warning", True),
        (datetime(2026, 7, 2, 5, 0, tzinfo=UTC), "warning", False),
        (datetime(2026, 12, 1, 20, 30, tzinfo=UTC), "warning", False),  # 21:30 in winter
        (datetime(2026, 7, 1, 23, 0, tzinfo=UTC), "critical", False),
    ],
)
def test_quiet_hours_are_those_of_a_place(at: datetime, severity: str, waits: bool) -> None:
    quiet = of(WHOLE, KEY="k", API="a").channels[1].quiet
    assert quiet is not None
    assert quiet.holds(at, severity) is waits


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("channels: {}", "names no channel"),
        ("channels: {a: {}}", "channels.a needs either"),
        ("channels: {a: {url: json://x, alertmanager: http://x}}", "one of them"),
        ("channels: {a: {alertmanager: 'file:///etc/passwd'}}", "begins with http"),
        ("channels: {a: {url: json://x, severity: [critical]}}", "has the word 'severity'"),
        ("channels: {a: {url: json://x, severities: [fatal]}}", "'fatal' is no severity"),
        ("channels: {a: {url: json://x, clusters: payments}}", "is not a list of words"),
        ("channels: {a: {url: json://x, resolved: maybe}}", "is neither true nor false"),
        (
            "channels: {a: {url: json://x, quiet: {from: '22', to: late}}}",
            "channels.a.quiet.to 'late' is no time of day",
        ),
        ("channels: {a: {url: json://x, quiet: {from: '22:00', to: '07:00', timezone: Mars}}}", "is no time zone"),
        ("channels: {a: {url: 'json://${TOKEN}'}}", "names the environment variable TOKEN, which is not set"),
        ("channels: {a: {url: json://x}}\nfresh_within_hours: no", "is not a number of hours"),
        ("channels: {a: {url: json://x}}\nconsole: tidegauge", "is not a web address"),
        ("channels: [", "line 1: not YAML"),
        ("- a", "is not a mapping"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises(AlertsFileError) as error:
        of(text)
    assert told in str(error.value)
    assert str(error.value).startswith("alerts.yaml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AlertsFileError, match=r"none\.yaml"):
        read(tmp_path / "none.yaml")
