"""Refused snapshots as alerts: contradictions of a cluster's name, in; alerts that begin and end, out.

The rule that must hold: one lasts until somebody has said which cluster it is, whatever is audited meanwhile; an id
that comes back after that is a new alert.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC
from hashlib import sha256
from typing import Any, Final

from spark_jobs.store.identity import settling
from tidegauge.alerts.model import OTHER_CLUSTER, Alert, AlertKey

_ALL: Final = """
SELECT cluster, cluster_id, opening, known_cluster_id, snapshot_id, place, captured_at, refusals, began_at, settled_at
FROM tidegauge.v_cluster_contradiction
"""


def alerts(rows: Any) -> Iterator[Alert]:
    """Those that nobody has settled, and those that somebody has. `rows` asks the store."""
    return map(_alert, rows(_ALL))


def _alert(row: Mapping[str, Any]) -> Alert:
    again = f" {row['refusals']} snapshots were refused so far." if row["refusals"] > 1 else ""
    return Alert(
        # A hash, since what a snapshot says of itself may be of any length and hold any characters.
        key=AlertKey(
            row["cluster"], "cluster-" + sha256(row["cluster_id"].encode()).hexdigest()[:16], str(row["opening"])
        ),
        severity="critical",
        code="",
        name=OTHER_CLUSTER,
        subject={"cluster_id": row["cluster_id"]},
        explanation=(
            f"Snapshot {row['snapshot_id']} at {row['place'] or 'a place not known'}, captured at "
            f"{row['captured_at'].astimezone(UTC):%Y-%m-%d %H:%M} UTC, says that it is of {row['cluster']}, and is of "
            f"cluster.id {row['cluster_id']}; {row['cluster']} is {row['known_cluster_id']}.",
            f"It was refused: nothing of it is published, and it resolved no breach.{again}",
            "Somebody gave it the wrong name, rebuilt the cluster, or made it up.",
        ),
        next=f"{settling(row['cluster'], row['cluster_id'])} --rebuilt, or --not-ours",
        began_at=row["began_at"],
        resolved_at=row["settled_at"],
    )
