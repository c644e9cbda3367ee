"""How an alert tells that nothing new is known of a cluster."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegauge.alerts.book import _stale
from tidegauge.alerts.config import Alerting

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("old", "told"),
    [
        (timedelta(minutes=20), "20 minutes ago."),
        (timedelta(minutes=119), "119 minutes ago."),
        (timedelta(minutes=150), "2 hours ago."),
        (timedelta(hours=27), "27 hours ago."),
    ],
)
def test_an_audit_of_this_hour_is_not_0_hours_old(old: timedelta, told: str) -> None:
    alerting = Alerting(channels=(), fresh_within_hours=0.25, expected=frozenset(), console=None)
    (alert,) = _stale({"c": NOW - old}, alerting, NOW)
    assert alert.explanation[0].endswith(f"UTC, {told}")
