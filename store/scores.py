"""A score in, its rows in the store out.

One transaction; of one ruleset and the same seeds there is one score, the last one, so a task that is tried again
changes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg2.extras import execute_values

from tidegauge.store.connection import connect
from tidegauge.store.rows import json_text, text_value

CLUSTER: Final = "simulated"
"""Simulated worlds have one name together among the clusters."""

_NUMBERS: Final = (
    "worlds", "fault_free_worlds", "scenarios", "snapshots", "live_copies", "fault_free_alarms", "losses",
    "losses_exact", "losses_unseen",
)  # fmt: skip
_INVARIANT: Final = ("code", "name", "should_catch", "caught", "missed", "false_alarms")
_RUN: Final = f"""
INSERT INTO tidegauge.score_run
    (run_id, cluster, ruleset_version, scored_at, first_seed, last_seed, first_sound_seed, last_sound_seed,
     {", ".join(_NUMBERS)}, failures)
VALUES (%(run_id)s, %(cluster)s, %(ruleset_version)s, clock_timestamp(), %(first_seed)s, %(last_seed)s,
        %(first_sound_seed)s, %(last_sound_seed)s, {", ".join(f"%({name})s" for name in _NUMBERS)}, %(failures)s)
"""


def publish_score(
    url: str, score: Mapping[str, Any], *, seeds: Sequence[int] | None, fault_free: Sequence[int] | None
) -> str:
    """Publishes a score (the object that `score.json` holds) and returns its id. `seeds`: first and last, or None.

    Raises `StoreError`. The store must have been migrated.
    """
    run_id = "-".join(["score", score["ruleset_version"], *(_span(ends) for ends in (seeds, fault_free))])
    first, last = seeds or (None, None)
    first_sound, last_sound = fault_free or (None, None)
    with connect(url, "take a score") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('tidegauge:score:' || %s, 0))", (run_id,))
        cursor.execute("DELETE FROM tidegauge.score_run WHERE run_id = %s", (run_id,))
        values = {
            "run_id": run_id,
            "cluster": CLUSTER,
            "ruleset_version": score["ruleset_version"],
            "first_seed": first,
            "last_seed": last,
            "first_sound_seed": first_sound,
            "last_sound_seed": last_sound,
            "failures": json_text(score["failures"]),
            **{name: score[name] for name in _NUMBERS},
        }
        cursor.execute(_RUN, values)
        rows = [(run_id, *(_value(one[name]) for name in _INVARIANT)) for one in score["invariants"]]
        execute_values(cursor, f"INSERT INTO tidegauge.score (run_id, {', '.join(_INVARIANT)}) VALUES %s", rows)
    return run_id


def _span(ends: Sequence[int] | None) -> str:
    return f"{ends[0]}..{ends[1]}" if ends else "none"


def _value(value: object) -> object:
    return text_value(value) if isinstance(value, str) else value
