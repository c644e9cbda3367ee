"""The loss ledger on a real Postgres: losses over runs, in any order, decided by people, kept when runs go."""

import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.store.helpers import LOSS, START, broker, key, report, rows, table
from tidegauge import sql, store
from tidegauge.runs.errors import StoreError
from tidegauge.store.loss_reading import waiting_in

BROKERS = (broker(1), broker(2), broker(3))
AT_RISK = LOSS
LOST = LOSS | {"state": "lost", "held_by": []}
POSSIBLE = LOSS | {"state": "possible", "held_by": []}


def log(broker_id: int, *spans: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Spans of a log: leader epoch, start, end."""
    place = {"broker_id": broker_id, "topic": "orders", "partition": 0}
    return [place | {"leader_epoch": e, "start_offset": s, "end_offset": x, "batch_count": 1} for e, s, x in spans]


OLD = ((0, 0, 1500),)
NEW = ((0, 0, 800), (1, 800, 1700))


def facts(
    logs: Mapping[int, Sequence[tuple[int, int, int]]],
    *,
    leader: int,
    epoch: int,
    topic_id: str = "id-1",
    high_watermark: int | None = None,
    brokers: Sequence[Mapping[str, Any]] = BROKERS,
) -> dict[str, list[Mapping[str, Any]]]:
    """A partition of three replicas, as a run's facts tell of it; brokers without a log lack theirs."""
    place = {"topic": "orders", "partition": 0}
    end = max(x for _, _, x in logs[leader])
    return {
        "brokers": list(brokers),
        "partitions": [
            place | {
                "topic_id": topic_id, "leader_id": leader, "leader_epoch": epoch, "replicas": [1, 2, 3],
                "high_watermark_lower": end if high_watermark is None else high_watermark,
            }
        ],
        "replicas": [
            place | {
                "broker_id": b, "topic_id": topic_id, "is_leader": b == leader, "is_future": False,
                "log_start_offset": 0, "log_end_offset": max(x for _, _, x in spans),
            }
            for b, spans in logs.items()
        ],
        "epoch_spans": [row for b, spans in logs.items() for row in log(b, *spans)],
        "segments": [
            place | {
                "broker_id": leader, "path": f"broker-{leader}/orders-0/0.log", "first_offset": 0,
                "last_offset": end - 1, "record_count": end, "crc_errors": 0,
            }
        ],
    }  # fmt: skip


DIVERGED = facts({1: OLD, 2: NEW, 3: NEW}, leader=2, epoch=1)
LONGER = facts({1: ((0, 0, 1600),), 2: NEW, 3: NEW}, leader=2, epoch=1)
CUT = facts({1: NEW, 2: NEW, 3: NEW}, leader=2, epoch=1)
WITHOUT_BROKER_1 = facts({2: NEW, 3: NEW}, leader=2, epoch=1, brokers=[broker(1, captured=False), broker(2), broker(3)])
BACK = facts({1: OLD, 2: OLD, 3: OLD}, leader=1, epoch=2)


def audit(
    url: str, cluster: str, day: int, *losses: Mapping[str, Any], shows: Mapping[str, Any] = DIVERGED,
    snapshot: str | None = None, source: str = "captured", ruleset: str = "1", **values: Any,
) -> str:  # fmt: skip
    run_id = store.open_run(
        url, key(cluster, snapshot or f"s{day}", ruleset), consistency="fuzzy", source=source,
        started_at=datetime.now(UTC), captured_at=START + timedelta(days=day),
    )  # fmt: skip
    for relation, values_of in shows.items():
        store.stage(url, run_id, relation, table(relation, *values_of))
    return store.publish(url, run_id, report(losses=losses, **values))


def ledger(url: str, cluster: str) -> list[tuple[Any, ...]]:
    return rows(
        url,
        "SELECT start_offset, end_offset, state, undecided, records::integer FROM tidegauge.v_loss_stretch "
        "WHERE cluster = %s ORDER BY loss_id, start_offset",
        cluster,
    )


def told(url: str, cluster: str) -> str | None:
    with store.connect(url, "look") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM tidegauge.v_loss_total WHERE cluster = %s", (cluster,))
        (total,) = store.by_column(cursor)
    return waiting_in([total]).headline


def loss_id(url: str, cluster: str) -> str:
    ((found,),) = rows(url, "SELECT loss_id FROM tidegauge.loss_ledger WHERE cluster = %s", cluster)
    return str(found)


# ----------------------------------------------------------------------------------------------------------- its life


def test_a_risk_becomes_a_loss_and_stays_one_when_nothing_is_left_to_see(url: str, cluster: str) -> None:
    audit(url, cluster, 0, AT_RISK)
    assert ledger(url, cluster) == [(800, 1500, "at_risk", True, 700)]
    audit(url, cluster, 1, shows=CUT)
    assert ledger(url, cluster) == [(800, 1500, "lost", True, 700)]
    for day in (2, 3, 4):
        audit(url, cluster, day, shows=CUT)
    assert ledger(url, cluster) == [(800, 1500, "lost", True, 700)]
    assert told(url, cluster) == "700 records lost since 22 Nov 2026, nobody has decided"
    assert rows(url, "SELECT records_lost FROM tidegauge.v_cluster WHERE cluster = %s", cluster) == [(0,)]


def test_what_was_not_captured_this_time_stays_as_it_was(url: str, cluster: str) -> None:
    audit(url, cluster, 0, AT_RISK)
    audit(url, cluster, 1, shows=WITHOUT_BROKER_1)
    assert ledger(url, cluster) == [(800, 1500, "at_risk", True, 700)]
    audit(url, cluster, 2, shows=CUT, coverage={"unread": [{"path": "broker-1/orders-0/0.log", "reason": "gone"}]})
    assert ledger(url, cluster) == [(800, 1500, "at_risk", True, 700)]
    audit(url, cluster, 3, shows=CUT, coverage={"unread": [{"path": "broker-12/orders-0/0.log", "reason": "gone"}]})
    assert ledger(url, cluster) == [(800, 1500, "lost", True, 700)]


def test_records_that_are_on_the_leader_again_are_closed_by_the_run_that_saw_them(url: str, cluster: str) -> None:
    audit(url, cluster, 0, AT_RISK)
    run_id = audit(url, cluster, 1, shows=BACK)
    assert ledger(url, cluster) == [(800, 1500, "back", False, 700)]
    assert told(url, cluster) is None
    life = "SELECT life -> 'back' ->> 'run_id' FROM tidegauge.v_loss_stretch WHERE cluster = %s"
    assert rows(url, life, cluster) == [(run_id,)]
    audit(url, cluster, 2, LOST, shows=CUT)
    assert ledger(url, cluster) == [(800, 1500, "lost", True, 700)]


def test_a_topic_that_was_made_again_is_another(url: str, cluster: str) -> None:
    audit(url, cluster, 0, AT_RISK)
    audit(url, cluster, 1, shows=facts({1: OLD, 2: OLD, 3: OLD}, leader=1, epoch=2, topic_id="id-2"))
    assert ledger(url, cluster) == [(800, 1500, "at_risk", True, 700)]


MORE = AT_RISK | {"end_offset": 1600, "records": 800}
DAYS = {
    0: ((AT_RISK,), DIVERGED),
    1: ((MORE, POSSIBLE | {"start_offset": 1600, "end_offset": 1650}), DIVERGED),
    2: ((), WITHOUT_BROKER_1),
    3: ((), BACK),
    4: ((AT_RISK | {"start_offset": 1000, "records": 500},), DIVERGED),
    5: ((), CUT),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_audits_does_not_matter(url: str, cluster: str, seed: int) -> None:
    cluster = f"{cluster}-{seed}"
    days = random.Random(seed).sample(sorted(DAYS), len(DAYS)) if seed else sorted(DAYS)
    for day in days:
        losses, shows = DAYS[day]
        audit(url, cluster, day, *losses, shows=shows)
        audit(url, cluster, day, *losses, shows=shows)
    assert ledger(url, cluster) == [
        (800, 1000, "back", False, 200), (1000, 1500, "lost", True, 500), (1500, 1600, "lost", True, 100),
        (1600, 1650, "possible", True, 700),
    ]  # fmt: skip


def test_a_run_that_replaces_another_takes_no_loss_out(url: str, cluster: str) -> None:
    audit(url, cluster, 0, AT_RISK)
    audit(url, cluster, 0)
    audit(url, cluster, 0, ruleset="2")
    assert rows(url, "SELECT count(*) FROM tidegauge.v_run_loss WHERE cluster = %s", cluster) == [(0,)]
    assert ledger(url, cluster) == [(800, 1500, "at_risk", True, 700)]


def test_clusters_of_one_snapshot_id_have_ledgers_of_their_own(url: str, cluster: str) -> None:
    audit(url, cluster, 0, AT_RISK, snapshot="nightly")
    audit(url, f"{cluster}-sim", 0, AT_RISK, snapshot="nightly", source="simulated")
    audit(url, cluster, 1, shows=BACK, snapshot="nightly-2")
    assert ledger(url, cluster) == [(800, 1500, "back", False, 700)]
    assert ledger(url, f"{cluster}-sim") == [(800, 1500, "at_risk", True, 700)]
    sources = "SELECT source FROM tidegauge.v_loss_ledger WHERE cluster = %s"
    assert rows(url, sources, f"{cluster}-sim") == [("simulated",)]


# ---------------------------------------------------------------------------------------------------------- decisions


def test_a_decision_is_kept_and_saying_it_twice_changes_nothing(url: str, cluster: str) -> None:
    audit(url, cluster, 0, LOST)
    found = loss_id(url, cluster)
    first = store.decide(url, found, "accepted", by=" ada ", note="known")
    assert (first.outcome, first.decided_by, first.records) == ("decided", "ada", 700)
    again = store.decide(url, found, "accepted", by="grace", note="me too")
    assert (again.outcome, again.decided_by, again.decided_at) == ("already", "ada", first.decided_at)
    other = store.decide(url, found, "salvaged", by="grace", note="saved")
    assert (other.outcome, other.action, other.decided_by) == ("otherwise", "accepted", "ada")
    assert told(url, cluster) is None
    audit(url, cluster, 1, LOST)
    assert told(url, cluster) is None
    assert store.decide(url, found, "reopened", by="grace", note="not yet").outcome == "reopened"
    assert store.decide(url, found, "reopened", by="grace", note="not yet").outcome == "open"
    assert told(url, cluster) == "700 records lost since 21 Nov 2026, nobody has decided"
    assert store.decide(url, found, "salvaged", by="grace", note="saved").outcome == "decided"
    trail = (
        "SELECT action, decided_by, records::integer, note FROM tidegauge.v_loss_decision WHERE loss_id = %s ORDER BY 1"
    )
    assert rows(url, trail, found) == [
        ("accepted", "ada", 700, "known"), ("reopened", "grace", 700, "not yet"), ("salvaged", "grace", 700, "saved"),
    ]  # fmt: skip


def test_a_decided_loss_that_grows_or_gets_worse_is_open_for_what_is_new(url: str, cluster: str) -> None:
    audit(url, cluster, 0, AT_RISK)
    found = loss_id(url, cluster)
    store.decide(url, found, "accepted", by="ada", note="known")
    audit(url, cluster, 1, AT_RISK | {"end_offset": 1600, "records": 800}, shows=LONGER)
    assert ledger(url, cluster) == [(800, 1500, "at_risk", False, 700), (1500, 1600, "at_risk", True, 100)]
    audit(url, cluster, 2, LOST | {"end_offset": 900, "records": 100}, shows=LONGER)
    assert [row for row in ledger(url, cluster) if row[3]] == [
        (800, 900, "lost", True, 100), (1500, 1600, "at_risk", True, 100),
    ]  # fmt: skip
    assert store.decide(url, found, "salvaged", by="ada", note="saved").records == 200
    assert [row for row in ledger(url, cluster) if row[3]] == []


def test_of_two_who_decide_at_once_one_is_told_of_the_other(url: str, cluster: str) -> None:
    audit(url, cluster, 0, LOST)
    found = loss_id(url, cluster)

    def say(who: int) -> store.Decision:
        return store.decide(url, found, "accepted" if who % 2 else "salvaged", by=f"person {who}", note="mine")

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(say, range(8)))
    (first,) = [one for one in said if one.outcome == "decided"]
    assert {one.outcome for one in said} <= {"decided", "already", "otherwise"}
    assert {(one.decided_by, one.action) for one in said} == {(first.decided_by, first.action)}
    assert rows(url, "SELECT count(*) FROM tidegauge.v_loss_decision WHERE loss_id = %s", found) == [(1,)]


def test_what_changed_since_it_was_looked_at_is_not_decided_unseen(url: str, cluster: str) -> None:
    audit(url, cluster, 0, LOST)
    found = loss_id(url, cluster)
    changed = store.decide(url, found, "accepted", by="ada", note="known", seen_records=600)
    assert (changed.outcome, changed.records) == ("changed", 700)
    assert ledger(url, cluster) == [(800, 1500, "lost", True, 700)]
    assert store.decide(url, found, "accepted", by="ada", note="known", seen_records=700).outcome == "decided"


@pytest.mark.parametrize(
    ("by", "note", "outcome"),
    [(" ", "known", "nobody"), ("ada", " ", "silent"), ("ada", "known", "decided")],
)
def test_who_and_why_are_asked_for(url: str, cluster: str, by: str, note: str, outcome: str) -> None:
    cluster = f"{cluster}-{outcome}"
    audit(url, cluster, 0, LOST)
    assert store.decide(url, loss_id(url, cluster), "accepted", by=by, note=note).outcome == outcome


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE x; --", "\0 and \ud800", "<script>\n\x1b[31m", "a" * 5000, "\u202e\u2066"]
)
def test_hostile_words_are_kept_as_text(url: str, cluster: str, text: str) -> None:
    audit(url, cluster, 0, LOST)
    assert store.decide(url, text, "accepted", by="ada", note="known").outcome == "unknown"
    found = loss_id(url, cluster)
    assert store.decide(url, found, "accepted", by=text, note=text).outcome in ("decided", "already")
    kept = text.replace("\0", "\u2400").replace("\ud800", "\ufffd").strip()
    trail = "SELECT decided_by, note FROM tidegauge.v_loss_decision WHERE loss_id = %s ORDER BY decision_id LIMIT 1"
    assert rows(url, trail, found) == [(kept, kept)]


def test_a_loss_that_proof_closed_is_nobodys_to_decide(url: str, cluster: str) -> None:
    audit(url, cluster, 0, AT_RISK)
    audit(url, cluster, 1, shows=BACK)
    assert store.decide(url, loss_id(url, cluster), "accepted", by="ada", note="known").outcome == "back"


# ------------------------------------------------------------------------------------------------- what removes nothing


def test_retention_removes_runs_and_no_loss(url: str, cluster: str) -> None:
    audit(url, cluster, 0, LOST)
    audit(url, cluster, 1, shows=CUT)
    audit(url, cluster, 2, shows=CUT)
    before = ledger(url, cluster)
    later = datetime.now(UTC) + timedelta(days=1)
    removed = store.retain(url, runs_before=later, facts_before=later, dry_run=False)[cluster]
    assert len(removed.runs) == 2
    assert ledger(url, cluster) == before == [(800, 1500, "lost", True, 700)]
    audit(url, cluster, 3, shows=CUT)
    assert ledger(url, cluster) == before


def test_a_store_of_before_gets_its_ledger_from_the_runs_that_are_there(url: str, cluster: str) -> None:
    audit(url, cluster, 0, AT_RISK)
    audit(url, cluster, 1, shows=CUT)
    before = ledger(url, cluster)
    with store.connect(url, "forget") as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM tidegauge.loss_stretch s USING tidegauge.loss_ledger l "
                       "WHERE l.loss_id = s.loss_id AND l.cluster = %s", (cluster,))  # fmt: skip
        cursor.execute("DELETE FROM tidegauge.loss_ledger WHERE cluster = %s", (cluster,))
        cursor.execute("UPDATE tidegauge.audit_run SET losses_carried = false WHERE cluster = %s", (cluster,))
    assert ledger(url, cluster) == []
    store.migrate(url)
    assert ledger(url, cluster) == before == [(800, 1500, "lost", True, 700)]


@pytest.fixture
def audits(url: str) -> Iterator[str]:
    """The store's URL as somebody who may only write what audits write."""
    script = (Path(sql.__file__).parent / "roles" / "writer.sql").read_text(encoding="utf-8")
    with store.connect(url, "make the role") as connection, connection.cursor() as cursor:
        cursor.execute(script)
        cursor.execute("CREATE ROLE ledger_audits LOGIN IN ROLE tidegauge_writer")
        cursor.execute("SELECT tidegauge.grant_reading('tidegauge_writer')")
    yield url.replace("postgres@", "ledger_audits@")
    with store.connect(url, "remove the role") as connection, connection.cursor() as cursor:
        cursor.execute("DROP ROLE ledger_audits")
        cursor.execute("DROP OWNED BY tidegauge_writer")
        cursor.execute("DROP ROLE tidegauge_writer")


def test_who_writes_audits_carries_losses_and_rewrites_no_decision(url: str, cluster: str, audits: str) -> None:
    audit(audits, cluster, 0, LOST)
    found = loss_id(url, cluster)
    store.decide(url, found, "accepted", by="ada", note="known")
    audit(audits, cluster, 1, LOST | {"end_offset": 1600, "records": 800})
    assert ledger(url, cluster) == [(800, 1500, "lost", False, 700), (1500, 1600, "lost", True, 100)]
    for statement in (
        "UPDATE tidegauge.loss_decision SET decided_by = 'eve'",
        "DELETE FROM tidegauge.loss_decision",
        "DELETE FROM tidegauge.loss_ledger",
        f"SELECT tidegauge.decide_loss('{found}', 'accepted', 'eve', 'mine')",
    ):
        with (
            pytest.raises(StoreError, match="permission denied"),
            store.connect(audits, "try") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)


@pytest.mark.parametrize(
    "statement", ["UPDATE tidegauge.loss_decision SET note = ''", "TRUNCATE tidegauge.loss_decision"]
)
def test_the_trail_is_rewritten_by_nobody_not_even_the_owner(url: str, cluster: str, statement: str) -> None:
    with (
        pytest.raises(StoreError, match="only added to"),
        store.connect(url, "try") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
