"""The life of each breach of a cluster, worked out anew from the findings of all its published runs.

The rules that must hold: a cluster's history is that of its snapshots, in the order in which they were captured,
whatever the order in which they were audited; of each snapshot the run that was published last speaks. A breach is
resolved by the first later run that judged its subject and did not find it, never by one that could not judge: one
whose invariant was unknown, that missed a broker which the breach names, or that says itself that it could not decide.
"""

from typing import Any, Final

_CONTENT: Final = (
    "code", "name", "severity", "subject", "start_offset", "end_offset", "records", "explanation", "evidence",
    "implied_by", "next", "points_to", "believe", "diagnosis",
)  # fmt: skip
_LIFE: Final = ("state", "first_seen_run", "opened_run", "last_seen_run", "resolved_run", "times_opened")
_COLUMNS: Final = ", ".join((*_LIFE, *_CONTENT))
_OLD: Final = ", ".join(f"b.{name}" for name in (*_LIFE, *_CONTENT))
_NEW: Final = ", ".join(f"excluded.{name}" for name in (*_LIFE, *_CONTENT))

LIFE: Final = """
run AS (  -- one for each snapshot, numbered in the order of capture
    SELECT run_id, undecided, missing_brokers, row_number() OVER (ORDER BY captured_at, snapshot_id) AS n
    FROM (SELECT DISTINCT ON (snapshot_id) * FROM tidegauge.audit_run
          WHERE cluster = %(cluster)s AND (status = 'published' OR run_id = %(run_id)s)
          ORDER BY snapshot_id, published_at DESC NULLS FIRST, run_id DESC) AS latest_of_snapshot
), sight AS (
    SELECT f.breach_id, f.code, r.run_id, r.n, lead(r.n) OVER (PARTITION BY f.breach_id ORDER BY r.n) AS next_n,
           ARRAY(SELECT (f.subject ->> key)::integer FROM unnest(ARRAY['broker_id', 'leader_id', 'follower_id']) AS key
                 WHERE jsonb_typeof(f.subject -> key) = 'number') AS brokers
    FROM tidegauge.finding f JOIN run r ON r.run_id = f.run_id
), ended AS (  -- the run after a sight, and before the next one, that resolved the breach
    SELECT s.*, CASE WHEN s.next_n = s.n + 1 THEN NULL ELSE (
               SELECT min(r.n) FROM run r JOIN tidegauge.invariant_result i ON i.run_id = r.run_id AND i.code = s.code
               WHERE r.n > s.n AND (s.next_n IS NULL OR r.n < s.next_n)
                 AND CASE WHEN r.undecided IS NULL THEN i.unknown = 0 ELSE s.breach_id <> ALL (r.undecided) END
                 AND NOT s.brokers && coalesce(r.missing_brokers, '{}')) END AS resolved_n
    FROM sight s
), episode AS (
    SELECT e.*, lag(n) OVER life IS NULL OR lag(resolved_n) OVER life IS NOT NULL AS opens
    FROM ended e WINDOW life AS (PARTITION BY breach_id ORDER BY n)
), life AS (
    SELECT breach_id, min(n) AS first_n, max(n) AS last_n, max(n) FILTER (WHERE opens) AS opened_n,
           count(*) FILTER (WHERE opens) AS times_opened, max(resolved_n) FILTER (WHERE next_n IS NULL) AS resolved_n
    FROM episode GROUP BY breach_id
)"""
"""The parts of a query: `run`, the speaking runs in their order; `sight` and `episode`, a row for each run that saw a
breach; `life`, one for each breach. Parameters: `cluster`, and `run_id`, a run that counts as published."""

_LIVES: Final = f"""
WITH {LIFE}, outcome AS (
    SELECT l.breach_id, f.run_id AS first_seen_run, o.run_id AS opened_run, s.run_id AS last_seen_run,
           e.run_id AS resolved_run, l.times_opened,
           CASE WHEN l.resolved_n IS NOT NULL THEN 'resolved'
                WHEN l.opened_n = (SELECT max(n) FROM run) THEN 'open'
                ELSE 'still_open' END AS state
    FROM life l JOIN run f ON f.n = l.first_n JOIN run o ON o.n = l.opened_n JOIN run s ON s.n = l.last_n
    LEFT JOIN run e ON e.n = l.resolved_n
), gone AS (
    DELETE FROM tidegauge.breach AS b
    WHERE cluster = %(cluster)s AND NOT EXISTS (SELECT FROM outcome o WHERE o.breach_id = b.breach_id)
)
INSERT INTO tidegauge.breach AS b (cluster, breach_id, {_COLUMNS})
SELECT %(cluster)s, outcome.breach_id, {", ".join(_LIFE)}, {", ".join("f." + name for name in _CONTENT)}
FROM outcome JOIN tidegauge.finding f ON f.run_id = last_seen_run AND f.breach_id = outcome.breach_id
ON CONFLICT (cluster, breach_id) DO UPDATE SET ({_COLUMNS}) = ({_NEW})
WHERE ({_OLD}) IS DISTINCT FROM ({_NEW})
"""


def renew_breaches(cursor: Any, cluster: str, run_id: str | None) -> None:
    """Writes `breach` for a cluster, counting `run_id` as published if one is given, in the caller's transaction.

    The caller holds the cluster's lock, so that no other run is published meanwhile.
    """
    cursor.execute(_LIVES, {"cluster": cluster, "run_id": run_id})


def renew_summaries(cursor: Any, cluster: str, run_id: str | None) -> None:
    """Counts a cluster anew for the views that count (`v_cluster`, `v_topic`, `v_breach_count`), in the caller's
    transaction; `run_id` counts as published. After `renew_breaches`, and after whatever removes a run.
    """
    cursor.execute("SELECT tidegauge.renew_summaries(%s, %s)", (cluster, run_id))
