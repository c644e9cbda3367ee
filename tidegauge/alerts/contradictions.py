"""Refused snapshots as alerts: contradictions of a cluster's name, and dates in the future, in; alerts out.

One lasts until somebody has said what it is, whatever is audited meanwhile; what comes back after that is a new alert.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from tidegauge.alerts.model import DATED_AHEAD, OTHER_CLUSTER, Alert, AlertKey
from tidegauge.store.dated_ahead import settling_date
from tidegauge.store.identity import settling

_OTHER_CLUSTERS: Final = """
SELECT cluster, cluster_id, opening, known_cluster_id, snapshot_id, place, captured_at, refusals, began_at, settled_at
FROM tidegauge.v_cluster_contradiction
"""
_AHEAD: Final = """
SELECT cluster, opening, snapshot_id, place, claimed_at_utc, believed_at, met_by, began_at, times_met, settled_at
FROM tidegauge.v_dated_ahead
"""


def alerts(rows: Any) -> Iterator[Alert]:
    """Those that nobody has settled, and those that somebody has. `rows` asks the store."""
    yield from map(_of_another_cluster, rows(_OTHER_CLUSTERS))
    yield from map(_dated_ahead, rows(_AHEAD))


def _of_another_cluster(row: Mapping[str, Any]) -> Alert:
    again = f" {row['refusals']} snapshots were refused so far." if row["refusals"] > 1 else ""
    return Alert(
        # A hash, since what a snapshot says of itself may be of any length and hold any characters.
        key=AlertKey(
            row["cluster"], "cluster-" + sha256(row["cluster_id"].encode()).hexdigest()[:16], str(row["opening"])
        ),
        severity="critical",
        name=OTHER_CLUSTER,
        subject={"cluster_id": row["cluster_id"]},
        explanation=(
            f"Snapshot {row['snapshot_id']} at {_place(row)}, captured at {_instant(row['captured_at'])}, says that it "
            f"is of {row['cluster']}, and is of cluster.id {row['cluster_id']}; {row['cluster']} is "
            f"{row['known_cluster_id']}.",
            f"It was refused: nothing of it is published, and it resolved no breach.{again}",
            "Somebody gave it the wrong name, rebuilt the cluster, or made it up.",
        ),
        next=f"{settling(row['cluster'], row['cluster_id'])} --rebuilt, or --not-ours",
        began_at=row["began_at"],
        resolved_at=row["settled_at"],
    )


def _dated_ahead(row: Mapping[str, Any]) -> Alert:
    again = f" Such snapshots were met {row['times_met']} times so far." if row["times_met"] > 1 else ""
    return Alert(
        key=AlertKey(row["cluster"], "dated-ahead", str(row["opening"])),
        severity="critical",
        name=DATED_AHEAD,
        subject={},
        explanation=(
            f"Snapshot {row['snapshot_id']} at {_place(row)} says that it was captured at "
            f"{_instant(row['claimed_at_utc'].replace(tzinfo=UTC))}; it was {_instant(row['believed_at'])} when "
            f"{row['met_by']} met it.",
            f"No audit takes it, it is nobody's latest or earlier snapshot, and it lets none be removed.{again}",
            "A clock is wrong, of who captured it or of who audits, or somebody made the date up.",
        ),
        next=f"Set the clock or remove the snapshot, then {settling_date(row['cluster'])}",
        began_at=row["began_at"],
        resolved_at=row["settled_at"],
    )


def _place(row: Mapping[str, Any]) -> str:
    return row["place"] or "a place not known"


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
