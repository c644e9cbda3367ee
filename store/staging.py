"""Facts in, rows of a run that nobody sees yet out.

The rule that must hold: a part of a relation is staged once. Its marker and its rows are of one transaction, so a task
that is tried again, or run twice at once, finds either nothing or everything.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import psycopg2
import pyarrow as pa
from psycopg2 import sql

from tidegauge.relations import RELATIONS
from tidegauge.runs.errors import StoreError
from tidegauge.runs.signals import held_back
from tidegauge.runs.store_address import normalised, shown
from tidegauge.store.connection import connect, errors_told_once
from tidegauge.store.rows import CopyStream

Rows: TypeAlias = "pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]"

_STATUS = "SELECT run_id, status FROM tidegauge.audit_run WHERE run_id = ANY(%s) FOR SHARE"
_MARK = """
INSERT INTO tidegauge.staged_part (run_id, relation, part, rows) SELECT run_id, %s, %s, 0 FROM unnest(%s) AS run_id
ON CONFLICT DO NOTHING RETURNING run_id
"""
_COUNT = """
UPDATE tidegauge.staged_part AS p SET rows = c.rows FROM unnest(%s, %s) AS c(run_id, rows)
WHERE (p.run_id, p.relation, p.part) = (c.run_id, %s, %s)
"""
_COUNTED = "SELECT run_id, rows FROM tidegauge.staged_part WHERE run_id = ANY(%s) AND (relation, part) = (%s, %s)"


def stage(url: str, run_id: str, relation_name: str, rows: Rows, *, part: str = "all") -> int:
    """Stages one part of a relation of one run; returns its number of rows. See `stage_together`."""
    return stage_together(url, relation_name, {run_id: rows}, part=part)[run_id]


def stage_together(url: str, relation_name: str, rows: Mapping[str, Rows], *, part: str = "all") -> Mapping[str, int]:
    """Stages one part of a relation of each run, by one COPY; returns each part's number of rows, now or when it was
    staged before.

    Safe for many tasks at once, each with parts of its own, and for the same part twice: the second changes nothing and
    does not read its rows. Raises `StoreError`, also when a run is not open (published, discarded, or replaced by
    another audit of the same snapshot); what `rows` raise comes out as it is.
    """
    where = normalised(url)
    relation = RELATIONS[relation_name]
    run_ids = sorted(rows)
    with connect(where, f"take facts ({relation_name}, part {part})") as connection, connection.cursor() as cursor:
        _require_staging(cursor, run_ids, shown(where))
        cursor.execute(_MARK, (relation_name, part, run_ids))
        new = sorted(run_id for (run_id,) in cursor.fetchall())
        if new:
            columns = sql.SQL(", ").join(map(sql.Identifier, ("run_id", *relation.column_names)))
            copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
                sql.Identifier("tidegauge", relation_name), columns
            )
            batches = ((run_id, batch) for run_id in new for batch in _batches(rows[run_id]))
            # What a signal raises within the stream, psycopg2 would tell as an error of the store.
            with held_back() as signals:
                stream = CopyStream(relation, batches, signals)
                try:
                    with errors_told_once():
                        cursor.copy_expert(copy, stream, size=1 << 16)
                except psycopg2.Error:
                    if stream.failure is not None:
                        raise stream.failure from None
                    raise
            cursor.execute(_COUNT, (new, [stream.rows[run_id] for run_id in new], relation_name, part))
        cursor.execute(_COUNTED, (run_ids, relation_name, part))
        return dict(cursor.fetchall())


def _require_staging(cursor: Any, run_ids: list[str], store: str) -> None:
    """Holds the runs where they are until the caller's transaction ends: nobody publishes or removes one meanwhile."""
    cursor.execute(_STATUS, (run_ids,))
    found = dict(cursor.fetchall())
    for run_id in run_ids:
        if found.get(run_id) != "staging":
            state = f"is {found[run_id]}" if run_id in found else "is not there"
            raise StoreError(
                f"Run {run_id} in the store at {store} {state}, so it takes no facts: another audit of the same "
                "snapshot replaced it, or it was given up. Start the audit again."
            )


def _batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    if isinstance(rows, pa.RecordBatch):
        return iter((rows,))
    if isinstance(rows, pa.Table):
        return iter(rows.to_batches(max_chunksize=16384))
    return iter(rows)
