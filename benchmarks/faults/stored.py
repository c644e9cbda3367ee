"""What a store holds of one snapshot, as JSON: a program of its own, for it must run as who owns the store.

    python -m benchmarks.faults.stored CLUSTER SNAPSHOT_ID [URL]

It uses the embedded Postgres of TIDEGAUGE_HOME, so it also shows that the next command can.
"""

import json
import sys
from typing import Any, Final

import psycopg2.extras

from tidegauge import store
from tidegauge.embedded.store_in_use import store_at

_RUNS: Final = "SELECT run_id, status FROM tidegauge.audit_run WHERE (cluster, snapshot_id) = (%s, %s)"
_OF_RUN: Final = {
    "invariants": """SELECT code, verdict, breached, unknown FROM tidegauge.invariant_result
                     WHERE run_id = %s ORDER BY code""",
    "breaches": "SELECT breach_id, code FROM tidegauge.finding WHERE run_id = %s ORDER BY breach_id",
    "losses": """SELECT topic, partition, start_offset, end_offset, records, state FROM tidegauge.loss
                 WHERE run_id = %s ORDER BY topic, partition, start_offset, end_offset, state""",
}
_OPEN: Final = "SELECT breach_id FROM tidegauge.breach WHERE cluster = %s AND state <> 'resolved' ORDER BY breach_id"
_OF_FAILED: Final = """
SELECT count(*) AS n FROM tidegauge.staged_part JOIN tidegauge.audit_run USING (run_id) WHERE status = 'failed'
"""


def stored(url: str, cluster: str, snapshot_id: str) -> dict[str, Any]:
    """Runs of a snapshot by their status, what the published one found, and what is open of the cluster."""
    store.migrate(url)
    with (
        store.connect(url, "look at runs") as connection,
        connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor,
    ):

        def rows(query: str, *parameters: object) -> list[dict[str, Any]]:
            cursor.execute(query, parameters)
            return [dict(row) for row in cursor.fetchall()]

        runs: dict[str, list[str]] = {}
        for row in rows(_RUNS, cluster, snapshot_id):
            runs.setdefault(row["status"], []).append(row["run_id"])
        published = runs.get("published", [""])[0]
        return {
            "runs": runs,
            "found": {name: rows(query, published) for name, query in _OF_RUN.items()},
            "open": [row["breach_id"] for row in rows(_OPEN, cluster)],
            "facts_of_failed": rows(_OF_FAILED)[0]["n"],
        }


def main() -> None:
    """Prints it."""
    cluster, snapshot_id, *url = sys.argv[1:]
    with store_at(url[0] if url else None) as where:
        print(json.dumps(stored(where, cluster, snapshot_id)))


if __name__ == "__main__":
    main()
