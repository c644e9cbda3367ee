"""The schema: from nothing, again, back; and that its fact tables are the relations."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from tests.sql.inventory import inventory, rows
from tidegauge import sql, store
from tidegauge.derivation.fact_files import relation_table
from tidegauge.embedded.postgres import EmbeddedPostgres
from tidegauge.relations import COMMON, LOSSES, RELATIONS, Relation
from tidegauge.runs.errors import StoreError

SQL = Path(sql.__file__).parent
TYPES = {
    "int64": "bigint",
    "int32": "integer",
    "string": "text",
    "bool": "boolean",
    "int32[]": "integer[]",
    "string[]": "text[]",
    "json": "jsonb",
}


@pytest.fixture(scope="module")
def migrated(own_server: EmbeddedPostgres) -> str:
    url = own_server.fresh_database("schema")
    store.migrate(url)
    return url


def columns(url: str, table: str) -> list[tuple[Any, ...]]:
    return rows(
        url,
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        f"tidegauge.{table}",
    )


@pytest.mark.parametrize("relation", RELATIONS.values(), ids=lambda r: r.name)
def test_a_fact_table_has_the_relations_columns_in_its_order(migrated: str, relation: Relation) -> None:
    expected = [("run_id", "text"), *((c.name, TYPES[c.type]) for c in (*COMMON, *relation.columns))]
    assert columns(migrated, relation.name) == expected


def test_the_losses_table_has_the_report_s_columns(migrated: str) -> None:
    assert columns(migrated, "loss") == [("run_id", "text"), *((c.name, TYPES[c.type]) for c in LOSSES.columns)]


def test_every_fact_table_is_found_by_its_run(migrated: str) -> None:
    indexed = rows(
        migrated,
        "SELECT tablename FROM pg_indexes WHERE schemaname = 'tidegauge' AND indexdef LIKE '%%(run_id)' "
        "OR indexdef LIKE '%%(run_id, %%'",
    )
    assert {name for (name,) in indexed} >= RELATIONS.keys()


def test_large_tables_begin_with_two_months_and_each_partition_has_the_indices_of_its_table(migrated: str) -> None:
    months = "to_char(now() AT TIME ZONE 'UTC' + ahead * interval '1 month', 'YYYY_MM')"
    expected = [("default",), *rows(migrated, f"SELECT {months} FROM generate_series(1, 2) AS ahead ORDER BY 1")]
    found: dict[str, dict[str, list[str]]] = {}
    for table, partition, indices in rows(
        migrated,
        "SELECT p.relname, substr(c.relname, length(p.relname) + 2), "
        "ARRAY(SELECT parent.relname::text FROM pg_index x JOIN pg_inherits i ON i.inhrelid = x.indexrelid "
        "      JOIN pg_class parent ON parent.oid = i.inhparent WHERE x.indrelid = c.oid ORDER BY 1) "
        "FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent "
        "WHERE p.relnamespace = 'tidegauge'::regnamespace AND p.relkind = 'p'",
    ):
        found.setdefault(table, {})[partition] = indices
    assert {"finding", "replicas", "isr_members"} < found.keys()
    for table, partitions in found.items():
        assert sorted(partitions) == sorted(name for (name,) in expected), table
        of_table = rows(
            migrated, "SELECT indexname FROM pg_indexes WHERE schemaname = 'tidegauge' AND tablename = %s", table
        )
        assert all(sorted(name for (name,) in of_table) == indices for indices in partitions.values()), table


def test_nobody_calls_what_acts_with_the_owner_s_rights_unless_it_is_granted(migrated: str) -> None:
    of_owners = (
        "SELECT proname, has_function_privilege('public', oid, 'EXECUTE') FROM pg_proc "
        "WHERE pronamespace = 'tidegauge'::regnamespace AND prosecdef ORDER BY 1"
    )
    assert rows(migrated, of_owners) == [
        ("acknowledge", False), ("acknowledge_incident", False), ("count_breaches", False), ("decide_loss", False),
        ("empty_partitions", False), ("make_partitions", False), ("merge_incidents", False),
        ("note_incident_step", False), ("split_incident", False), ("withdraw_acknowledgement", False),
    ]  # fmt: skip


def test_every_view_of_the_folder_is_there_and_named_as_its_file(migrated: str) -> None:
    views = {name for (name,) in rows(migrated, "SELECT viewname FROM pg_views WHERE schemaname = 'tidegauge'")}
    assert views == {path.stem.split("_", 1)[1] for path in (SQL / "views").glob("*.sql")}
    for view in views:
        rows(migrated, f"SELECT * FROM tidegauge.{view}")


def test_a_second_migration_changes_nothing(empty: str) -> None:
    store.migrate(empty)
    before = inventory(empty)
    oids = rows(empty, "SELECT oid, relname FROM pg_class WHERE relkind = 'v' ORDER BY 1")
    store.migrate(empty)
    assert inventory(empty) == before
    assert rows(empty, "SELECT oid, relname FROM pg_class WHERE relkind = 'v' ORDER BY 1") == oids


def test_several_processes_may_migrate_at_once(empty: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(store.migrate, [empty] * 4))
    newest = ScriptDirectory(str(SQL / "migrations")).get_current_head()
    assert rows(empty, "SELECT version_num FROM tidegauge.alembic_version") == [(newest,)]


def test_it_goes_back_to_nothing_and_up_again(empty: str) -> None:
    store.migrate(empty)
    before = inventory(empty)
    configuration = Config()
    configuration.set_main_option("script_location", str(SQL / "migrations"))
    engine = create_engine(empty)
    with engine.begin() as connection:
        configuration.attributes["connection"] = connection
        command.downgrade(configuration, "base")
    engine.dispose()
    left = {name for (name,) in rows(empty, "SELECT tablename FROM pg_tables WHERE schemaname = 'tidegauge'")}
    assert left == {"alembic_version", "view_version"}
    store.migrate(empty)
    assert inventory(empty) == before


def test_changed_views_are_made_again_and_old_ones_go(empty: str) -> None:
    store.migrate(empty)
    engine = create_engine(empty)
    with engine.begin() as connection:
        connection.execute(text("UPDATE tidegauge.view_version SET digest = 'of an older version'"))
        connection.execute(text("CREATE VIEW tidegauge.v_gone AS SELECT 1 AS one"))
    engine.dispose()
    store.migrate(empty)
    assert rows(empty, "SELECT count(*) FROM pg_views WHERE viewname = 'v_gone'") == [(0,)]
    assert rows(empty, "SELECT count(*) FROM tidegauge.v_run") == [(0,)]


@pytest.mark.parametrize("revision", ["r0020", "r9999"], ids=["older", "newer"])
def test_a_store_of_another_version_is_refused_and_left_alone(empty: str, revision: str) -> None:
    store.migrate(empty)
    with store.connect(empty, "pretend") as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE tidegauge.alembic_version SET version_num = %s", (revision,))
        cursor.execute("DELETE FROM tidegauge.readable_by")
    before = inventory(empty)
    with pytest.raises(
        StoreError, match=f"Another version of Tidegauge made the store at .*'{revision}'.*new database"
    ):
        store.migrate(empty)
    assert inventory(empty) == before
    assert rows(empty, "SELECT version_num FROM tidegauge.alembic_version") == [(revision,)]


@pytest.fixture
def reader(migrated: str) -> Iterator[str]:
    """The store's URL as somebody who may only read."""
    script = (SQL / "roles" / "reader.sql").read_text(encoding="utf-8")
    with store.connect(migrated, "make the role") as connection, connection.cursor() as cursor:
        cursor.execute(script)
        cursor.execute(script)
        cursor.execute("DROP ROLE IF EXISTS dashboards")
        cursor.execute("CREATE ROLE dashboards LOGIN IN ROLE tidegauge_reader")
    yield migrated.replace("postgres@", "dashboards@")
    with store.connect(migrated, "remove the role") as connection, connection.cursor() as cursor:
        cursor.execute("DROP ROLE dashboards")
        cursor.execute("DROP OWNED BY tidegauge_reader")
        cursor.execute("DROP ROLE tidegauge_reader")


def test_the_reading_role_reads_views_and_nothing_else(reader: str) -> None:
    for path in (SQL / "views").glob("*.sql"):
        rows(reader, f"SELECT * FROM tidegauge.{path.stem.split('_', 1)[1]} LIMIT 1")
    for forbidden in (
        "SELECT * FROM tidegauge.audit_run",
        "SELECT * FROM tidegauge.replicas",
        "DELETE FROM tidegauge.v_run",
        "CREATE TABLE tidegauge.mine (a int)",
    ):
        with pytest.raises(StoreError, match=r"permission denied|cannot delete"):
            rows(reader, forbidden)


def test_new_views_are_readable_by_the_reading_role(reader: str, migrated: str) -> None:
    with store.connect(migrated, "pretend") as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE tidegauge.view_version SET digest = 'of an older version'")
    store.migrate(migrated)
    assert rows(reader, "SELECT count(*) FROM tidegauge.v_run") == [(0,)]


@pytest.fixture
def writer(migrated: str) -> Iterator[str]:
    """The store's URL as somebody who may write results."""
    store.grant_roles(migrated)
    store.grant_roles(migrated)
    with store.connect(migrated, "make the role") as connection, connection.cursor() as cursor:
        cursor.execute("DROP ROLE IF EXISTS audits")
        cursor.execute("CREATE ROLE audits LOGIN IN ROLE tidegauge_writer")
    yield migrated.replace("postgres@", "audits@")
    with store.connect(migrated, "remove the roles") as connection, connection.cursor() as cursor:
        cursor.execute("DROP ROLE audits")
        for role in ("tidegauge_reader", "tidegauge_writer"):
            cursor.execute(f"DROP OWNED BY {role}")
            cursor.execute(f"DROP ROLE {role}")


def test_the_writing_role_publishes_a_run(writer: str) -> None:
    store.migrate(writer)  # Finds everything as it should be, and needs no right for that.
    key = store.RunKey(cluster="of-the-writer", snapshot_id="s1", ruleset_version="1")
    now = datetime.now(UTC)
    run_id = store.open_run(writer, key, consistency="fuzzy", source="captured", started_at=now, captured_at=now)
    table = relation_table("brokers", [{"broker_id": 1}], cluster=key.cluster, snapshot_id=key.snapshot_id)
    assert store.stage(writer, run_id, "brokers", table) == 1
    report = store.Report(finished_at=now, invariants=[], breaches=[], losses=[], coverage={})
    assert store.publish(writer, run_id, report) == run_id
    assert rows(writer, "SELECT run_id FROM tidegauge.v_run WHERE cluster = %s", key.cluster) == [(run_id,)]


def test_new_views_are_readable_by_the_writing_role(writer: str, migrated: str) -> None:
    """Who sends alerts reads views under it."""
    with store.connect(migrated, "pretend") as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE tidegauge.view_version SET digest = 'of an older version'")
    store.migrate(migrated)
    assert rows(writer, "SELECT count(*) FROM tidegauge.v_breach") == [(0,)]


@pytest.mark.parametrize(
    "forbidden",
    [
        "CREATE TABLE tidegauge.mine (id int)",
        "DROP TABLE tidegauge.breach",
        "ALTER TABLE tidegauge.breach ADD COLUMN mine int",
        "TRUNCATE tidegauge.breach",
        "UPDATE tidegauge.alembic_version SET version_num = 'r0000'",
        "CREATE ROLE mine",
    ],
)
def test_the_writing_role_changes_no_table(writer: str, forbidden: str) -> None:
    with pytest.raises(StoreError, match=r"permission denied|must be owner"):
        rows(writer, forbidden)
