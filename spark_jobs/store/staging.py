"""Facts in, rows of a run that nobody sees yet out.

The rule that must hold: a part of a relation is staged once. Its marker and its rows are of one transaction, so a task
that is tried again, or run twice at once, finds either nothing or everything.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import psycopg2
import pyarrow as pa
from psycopg2 import sql

from spark_jobs.errors import StoreError
from spark_jobs.relations import RELATIONS
from spark_jobs.store.connection import connect, normalised, shown
from spark_jobs.store.rows import CopyStream

_STATUS = "SELECT status FROM tidegauge.audit_run WHERE run_id = %s FOR SHARE"
_MARK = """
INSERT INTO tidegauge.staged_part (run_id, relation, part, rows) VALUES (%s, %s, %s, 0)
ON CONFLICT DO NOTHING RETURNING part
"""


def stage(
    url: str,
    run_id: str,
    relation_name: str,
    rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
    *,
    part: str = "all",
) -> int:
    """Stages one part of a relation by COPY; returns its number of rows, now or when it was staged before.

    Safe for many tasks at once, each with parts of its own, and for the same part twice: the second changes nothing and
    does not read `rows`. Raises `StoreError`, also when the run is not open (published, discarded, or replaced by
    another audit of the same snapshot); what `rows` raises comes out as it is.
    """
    where = normalised(url)
    relation = RELATIONS[relation_name]
    with connect(where, f"take facts ({relation_name}, part {part})") as connection, connection.cursor() as cursor:
        _require_staging(cursor, run_id, shown(where))
        cursor.execute(_MARK, (run_id, relation_name, part))
        if cursor.fetchone() is None:
            key = (run_id, relation_name, part)
            cursor.execute("SELECT rows FROM tidegauge.staged_part WHERE (run_id, relation, part) = (%s, %s, %s)", key)
            return int(cursor.fetchone()[0])
        stream = CopyStream(relation, run_id, _batches(rows))
        columns = sql.SQL(", ").join(map(sql.Identifier, ("run_id", *relation.column_names)))
        copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
            sql.Identifier("tidegauge", relation_name), columns
        )
        try:
            cursor.copy_expert(copy, stream, size=1 << 16)
        except psycopg2.Error:
            if stream.failure is not None:
                raise stream.failure from None
            raise
        count = "UPDATE tidegauge.staged_part SET rows = %s WHERE (run_id, relation, part) = (%s, %s, %s)"
        cursor.execute(count, (stream.rows, run_id, relation_name, part))
        return stream.rows


def _require_staging(cursor: Any, run_id: str, store: str) -> None:
    """Holds the run where it is until the caller's transaction ends: nobody publishes or removes it meanwhile."""
    cursor.execute(_STATUS, (run_id,))
    found = cursor.fetchone()
    if found is None or found[0] != "staging":
        state = "is not there" if found is None else f"is {found[0]}"
        raise StoreError(
            f"Run {run_id} in the store at {store} {state}, so it takes no facts: another audit of the same snapshot "
            "replaced it, or it was given up. Start the audit again."
        )


def _batches(rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if isinstance(rows, pa.RecordBatch):
        return iter((rows,))
    if isinstance(rows, pa.Table):
        return iter(rows.to_batches(max_chunksize=16384))
    return iter(rows)
