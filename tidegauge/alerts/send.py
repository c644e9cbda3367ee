"""`tidegauge alerts`: tells each channel what it does not know yet.

In: the alerts file and a store. Out: messages, and a line about each. A channel that is down keeps nobody else from
being told, and is told everything when it is up again.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from tidegauge.alerts import book as books
from tidegauge.alerts.config import Alerting
from tidegauge.alerts.deliver import deliver, test_message
from tidegauge.alerts.due import due
from tidegauge.alerts.message import title
from tidegauge.snapshots.errors import StorageError


class ChannelError(StorageError):
    """A channel could not be told; to be tried again."""


def send(
    alerting: Alerting, url: str, *, say: Callable[[str], None], now: datetime | None = None, dry: bool = False
) -> int:
    """Tells whoever is to be told; returns how many alerts were told. Raises `ChannelError`, after all others."""
    problems = []
    count = 0
    at = now or datetime.now(UTC)
    with books.opened(url) as book:
        told = book.told()
        alerts = book.alerts(alerting, told, at)
        if not dry:
            book.note_risks(alerts)
        for channel in alerting.channels:
            news = due(alerts, told, channel, at)
            if dry:
                for alert in news:
                    say(f"{channel.name}: {title(alert)}")
                count += len(news)
                continue
            for delivery in deliver(channel, news, alerting, at):
                if delivery.problem is None:
                    book.write(channel.name, delivery.alerts, at)
                    count += len(delivery.alerts)
                    say(f"{channel.name}: told of {len(delivery.alerts)}: {title(delivery.alerts[0])}")
                else:
                    problems.append(f"{channel.name}: {delivery.problem}")
    if problems:
        raise ChannelError(
            f"Some channels got no alerts. {'; '.join(dict.fromkeys(problems))}. They get what they missed from the "
            "next `tidegauge alerts send`."
        )
    return count


def test(alerting: Alerting, names: tuple[str, ...], *, say: Callable[[str], None]) -> None:
    """Sends each named channel, or all, a message that says nothing is wrong. Raises `ChannelError`."""
    problems = []
    for channel in alerting.channels:
        if names and channel.name not in names:
            continue
        problem = test_message(channel, datetime.now(UTC))
        if problem is None:
            say(f"{channel.name}: told")
        else:
            problems.append(f"{channel.name}: {problem}")
    if problems:
        raise ChannelError(f"Not every channel works. {'; '.join(problems)}.")
