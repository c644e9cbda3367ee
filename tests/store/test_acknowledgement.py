"""Somebody's word on a breach: said twice, replaced, over, withdrawn, and never for a later opening."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.store.helpers import audit, breach, rows
from tidegauge import sql, store
from tidegauge.runs.errors import StoreError

TOMORROW = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


def state(url: str, cluster: str) -> tuple[str, str, str | None]:
    return rows(
        url,
        "SELECT state, found_state, acknowledged_by FROM tidegauge.v_breach WHERE cluster = %s AND breach_id = 'b1'",
        cluster,
    )[0]


@pytest.mark.slow
def test_it_is_acknowledged_until_then_and_said_twice_changes_nothing(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"))
    first = store.acknowledge(url, cluster, "b1", by=" ada ", until=TOMORROW, note="known")
    assert (first.outcome, first.acknowledged_by, first.acknowledged_until) == ("acknowledged", "ada", TOMORROW)
    again = store.acknowledge(url, cluster, "b1", by="ada", until=TOMORROW, note="known")
    assert again.outcome == "already"
    assert again.acknowledged_at == first.acknowledged_at
    assert state(url, cluster) == ("acknowledged", "open", "ada")
    assert rows(url, "SELECT count(*) FROM tidegauge.v_acknowledgement WHERE cluster = %s", cluster) == [(1,)]
    audit(url, cluster, "s2", breach("b1"), day=1)
    assert state(url, cluster) == ("acknowledged", "still_open", "ada")


def test_another_word_replaces_it_and_both_are_kept(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"))
    store.acknowledge(url, cluster, "b1", by="ada", until=TOMORROW)
    second = store.acknowledge(url, cluster, "b1", by="grace", until=None, note="mine")
    assert (second.outcome, second.acknowledged_by, second.acknowledged_until) == ("replaced", "ada", TOMORROW)
    found = rows(
        url,
        "SELECT acknowledged_by, in_force, ended_by FROM tidegauge.v_acknowledgement WHERE cluster = %s "
        "ORDER BY acknowledged_at",
        cluster,
    )
    assert found == [("ada", False, "grace"), ("grace", True, None)]


def test_it_ends_with_its_time_and_can_be_taken_back(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"))
    store.acknowledge(url, cluster, "b1", by="ada", until=TOMORROW)
    with store.connect(url, "let time pass") as connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tidegauge.acknowledgement SET acknowledged_until = now() - interval '1 s' WHERE cluster = %s",
            (cluster,),
        )
    assert state(url, cluster) == ("open", "open", None)
    assert store.acknowledge(url, cluster, "b1", by="ada", until=None).outcome == "acknowledged"
    assert store.withdraw(url, cluster, "b1", by="grace")
    assert not store.withdraw(url, cluster, "b1", by="grace")
    assert state(url, cluster) == ("open", "open", None)


def test_what_is_resolved_and_comes_back_is_news(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"))
    store.acknowledge(url, cluster, "b1", by="ada", until=None)
    audit(url, cluster, "s2", day=1)
    assert state(url, cluster) == ("resolved", "resolved", None)
    assert store.acknowledge(url, cluster, "b1", by="ada", until=None).outcome == "resolved"
    audit(url, cluster, "s3", breach("b1"), day=2)
    assert state(url, cluster) == ("open", "open", None)
    assert store.acknowledge(url, cluster, "b1", by="ada", until=None).outcome == "acknowledged"


def test_an_earlier_day_that_is_audited_later_takes_nothing_back(url: str, cluster: str) -> None:
    audit(url, cluster, "s3", breach("b1"), day=3)
    store.acknowledge(url, cluster, "b1", by="ada", until=None)
    audit(url, cluster, "s2", breach("b1"), day=2)
    assert state(url, cluster) == ("acknowledged", "still_open", "ada")


@pytest.mark.parametrize(
    ("breach_id", "by", "until", "outcome"),
    [
        ("nope", "ada", None, "unknown"),
        ("b1", "  ", None, "nobody"),
        ("b1", "ada", datetime(2020, 1, 1, tzinfo=UTC), "past"),
    ],
)
def test_what_cannot_be_is_said(
    url: str, cluster: str, breach_id: str, by: str, until: datetime | None, outcome: str
) -> None:
    audit(url, cluster, "s1", breach("b1"))
    assert store.acknowledge(url, cluster, breach_id, by=by, until=until).outcome == outcome
    assert state(url, cluster)[0] == "open"


def test_of_many_who_say_the_same_at_once_one_is_first(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"))
    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(lambda _: store.acknowledge(url, cluster, "b1", by="ada", until=TOMORROW), range(6)))
    assert sorted(word.outcome for word in said) == ["acknowledged", *["already"] * 5]


def trail(url: str, cluster: str) -> list[tuple[object, ...]]:
    return rows(
        url,
        "SELECT action, said_by, verification, from_address, database_role, note "
        "FROM tidegauge.v_acknowledgement_event WHERE cluster = %s ORDER BY event_id",
        cluster,
    )


def test_who_vouches_for_the_name_is_kept_and_the_same_name_of_nobody_s_is_another_word(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"))
    typed = store.acknowledge(url, cluster, "b1", by="ada", until=None)
    assert (typed.outcome, typed.verification) == ("acknowledged", "unverified")
    known = store.acknowledge(url, cluster, "b1", by="ada", until=None, verification="airflow")
    assert (known.outcome, known.verification) == ("replaced", "unverified"), "it is what was replaced"
    assert store.acknowledge(url, cluster, "b1", by="ada", until=None, verification="airflow").outcome == "already"
    assert rows(
        url, "SELECT acknowledgement_verification FROM tidegauge.v_breach_open WHERE cluster = %s", cluster
    ) == [("airflow",)]
    store.withdraw(url, cluster, "b1", by="grace", verification="token")
    assert rows(
        url,
        "SELECT verification, ended_by, ended_verification FROM tidegauge.v_acknowledgement WHERE cluster = %s "
        "ORDER BY acknowledged_at",
        cluster,
    ) == [("unverified", "ada", "airflow"), ("airflow", "grace", "token")]
    with pytest.raises(StoreError, match="verification"):
        store.acknowledge(url, cluster, "b1", by="ada", until=None, verification="believe me")  # type: ignore[arg-type]


def test_the_trail_has_every_word_and_outlives_the_breach(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"))
    first = {"by": "ada", "until": TOMORROW, "note": "known"}
    store.acknowledge(url, cluster, "b1", **first, verification="proxy", address="192.0.2.7")
    store.acknowledge(url, cluster, "b1", **first, verification="proxy", address="192.0.2.8")
    store.withdraw(url, cluster, "b1", by="grace", address="2001:db8::1")
    assert not store.withdraw(url, cluster, "b1", by="grace", address="2001:db8::1")
    rows(url, "SELECT * FROM tidegauge.acknowledge(%s, 'b1', 'typed in psql', NULL, NULL)", cluster)
    said = [
        ("acknowledged", "ada", "proxy", "192.0.2.7", "postgres", "known"),
        ("withdrawn", "grace", "unverified", "2001:db8::1", "postgres", None),
        ("acknowledged", "typed in psql", "unverified", None, "postgres", None),
    ]
    assert trail(url, cluster) == said, "what changed nothing is not said"
    audit(url, cluster, "s2", day=1)
    assert state(url, cluster)[0] == "resolved"
    with store.connect(url, "forget the breach") as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM tidegauge.breach WHERE cluster = %s", (cluster,))
    assert trail(url, cluster) == said
    found = "SELECT DISTINCT found_state FROM tidegauge.v_acknowledgement_event WHERE cluster = %s"
    assert rows(url, found, cluster) == [(None,)]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tidegauge.acknowledgement_event SET said_by = 'bob'",
        "DELETE FROM tidegauge.acknowledgement_event",
        "TRUNCATE tidegauge.acknowledgement_event",
    ],
)
def test_not_even_the_store_s_owner_rewrites_the_trail_in_passing(url: str, cluster: str, change: str) -> None:
    audit(url, cluster, "s1", breach("b1"))
    store.acknowledge(url, cluster, "b1", by="ada", until=None)
    before = trail(url, cluster)
    with pytest.raises(StoreError, match="only added to"):
        rows(url, change)
    assert trail(url, cluster) == before


def test_the_console_s_role_reads_views_and_acknowledges_and_nothing_else(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"))
    roles = Path(sql.__file__).parent / "roles"
    with store.connect(url, "make the role") as connection, connection.cursor() as cursor:
        for name in ("reader.sql", "console.sql", "console.sql"):
            cursor.execute((roles / name).read_text(encoding="utf-8"))
        cursor.execute("DROP ROLE IF EXISTS pages")
        cursor.execute("CREATE ROLE pages LOGIN IN ROLE tidegauge_console")
    pages = url.replace("postgres@", "pages@")
    try:
        assert store.acknowledge(pages, cluster, "b1", by="ada", until=None).outcome == "acknowledged"
        assert state(pages, cluster)[2] == "ada"
        assert [event[4] for event in trail(pages, cluster)] == ["pages"], "the role of who logged in, not the owner's"
        for forbidden in (
            "DELETE FROM tidegauge.acknowledgement",
            "SELECT * FROM tidegauge.breach",
            "DELETE FROM tidegauge.acknowledgement_event",
            "SELECT * FROM tidegauge.acknowledgement_event",
        ):
            with pytest.raises(StoreError, match="permission denied"):
                rows(pages, forbidden)
    finally:
        with store.connect(url, "remove the roles") as connection, connection.cursor() as cursor:
            for role in ("pages", "tidegauge_console", "tidegauge_reader"):
                cursor.execute(f"DROP OWNED BY {role}")
                cursor.execute(f"DROP ROLE {role}")
