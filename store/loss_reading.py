"""The loss ledger as people are told of it: the store's views in, losses, totals and their headline out.

Terminal, console, metrics and alerts read the same two views, so that they tell the same numbers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tidegauge.store.connection import NamedValues, by_column, connect

_TOTALS: Final = (
    "SELECT * FROM tidegauge.v_loss_total WHERE %(cluster)s IS NULL OR cluster = %(cluster)s ORDER BY cluster"
)
_LOSSES: Final = """
SELECT * FROM tidegauge.v_loss_ledger
WHERE (%(cluster)s IS NULL OR cluster = %(cluster)s) AND (undecided OR %(with_decided)s)
ORDER BY cluster, undecided DESC, records_lost DESC, records_at_risk DESC, topic_key, partition, leader_epoch
"""
_STRETCHES: Final = "SELECT * FROM tidegauge.v_loss_stretch WHERE loss_id = ANY(%s) ORDER BY loss_id, start_offset"
_DECISIONS: Final = "SELECT * FROM tidegauge.v_loss_decision WHERE loss_id = ANY(%s) ORDER BY loss_id, decision_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Losses of a store or of one cluster, each a row of the view that its field is named after."""

    totals: Sequence[NamedValues]
    losses: Sequence[NamedValues]
    stretches: Mapping[str, Sequence[NamedValues]]
    """By loss."""
    decisions: Mapping[str, Sequence[NamedValues]]
    """By loss, the oldest first."""


def losses(url: str, *, cluster: str | None = None, with_decided: bool = False) -> Losses:
    """What nobody has decided, the worst first; `with_decided`: what is over, too. Raises `StoreError`."""
    asked = {"cluster": cluster, "with_decided": with_decided}
    with connect(url, "read the loss ledger") as connection, connection.cursor() as cursor:

        def rows(query: str, values: object) -> list[NamedValues]:
            cursor.execute(query, values)
            return list(by_column(cursor))

        found = rows(_LOSSES, asked)
        ids = [row["loss_id"] for row in found]
        return Losses(
            totals=rows(_TOTALS, asked),
            losses=found,
            stretches=_by_loss(rows(_STRETCHES, (ids,))),
            decisions=_by_loss(rows(_DECISIONS, (ids,))),
        )


def _by_loss(rows: Sequence[NamedValues]) -> Mapping[str, Sequence[NamedValues]]:
    found: dict[str, list[NamedValues]] = {}
    for row in rows:
        found.setdefault(row["loss_id"], []).append(row)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Records that nobody has decided, by state, and since when the oldest of them are in it."""

    lost: int = 0
    lost_since: datetime | None = None
    at_risk: int = 0
    at_risk_since: datetime | None = None
    possible: int = 0
    possible_since: datetime | None = None

    @property
    def records(self) -> int:
        """In any state."""
        return self.lost + self.at_risk + self.possible

    @property
    def headline(self) -> str | None:
        """In a few words, the worst first; None where nothing waits."""
        told = [
            f"{records:,} record{'s' if records != 1 else ''} {words} since {_day(since)}"
            for records, words, since in (
                (self.lost, "lost", self.lost_since),
                (self.at_risk, "at risk", self.at_risk_since),
                (self.possible, "possibly lost", self.possible_since),
            )
            if records and since is not None
        ]
        return f"{', '.join(told)}, nobody has decided" if told else None


def waiting_in(totals: Iterable[NamedValues]) -> Waiting:
    """Rows of `v_loss_total` as one."""
    rows = list(totals)

    def since(name: str) -> datetime | None:
        return min((row[name] for row in rows if row[name] is not None), default=None)

    return Waiting(
        lost=int(sum(row["records_lost_undecided"] for row in rows)),
        lost_since=since("lost_since"),
        at_risk=int(sum(row["records_at_risk_undecided"] for row in rows)),
        at_risk_since=since("at_risk_since"),
        possible=int(sum(row["records_possible_undecided"] for row in rows)),
        possible_since=since("possible_since"),
    )


def _day(at: datetime) -> str:
    """With its year: a ledger lasts."""
    return f"{at.astimezone(UTC):%-d %b %Y}"
