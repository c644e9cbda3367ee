"""The life of each breach of a cluster, worked out from the findings of all its published runs.

The rules that must hold: a cluster's history is that of its snapshots, in the order in which they were captured,
whatever the order in which they were audited; of each snapshot the run that was published last speaks. A breach is
resolved by the first later run that judged its subject and did not find it, never by one that could not judge: one
whose invariant was unknown, that missed a broker which the breach names, or that says itself that it could not decide.

A run about the newest snapshot only carries lives on, so it costs what it found and what was open, however long the
history is. Any other run may change what came after it: then every life is worked out anew, which comes to the same.
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

_JUDGES: Final = "CASE WHEN r.undecided IS NULL THEN i.unknown = 0 ELSE {breach_id} <> ALL (r.undecided) END"
_BROKERS: Final = """
           ARRAY(SELECT ({subject} ->> key)::integer FROM unnest(ARRAY['broker_id', 'leader_id', 'follower_id']) AS key
                 WHERE jsonb_typeof({subject} -> key) = 'number')
""".strip()

LIFE: Final = f"""
run AS (  -- one for each snapshot, numbered in the order of capture
    SELECT run_id, undecided, missing_brokers, row_number() OVER (ORDER BY captured_at, snapshot_id) AS n
    FROM (SELECT DISTINCT ON (snapshot_id) * FROM tidegauge.audit_run
          WHERE cluster = %(cluster)s AND (status = 'published' OR run_id = %(run_id)s)
          ORDER BY snapshot_id, published_at DESC NULLS FIRST, run_id DESC) AS latest_of_snapshot
), sight AS (
    SELECT f.breach_id, f.code, r.run_id, r.n, lead(r.n) OVER (PARTITION BY f.breach_id ORDER BY r.n) AS next_n,
           {_BROKERS.format(subject="f.subject")} AS brokers
    FROM tidegauge.finding f JOIN run r ON r.run_id = f.run_id
), ended AS (  -- the run after a sight, and before the next one, that resolved the breach
    SELECT s.*, CASE WHEN s.next_n = s.n + 1 THEN NULL ELSE (
               SELECT min(r.n) FROM run r JOIN tidegauge.invariant_result i ON i.run_id = r.run_id AND i.code = s.code
               WHERE r.n > s.n AND (s.next_n IS NULL OR r.n < s.next_n)
                 AND {_JUDGES.format(breach_id="s.breach_id")}
                 AND NOT s.brokers && coalesce(r.missing_brokers, '{{}}')) END AS resolved_n
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

_IS_NEWEST: Final = """
SELECT NOT EXISTS (
    SELECT FROM tidegauge.audit_run a WHERE a.cluster = r.cluster AND a.status = 'published' AND a.run_id <> r.run_id
      AND (a.snapshot_id = r.snapshot_id OR (a.captured_at, a.snapshot_id) > (r.captured_at, r.snapshot_id)))
FROM tidegauge.audit_run r WHERE r.run_id = %(run_id)s
"""
_FOUND: Final = f"""
INSERT INTO tidegauge.breach AS b (cluster, breach_id, {_COLUMNS})
SELECT %(cluster)s, f.breach_id,
       CASE WHEN coalesce(old.state, 'resolved') = 'resolved' THEN 'open' ELSE 'still_open' END,
       coalesce(old.first_seen_run, f.run_id),
       CASE WHEN coalesce(old.state, 'resolved') = 'resolved' THEN f.run_id ELSE old.opened_run END,
       f.run_id, NULL,
       coalesce(old.times_opened, 0) + (coalesce(old.state, 'resolved') = 'resolved')::integer,
       {", ".join("f." + name for name in _CONTENT)}
FROM tidegauge.finding f
LEFT JOIN tidegauge.breach old ON old.cluster = %(cluster)s AND old.breach_id = f.breach_id
WHERE f.run_id = %(run_id)s
ON CONFLICT (cluster, breach_id) DO UPDATE SET ({_COLUMNS}) = ({_NEW})
"""
_NOT_FOUND: Final = f"""
UPDATE tidegauge.breach AS b
SET state = CASE WHEN l.resolves THEN 'resolved' ELSE 'still_open' END,
    resolved_run = CASE WHEN l.resolves THEN %(run_id)s END
FROM (
    SELECT o.breach_id,
           i.run_id IS NOT NULL AND {_JUDGES.format(breach_id="o.breach_id")}
           AND NOT {_BROKERS.format(subject="o.subject")} && coalesce(r.missing_brokers, '{{}}') AS resolves
    FROM tidegauge.breach o JOIN tidegauge.audit_run r ON r.run_id = %(run_id)s
    LEFT JOIN tidegauge.invariant_result i ON i.run_id = r.run_id AND i.code = o.code
    WHERE o.cluster = %(cluster)s AND o.state <> 'resolved' AND o.last_seen_run <> %(run_id)s) AS l
WHERE b.cluster = %(cluster)s AND b.breach_id = l.breach_id AND (l.resolves OR b.state <> 'still_open')
"""


def carry_on_breaches(cursor: Any, cluster: str, run_id: str) -> None:
    """Writes `breach` for a cluster that one more run is published of, in the caller's transaction. No other run may
    have been removed since it was last written: then `renew_breaches` is what is needed. The caller holds the cluster's
    lock.
    """
    values = {"cluster": cluster, "run_id": run_id}
    cursor.execute(_IS_NEWEST, values)
    if cursor.fetchone() != (True,):
        renew_breaches(cursor, cluster, run_id)
        return
    cursor.execute(_FOUND, values)
    cursor.execute(_NOT_FOUND, values)


def renew_breaches(cursor: Any, cluster: str, run_id: str | None) -> None:
    """Writes `breach` for a cluster anew, counting `run_id` as published if one is given, in the caller's transaction.

    The caller holds the cluster's lock, so that no other run is published meanwhile.
    """
    cursor.execute(_LIVES, {"cluster": cluster, "run_id": run_id})


def renew_summaries(cursor: Any, cluster: str, run_id: str | None) -> None:
    """Counts a cluster anew for the views that count (`v_cluster`, `v_topic`, `v_breach_count`), in the caller's
    transaction; `run_id` counts as published. After `renew_breaches`, and after whatever removes a run.
    """
    cursor.execute("SELECT tidegauge.renew_summaries(%s, %s)", (cluster, run_id))
