"""Losses as alerts: what nobody has decided in each cluster's ledger, in; alerts that begin and end, out.

The rules that must hold: an undecided loss is told once, and again when it grows, gets worse, or is opened again by
somebody; it is over when somebody has decided it or its records are proven to be back, whatever audits see meanwhile.
What is lost in a simulated cluster is told to nobody.
"""

from collections.abc import Iterator
from datetime import UTC
from typing import Any, Final

from tidegauge.alerts.model import LOSS, Alert, AlertKey
from tidegauge.store.connection import NamedValues
from tidegauge.store.loss_reading import Waiting, waiting_in

_UNDECIDED: Final = """
SELECT l.*,
       (SELECT max(s.state_at) FROM tidegauge.v_loss_stretch s
        WHERE s.loss_id = l.loss_id AND s.undecided) AS newest_at,
       (SELECT count(*) FROM tidegauge.v_loss_decision d
        WHERE d.loss_id = l.loss_id AND d.action = 'reopened') AS reopenings
FROM tidegauge.v_loss_ledger l WHERE l.undecided AND l.source <> 'simulated'
"""
_TOTALS: Final = "SELECT * FROM tidegauge.v_loss_total WHERE losses_undecided > 0"
_OVER: Final = """
SELECT DISTINCT ON (l.loss_id) l.cluster, l.loss_id, t.opening, l.topic, l.partition, l.state, l.decided_by,
       l.first_told_at,
       coalesce(l.decided_at,
                (SELECT max(s.back_at) FROM tidegauge.v_loss_stretch s WHERE s.loss_id = l.loss_id)) AS over_at,
       (SELECT d.note FROM tidegauge.v_loss_decision d
        WHERE d.loss_id = l.loss_id ORDER BY d.decision_id DESC LIMIT 1) AS note
FROM tidegauge.alert_told t JOIN tidegauge.v_loss_ledger l ON l.cluster = t.cluster AND l.loss_id = t.name
WHERE t.word = 'firing' AND NOT l.undecided ORDER BY l.loss_id, t.told_at DESC, t.opening DESC
"""


def alerts(rows: Any) -> Iterator[Alert]:
    """Those that nobody has decided, and those that were told and are over. `rows` asks the store."""
    totals = {row["cluster"]: waiting_in([row]).headline or "" for row in rows(_TOTALS)}
    for row in list(rows(_UNDECIDED)):
        yield _undecided(row, totals[row["cluster"]])
    yield from map(_over, rows(_OVER))


def _undecided(row: NamedValues, total: str) -> Alert:
    own = Waiting(
        lost=int(row["records_lost"]),
        lost_since=row["since"],
        at_risk=int(row["records_at_risk"]),
        at_risk_since=row["first_told_at"],
        possible=int(row["records_possible"]),
        possible_since=row["first_told_at"],
    )
    held = ", ".join(map(str, row["held_by"]))
    where = f"The newest audit that tells of them saw them on broker {held}." if held else "No disk holds them now."
    groups = f"Consumer groups had read past them: {', '.join(row['groups_affected'])}."
    return Alert(
        # Of stretches that come or get worse the moment is new, and so is the alert; one that is seen again is no news.
        key=AlertKey(
            row["cluster"], row["loss_id"], f"{row['newest_at'].astimezone(UTC).isoformat()}/{row['reopenings']}"
        ),
        severity="warning" if row["state"] == "possible" else "critical",
        code="",
        name=LOSS,
        subject={"topic": row["topic"], "partition": str(row["partition"])},
        explanation=(
            f"Offsets [{row['start_offset']}, {row['end_offset']}) of {row['topic']}-{row['partition']}, "
            f"{_epoch(row['leader_epoch'])}.",
            where,
            row["cause"],
            *((groups,) if row["groups_affected"] else ()),
        ),
        records=int(row["records"]),
        next=f'tidegauge losses accept {row["loss_id"]} --note "why"',
        began_at=row["since"],
        headline=own.headline or "",
        cluster_headline=total,
    )


def _epoch(leader_epoch: int | None) -> str:
    return "written without a leader epoch" if leader_epoch is None else f"written under leader epoch {leader_epoch}"


def _over(row: NamedValues) -> Alert:
    if row["state"] == "back":
        why = "the same records are on the leader again"
    else:
        why = f"{row['decided_by']} decided it ({row['state'].replace('_', ' ')}): {row['note']}"
    return Alert(
        key=AlertKey(row["cluster"], row["loss_id"], row["opening"]),
        severity="critical",
        code="",
        name=LOSS,
        subject={"topic": row["topic"], "partition": str(row["partition"])},
        explanation=(why,),
        began_at=row["first_told_at"],
        resolved_at=row["over_at"],
    )
