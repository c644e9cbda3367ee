"""What a channel is to be told now.

In: all alerts, firing and resolved, what the channel has been told, the time. Out: those to tell, in order. Each alert
is told once when it begins and, to whoever was told, once when it is over; what quiet hours hold back is told when they
end, if it still holds.
"""

from collections.abc import Iterable
from datetime import datetime

from tidegauge.alerts.config import SEVERITIES, Channel
from tidegauge.alerts.model import Alert, Told, Word


def due(alerts: Iterable[Alert], told: Iterable[Told], channel: Channel, now: datetime) -> tuple[Alert, ...]:
    """The worst first; those that are over come last."""
    known = {(each.key, each.word) for each in told if each.channel == channel.name}

    def is_due(alert: Alert) -> bool:
        if alert.severity not in channel.severities:
            return False
        if alert.risk and alert.risk not in channel.risks:
            return False
        if channel.clusters is not None and alert.key.cluster not in channel.clusters:
            return False
        if (alert.key, alert.word) in known and not _is_repeated(alert, channel):
            return False
        if alert.word is Word.RESOLVED:
            if not channel.resolved or (alert.key, Word.FIRING) not in known:
                return False
        elif alert.acknowledged:
            return False
        return channel.quiet is None or not channel.quiet.holds(now, alert.severity)

    return tuple(sorted(filter(is_due, alerts), key=_order))


def _is_repeated(alert: Alert, channel: Channel) -> bool:
    """Alertmanager forgets what it is not told again, and tells people once by itself."""
    return channel.is_alertmanager and alert.word is Word.FIRING


def _order(alert: Alert) -> tuple[bool, int, str, str, str]:
    over = alert.word is Word.RESOLVED
    return over, SEVERITIES.index(alert.severity), alert.key.cluster, alert.headline or alert.name, alert.where
