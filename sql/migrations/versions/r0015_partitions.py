"""Findings and the large facts by month of their run (`r0015_partitions.sql`): retention empties a month at once.

Revision ID: r0015
Revises: r0013
"""

from pathlib import Path

from alembic import op

revision = "r0015"
down_revision = "r0013"
branch_labels = None
depends_on = None

_HERE = Path(__file__).parent
_LARGE = (
    "finding", "segments", "replicas", "partitions", "epoch_spans", "divergences", "producers", "sequence_gaps",
    "transactions", "partition_changes", "committed_offsets", "index_files", "remote_segments", "changes",
    "transaction_ends", "transaction_outcomes", "partition_directories", "metadata_entries",
)  # fmt: skip
"""What grows with replicas, segments or history. The others have a row a broker, a topic, a group, or fewer."""

_CONVERT = """
DO $$
DECLARE
    old_oid oid := 'tidegauge.{table}'::regclass;
    owner oid := (SELECT relowner FROM pg_class WHERE oid = 'tidegauge.{table}'::regclass);
    indices text[];
    foreign_keys text[];
    primary_key text;
    given record;
    each text;
BEGIN
    SELECT array_agg(replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ')) INTO indices
    FROM pg_index WHERE indrelid = old_oid AND NOT indisprimary;
    SELECT pg_get_constraintdef(oid) INTO primary_key FROM pg_constraint WHERE conrelid = old_oid AND contype = 'p';
    SELECT array_agg(pg_get_constraintdef(oid)) INTO foreign_keys FROM pg_constraint
    WHERE conrelid = old_oid AND contype = 'f' AND conparentid = 0;
    {turn}
    FOREACH each IN ARRAY coalesce(indices, '{{}}') LOOP
        EXECUTE each;
    END LOOP;
    IF primary_key IS NOT NULL THEN
        EXECUTE 'ALTER TABLE tidegauge.{table} ADD ' || primary_key;
    END IF;
    FOREACH each IN ARRAY coalesce(foreign_keys, '{{}}') LOOP
        EXECUTE 'ALTER TABLE tidegauge.{table} ADD ' || each;
    END LOOP;
END
$$
"""
"""`turn` makes `table` anew; what belongs to it is put back: an index that a partition has already is taken over."""

_RIGHTS = """
    FOR given IN SELECT a.grantee::regrole::text AS grantee, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = old_oid AND a.grantee NOT IN (0, owner) LOOP
        EXECUTE format('GRANT %s ON tidegauge.{new} TO %s', given.privilege_type, given.grantee);
    END LOOP;
"""
_UP = """
    ALTER TABLE tidegauge.{table} RENAME TO {table}_default;
    FOR each IN SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = old_oid LOOP
        EXECUTE format('ALTER INDEX tidegauge.%I RENAME TO %I', each, each || '_default');
    END LOOP;
    CREATE TABLE tidegauge.{table} (LIKE tidegauge.{table}_default INCLUDING ALL EXCLUDING INDEXES)
        PARTITION BY RANGE (run_id);
    ALTER TABLE tidegauge.{table} ATTACH PARTITION tidegauge.{table}_default DEFAULT;
"""
_DOWN = """
    CREATE TABLE tidegauge.{table}_plain (LIKE tidegauge.{table} INCLUDING ALL EXCLUDING INDEXES);
    EXECUTE (SELECT format('INSERT INTO tidegauge.{table}_plain (%1$s) SELECT %1$s FROM tidegauge.{table}',
                           string_agg(quote_ident(attname), ', ' ORDER BY attnum))
             FROM pg_attribute WHERE attrelid = old_oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '');
    {rights}
    DROP TABLE tidegauge.{table};
    ALTER TABLE tidegauge.{table}_plain RENAME TO {table};
"""
_DROP_VIEWS = """
DO $$
DECLARE
    view_name text;
BEGIN
    FOR view_name IN SELECT viewname FROM pg_views WHERE schemaname = 'tidegauge' LOOP
        EXECUTE format('DROP VIEW IF EXISTS tidegauge.%I CASCADE', view_name);
    END LOOP;
END
$$
"""


def upgrade() -> None:
    """The tables, which keep their rows where they are; the functions; the first months."""
    _run(_DROP_VIEWS)  # they go by the table's identity, not by its name, and are made anew afterwards
    for table in _LARGE:
        turn = _UP.format(table=table) + _RIGHTS.format(new=table)
        _run(_CONVERT.format(table=table, turn=turn))
    _run((_HERE / "r0015_partitions.sql").read_text(encoding="utf-8"))
    _run("SELECT tidegauge.make_partitions()")


def downgrade() -> None:
    """One table each again, with all rows."""
    _run(_DROP_VIEWS)
    for table in _LARGE:
        turn = _DOWN.format(table=table, rights=_RIGHTS.format(new=f"{table}_plain"))
        _run(_CONVERT.format(table=table, turn=turn))
    _run("DROP FUNCTION tidegauge.make_partitions()")
    _run("DROP FUNCTION tidegauge.empty_partitions()")


def _run(statement: str) -> None:
    op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
