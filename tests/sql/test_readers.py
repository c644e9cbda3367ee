"""Versions that change the schema one after the other: what an older one still reads, and the way back."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from fastapi.testclient import TestClient

from tests.sql.inventory import inventory
from tests.store.helpers import audit, breach
from tidegauge import sql, store
from tidegauge.cli.main import main
from tidegauge.console.app import create_app
from tidegauge.embedded.postgres import EmbeddedPostgres
from tidegauge.runs.errors import StoreError
from tidegauge.sql.migrations import views
from tidegauge.store import schema
from tidegauge.store.overview import overview

pytestmark = pytest.mark.postgres

SQL = Path(sql.__file__).parent
READERS = Path(__file__).parent / "readers"
"""What each revision that may read a store expects of it."""
NEXT = '''
"""The next version.

Revision ID: r9000
Revises: {head}
"""
from alembic import op
revision, down_revision, branch_labels, depends_on = "r9000", "{head}", None, None

def upgrade():
    op.execute("ALTER TABLE tidegauge.audit_run ADD COLUMN mood text")
    op.execute("CREATE TABLE tidegauge.mood (run_id text)")
    op.execute("{readers}")

def downgrade():
    op.execute("DROP TABLE tidegauge.mood CASCADE")
    op.execute("ALTER TABLE tidegauge.audit_run DROP COLUMN mood CASCADE")
    op.execute("DELETE FROM tidegauge.readable_by WHERE revision = 'r9000'")
'''
KEEPS = "INSERT INTO tidegauge.readable_by VALUES ('r9000')"
NextVersion = Callable[[str], AbstractContextManager[None]]
BREAKS = "UPDATE tidegauge.readable_by SET revision = 'r9000'"


def head() -> str:
    found = ScriptDirectory(str(SQL / "migrations")).get_current_head()
    assert found is not None
    return found


@pytest.fixture
def the_next_version(tmp_path: Path) -> NextVersion:
    """Makes this process the next version of Tidegauge for a block: another migration, and another view."""

    @contextmanager
    def become(readers: str) -> Iterator[None]:
        copied = tmp_path / "sql"
        shutil.copytree(SQL, copied, ignore=shutil.ignore_patterns("__pycache__"))
        next_one = NEXT.format(head=head(), readers=readers)
        (copied / "migrations" / "versions" / "r9000_next.py").write_text(next_one)
        (copied / "views" / "99_v_mood.sql").write_text(
            "CREATE VIEW tidegauge.v_mood AS SELECT cluster, mood FROM tidegauge.audit_run;\n"
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sql, "__file__", str(copied / "__init__.py"))
            patch.setattr(views, "VIEWS", copied / "views")
            schema._carried.cache_clear()
            yield
        schema._carried.cache_clear()

    return become


def test_a_console_that_was_rolled_back_reads_a_newer_store(
    empty: str, the_next_version: NextVersion, capsys: pytest.CaptureFixture[str]
) -> None:
    store.migrate(empty)
    audit(empty, "payments", "s1", breach("b1"))
    with the_next_version(KEEPS):
        store.migrate(empty)
        with TestClient(create_app(empty)) as console:
            assert console.get("/readyz").status_code == 200
    with TestClient(create_app(empty)) as console:
        assert console.get("/readyz").json() == {"status": "ready"}
        assert "1 critical" in " ".join(console.get("/clusters/payments").text.split())
    assert overview(empty).problem is None
    with pytest.raises(store.NewerStoreError, match=r"A newer version .* publishes nothing"):
        store.migrate(empty)
    main(["store", "migrate", "--store", empty], standalone_mode=False)
    assert capsys.readouterr().out.startswith("Nothing was changed. A newer version of Tidegauge made the store")


def test_who_only_writes_rows_is_told_that_a_store_is_newer(
    own_server: EmbeddedPostgres, the_next_version: NextVersion
) -> None:
    url = own_server.fresh_database("of_a_writer")
    with the_next_version(KEEPS):
        store.migrate(url)
        store.grant_roles(url)
    with store.connect(url, "make a login") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE audits LOGIN IN ROLE tidegauge_writer")
    with pytest.raises(store.NewerStoreError):
        store.migrate(url.replace("postgres@", "audits@"))


def test_a_newer_store_that_says_otherwise_is_not_read(empty: str, the_next_version: NextVersion) -> None:
    with the_next_version(BREAKS):
        store.migrate(empty)
    with TestClient(create_app(empty)) as console:
        answer = console.get("/readyz")
    assert answer.status_code == 503
    assert "its tables are of r9000" in answer.json()["reason"]
    with pytest.raises(StoreError, match="Another version") as refused:
        store.migrate(empty)
    assert not isinstance(refused.value, store.NewerStoreError)


def test_a_store_full_of_runs_goes_up_and_back_and_up_again(empty: str, the_next_version: NextVersion) -> None:
    store.migrate(empty)
    for number in range(3):
        audit(empty, "payments", f"s{number}", breach("b1"))
    before, told = inventory(empty), pages(empty)
    with the_next_version(KEEPS):
        store.migrate(empty)
        upgraded = inventory(empty)
        assert store.downgrade(empty, head(), dry_run=True) == ["mood"]
        assert inventory(empty) == upgraded, "nothing was changed"
        assert store.downgrade(empty, head(), dry_run=False) == ["mood"]
    store.migrate(empty)
    assert (inventory(empty), pages(empty)) == (before, told)


def pages(url: str) -> list[str]:
    with TestClient(create_app(url)) as console:
        found = [console.get(path) for path in ("/clusters/payments", "/runs", "/metrics")]
    assert [answer.status_code for answer in found] == [200, 200, 200]
    return [answer.text for answer in found]


def test_every_older_revision_is_a_way_back(empty: str) -> None:
    store.migrate(empty)
    before = inventory(empty)
    for older in ("r0030", "r0029", "r0025"):
        store.downgrade(empty, older, dry_run=False)
    store.migrate(empty)
    assert inventory(empty) == before


@pytest.mark.parametrize("revision", ["r0099", "r0031'; DROP", ""])
def test_a_way_back_that_nobody_knows_is_refused(empty: str, revision: str) -> None:
    store.migrate(empty)
    with pytest.raises(StoreError, match=r"knows the way back to r0030, .*Nothing was changed"):
        store.downgrade(empty, revision, dry_run=False)


def present(url: str) -> dict[str, list[str]]:
    """What whoever reads a store may build on: views with their columns, and functions that the console may call."""
    with store.connect(url, "be looked at") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, array_agg(column_name::text ORDER BY column_name) FROM information_schema.columns "
            "JOIN pg_views v ON v.schemaname = table_schema AND v.viewname = table_name "
            "WHERE table_schema = 'tidegauge' GROUP BY 1"
        )
        found: dict[str, list[str]] = dict(cursor.fetchall())
        cursor.execute(
            "SELECT proname || '()', ARRAY[pg_get_function_identity_arguments(oid)] FROM pg_proc "
            "WHERE pronamespace = 'tidegauge'::regnamespace AND prosecdef"
        )
        return found | dict(cursor.fetchall())


def test_each_reader_finds_what_it_was_written_for(empty: str) -> None:
    """A revision's file is written with it and never changed after its release: take what `present` says."""
    store.migrate(empty)
    with store.connect(empty, "be looked at") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT revision FROM tidegauge.readable_by")
        readers = {revision for (revision,) in cursor.fetchall()}
    assert head() in readers
    assert {path.stem for path in READERS.glob("*.json")} == readers
    there = present(empty)
    for path in READERS.glob("*.json"):
        for name, parts in json.loads(path.read_text()).items():
            assert name in there, f"{path.stem} reads {name}"
            assert set(parts) <= set(there[name]), f"{path.stem} reads more of {name}"
