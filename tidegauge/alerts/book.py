"""Alerts as the store has them, and the book of what was told.

In: a store. Out: every alert that fires, those that were told and are over, and the book. The rule that must hold: two
that send at once tell nobody twice; what was not told stays due.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tidegauge import store
from tidegauge.alerts import contradictions, incidents, risks
from tidegauge.alerts.config import Alerting
from tidegauge.alerts.model import INCIDENT, NO_FRESH_AUDIT, Alert, AlertKey, Told, Word

_ONE_AT_A_TIME: Final = "SELECT pg_advisory_lock(hashtextextended('tidegauge:alerts', 0))"
_TOLD: Final = "SELECT channel, cluster, name, opening, word FROM tidegauge.alert_told"
_FRESHNESS: Final = "SELECT cluster, captured_at FROM tidegauge.v_run_latest"
_SIMULATED: Final = "SELECT cluster FROM tidegauge.v_run GROUP BY cluster HAVING bool_and(source = 'simulated')"
"""Of which nothing real was ever audited: one simulated snapshot among real ones silences nothing."""
_WRITE: Final = """
INSERT INTO tidegauge.alert_told (channel, cluster, name, opening, word, told_at) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Book:
    """An open store, held by one sender at a time."""

    connection: Any

    def told(self) -> frozenset[Told]:
        """Everything that was ever told."""
        return frozenset(
            Told(row["channel"], AlertKey(row["cluster"], row["name"], row["opening"]), Word(row["word"]))
            for row in self._rows(_TOLD)
        )

    def alerts(self, alerting: Alerting, told: Iterable[Told], now: datetime) -> tuple[Alert, ...]:
        """What fires now, and what was told and is over."""
        simulated = {row["cluster"] for row in self._rows(_SIMULATED)}
        newest = {r["cluster"]: r["captured_at"] for r in self._rows(_FRESHNESS) if r["cluster"] not in simulated}
        found = [*incidents.alerts(self._rows), *risks.alerts(self._rows)]
        # Nobody is paged for a simulated cluster, unless one of that name is expected and nothing real comes.
        found = [alert for alert in found if alert.key.cluster not in simulated]
        found += _stale(newest, alerting, now)
        found += contradictions.alerts(self._rows)
        return (*found, *_gone(found, told, newest, now))

    def write(self, channel: str, alerts: Iterable[Alert], now: datetime) -> None:
        """These were told, from now on for certain."""
        with self.connection.cursor() as cursor:
            for alert in alerts:
                key = alert.key
                cursor.execute(_WRITE, (channel, key.cluster, key.name, key.opening, alert.word.value, now))
        self.connection.commit()

    def note_risks(self, alerts: Iterable[Alert]) -> None:
        """These risks are there, or over, whoever is told."""
        with self.connection.cursor() as cursor:
            risks.write(cursor, (alert for alert in alerts if alert.risk))
        self.connection.commit()

    def _rows(self, query: str) -> Iterator[Mapping[str, Any]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            yield from store.by_column(cursor)


@contextmanager
def opened(url: str) -> Iterator[Book]:
    """The book; whoever comes meanwhile waits. Raises `StoreError`."""
    with store.connect(url, "tell of breaches") as connection:
        with connection.cursor() as cursor:
            cursor.execute(_ONE_AT_A_TIME)
        yield Book(connection)


def _how_long(time: timedelta) -> str:
    minutes = time // timedelta(minutes=1)
    return f"{minutes / 60:.0f} hours" if minutes >= 120 else f"{minutes} minutes"


def _stale(newest: Mapping[str, datetime], alerting: Alerting, now: datetime) -> Iterator[Alert]:
    """Clusters of which nothing new is known."""
    allowed = timedelta(hours=alerting.fresh_within_hours)
    for cluster in sorted(newest.keys() | alerting.expected):
        captured_at = newest.get(cluster)
        if captured_at is not None and now - captured_at <= allowed:
            continue
        how_old = (
            f"The newest audited snapshot was captured at {captured_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC, "
            f"{_how_long(now - captured_at)} ago."
            if captured_at is not None
            else "No snapshot of it was ever audited."
        )
        yield Alert(
            key=AlertKey(cluster, NO_FRESH_AUDIT, _opening(captured_at)),
            severity="critical",
            name=NO_FRESH_AUDIT,
            subject={},
            explanation=(
                how_old,
                f"One is expected every {alerting.fresh_within_hours:g} hours; nothing is known of later.",
            ),
            next="airflow dags list-runs replication_audit",
            began_at=captured_at + allowed if captured_at is not None else now,
        )


def _opening(captured_at: datetime | None) -> str:
    return captured_at.astimezone(UTC).isoformat() if captured_at is not None else "never"


def _gone(
    found: Iterable[Alert], told: Iterable[Told], newest: Mapping[str, datetime], now: datetime
) -> Iterator[Alert]:
    """Alerts that were told and are not there any more: a cluster is fresh again, somebody merged an incident, or its
    breaches were withdrawn by an audit of the same snapshot under newer rules. One that came back since lives on in
    the new opening.
    """
    told = list(told)
    present = {alert.key for alert in found}
    lasting = {(alert.key.cluster, alert.key.name) for alert in found if alert.name != NO_FRESH_AUDIT}
    over = {(each.channel, each.key) for each in told if each.word is Word.RESOLVED}
    fresh = {alert.key.cluster for alert in found if alert.name == NO_FRESH_AUDIT}
    waiting = {(each.channel, each.key) for each in told if each.word is Word.FIRING} - over
    for key in sorted({key for _, key in waiting} - present):
        if (key.cluster, key.name) in lasting or (key.name == NO_FRESH_AUDIT and key.cluster in fresh):
            continue
        is_stale = key.name == NO_FRESH_AUDIT
        yield Alert(
            key=key,
            severity="critical",
            name=NO_FRESH_AUDIT if is_stale else INCIDENT,
            subject={},
            explanation=("what it was made of belongs to another incident now, or newer rules no longer find it",),
            headline="" if is_stale else key.name,
            began_at=now,
            resolved_at=newest.get(key.cluster, now) if is_stale else now,
        )
