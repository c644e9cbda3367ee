"""The loss ledger as people are told of it: the store's views in, losses, totals and their headline out.

Terminal, console, metrics and alerts read the same two views, so that they tell the same numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

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

        def rows(query: str, values: Any) -> list[NamedValues]:
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


def headline(total: Mapping[str, Any]) -> str | None:
    """A row of `v_loss_total` in a few words, the worst first; None where there is nothing to decide."""
    told = [
        f"{int(records):,} record{'s' if records != 1 else ''} {words} since {_day(since)}"
        for records, words, since in (
            (total["records_lost_undecided"], "lost", total["lost_since"]),
            (total["records_at_risk_undecided"], "at risk", total["at_risk_since"]),
            (total["records_possible_undecided"], "possibly lost", total["possible_since"]),
        )
        if records
    ]
    return f"{', '.join(told)}, nobody has decided" if told else None


def _day(at: datetime) -> str:
    """With its year: a ledger lasts."""
    return f"{at.astimezone(UTC):%-d %b %Y}"
