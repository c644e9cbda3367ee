"""Incidents over runs: what belongs together stays so, what people split and merge holds, and no loss is closed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.store.helpers import LOSS, START, audit, breach, grouped, rows
from tidegauge import sql, store
from tidegauge.expectations.incidents.model import Election
from tidegauge.runs.errors import StoreError
from tidegauge.store.incident_reading import ShownIncident, headline, incident, incidents
from tidegauge.store.incident_word import Speaker, acknowledge_incident, merge, note_step, split

ADA = Speaker(by="ada")


def cut(breach_id: str, topic: str = "orders", **values: Any) -> dict[str, Any]:
    """Broker 1 holds what leader 2 lacks."""
    subject = {"topic": topic, "partition": 0, "leader_id": 2, "follower_id": 1}
    evidence = {"truncated_leader_epoch": 0, "unclean_election_offset": values.pop("election", None)}
    cause = "unclean_loss" if evidence["unclean_election_offset"] is not None else "cut_or_lost"
    told = {"subject": subject, "evidence": evidence, "points_to": cause, "believe": (1,)}
    return breach(breach_id, **told | values)


def rot(breach_id: str, broker: int = 3) -> dict[str, Any]:
    return breach(
        breach_id, "A03", subject={"topic": "orders", "partition": 0, "broker_id": broker}, points_to="bit_rot"
    )


def states(url: str, cluster: str) -> list[tuple[str, str, int]]:
    """Kind, state and members of each incident."""
    return rows(
        url,
        "SELECT i.kind, i.state, count(m)::integer FROM tidegauge.v_incident i "
        "LEFT JOIN tidegauge.incident_member m USING (incident_id) WHERE i.cluster = %s "
        "GROUP BY i.incident_id, i.kind, i.state ORDER BY 1, 2, 3",
        cluster,
    )


def id_of(url: str, cluster: str, member: str) -> str:
    ((found,),) = rows(
        url, "SELECT incident_id FROM tidegauge.incident_member WHERE cluster = %s AND member = %s", cluster, member
    )
    return str(found)


def shown(url: str, incident_id: str) -> ShownIncident:
    found = incident(url, incident_id)
    assert isinstance(found, ShownIncident)
    return found


def test_what_one_cause_left_behind_is_one_incident_with_the_records_of_its_losses(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", cut("b1"), cut("b2", "safe"), rot("b3"), losses=[LOSS])
    assert states(url, cluster) == [("broker", "open", 3), ("disk", "open", 1)]
    worst, other = incidents(url, cluster=cluster) or ()
    assert (worst["records_at_risk"], worst["records_lost"], worst["undecided_losses"]) == (700, 0, 1)
    assert headline(worst) == (
        "An unclean election, a lost flush or a stale disk, broker 1: orders-0, safe-0, 700 records at risk; "
        "believe broker 1; group billing had read past the first of them"
    )
    assert headline(worst) == grouped(cluster, [cut("b1"), cut("b2", "safe")], [LOSS])[0]["headline"]
    assert (other["severity"], other["avoid"]) == (
        "critical",
        "Do not let broker 3 lead these partitions, and do not delete the other replicas.",
    )


def test_it_is_over_when_its_breaches_are_resolved_and_open_again_when_one_is_back(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", rot("b3"))
    audit(url, cluster, "s2", day=1, codes=("A03", "D06"))
    assert states(url, cluster) == [("disk", "over", 1)]
    assert incidents(url, cluster=cluster) == []
    assert len(incidents(url, cluster=cluster, with_over=True) or ()) == 1
    audit(url, cluster, "s3", rot("b3"), day=2, codes=("A03", "D06"))
    assert states(url, cluster) == [("disk", "open", 1)]
    assert rows(url, "SELECT times_opened FROM tidegauge.v_incident WHERE cluster = %s", cluster) == [(2,)]


def test_a_loss_keeps_it_open_until_somebody_decides_whatever_audits_no_longer_see(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", cut("b1"), losses=[LOSS])
    audit(url, cluster, "s2", day=1)
    (still,) = incidents(url, cluster=cluster) or ()
    assert (still["state"], still["open_breaches"], still["records_at_risk"]) == ("open", 0, 700)
    ((loss_id,),) = rows(url, "SELECT loss_id FROM tidegauge.loss_ledger WHERE cluster = %s", cluster)
    store.decide(url, loss_id, "accepted", by="ada", note="known")
    assert states(url, cluster) == [("broker", "over", 2)]


def test_one_that_lost_its_anchor_goes_on_as_what_it_was(url: str, cluster: str) -> None:
    first, second = (election(topic, offset) for topic, offset in (("orders", 10), ("safe", 12)))
    both = [cut("b1", election=10), cut("b2", "safe", election=12)]
    audit(url, cluster, "s1", *both, incidents=grouped(cluster, both, elections=[first, second]))
    before = id_of(url, cluster, "b1")
    # The metadata log no longer reaches back to the first election; a third one of the series has come to light.
    left = [both[1], cut("b4", "last", election=13)]
    later = grouped(cluster, left, elections=[second, election("last", 13)])
    assert later[0]["incident_id"] != before
    audit(url, cluster, "s2", *left, day=1, incidents=later)
    assert {id_of(url, cluster, b) for b in ("b2", "b4")} == {before}


def election(topic: str, offset: int) -> Election:
    return Election(
        topic=topic, partition=0, metadata_offset=offset, at_ms=1_795_227_121_481, election="unclean", leader_id=2,
        leader_epoch=1, led_before=1,
    )  # fmt: skip


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_newer_snapshot_has_the_last_word_in_whichever_order_they_are_audited(
    url: str, cluster: str, order: tuple[int, int]
) -> None:
    for day in order:
        told = grouped(cluster, [rot("b3")])
        told[0]["what"] = f"Bit rot as of day {day}"
        audit(url, cluster, f"s{day}", rot("b3"), day=day, incidents=told)
    found = rows(url, "SELECT what, first_seen_at, last_seen_at FROM tidegauge.v_incident WHERE cluster = %s", cluster)
    assert [(what, (last - first).days) for what, first, last in found] == [("Bit rot as of day 1", 1)]
    assert found[0][1] == START


def test_auditing_the_same_again_changes_nothing(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", cut("b1"), losses=[LOSS])
    before = rows(url, "SELECT * FROM tidegauge.incident WHERE cluster = %s", cluster)
    audit(url, cluster, "s1", cut("b1"), losses=[LOSS])
    assert rows(url, "SELECT * FROM tidegauge.incident WHERE cluster = %s", cluster) == before


def test_a_breach_that_newer_rules_no_longer_find_leaves_no_empty_incident(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", cut("b1"), rot("b3"))
    audit(url, cluster, "s1", cut("b1"), ruleset_version="2")
    assert states(url, cluster) == [("broker", "open", 1)]


def test_what_was_found_before_there_were_incidents_is_put_together_by_the_next_audit(url: str, cluster: str) -> None:
    follows = cut("b5", implied_by="b1")
    audit(url, cluster, "s1", cut("b1"), cut("b2", "safe"), follows, losses=[LOSS], incidents=[])
    assert states(url, cluster) == []
    script = (Path(sql.__file__).parent / "migrations" / "versions" / "r0029_what_is_left.sql").read_text("utf-8")
    with store.connect(url, "migrate") as connection, connection.cursor() as cursor:
        cursor.execute(script)
        cursor.execute("SELECT tidegauge.count_incidents(%s, NULL)", (cluster,))  # as r0030 does
    assert states(url, cluster) == [("records", "open", 1), ("records", "open", 1), ("records", "open", 2)]
    audit(url, cluster, "s2", cut("b1"), cut("b2", "safe"), follows, day=1, losses=[LOSS])
    assert states(url, cluster) == [("broker", "open", 4)]


# ----------------------------------------------------------------------------------------------------------- by hand


def test_whatever_changes_an_incident_counts_it_anew(url: str, cluster: str) -> None:
    def counted() -> list[Any]:
        return rows(url, "SELECT * FROM tidegauge.incident_count WHERE cluster = %s ORDER BY incident_id", cluster)

    seen: list[list[Any]] = []

    def differs_and_is_right() -> None:
        """From what it was before; and counting it all again finds the same."""
        seen.append(counted())
        assert seen[-1] not in seen[:-1]
        with store.connect(url, "count") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT tidegauge.count_incidents(%s, NULL)", (cluster,))
        assert counted() == seen[-1]

    everything = [cut("b1"), cut("b2", "safe"), rot("b3")]
    audit(url, cluster, "s1", *everything, losses=[LOSS])
    differs_and_is_right()
    one, disk = id_of(url, cluster, "b1"), id_of(url, cluster, "b3")
    assert split(url, one, ["b2"], speaker=ADA, note="broker 4 did this").outcome == "split"
    differs_and_is_right()
    assert merge(url, disk, one, speaker=ADA, note="the disk made it fail").outcome == "merged"
    differs_and_is_right()
    ((loss_id,),) = rows(url, "SELECT loss_id FROM tidegauge.loss_ledger WHERE cluster = %s", cluster)
    store.decide(url, loss_id, "accepted", by="ada", note="known")
    differs_and_is_right()
    store.decide(url, loss_id, "reopened", by="ada", note="not so")
    assert counted() == seen[-2]
    audit(url, cluster, "s2", cut("b2", "safe"), day=1)
    differs_and_is_right()


def test_what_was_split_off_stays_apart_in_later_audits(url: str, cluster: str) -> None:
    follows = cut("b5", "safe", implied_by="b2")
    everything = [cut("b1"), cut("b2", "safe"), follows]
    audit(url, cluster, "s1", *everything)
    one = id_of(url, cluster, "b1")
    word = split(url, one, ["b2"], speaker=ADA, note="broker 4 did this")
    assert word.outcome == "split"
    assert {id_of(url, cluster, b) for b in ("b2", "b5")} == {word.other_id}
    audit(url, cluster, "s2", *everything, cut("b6", "new"), day=1)
    assert id_of(url, cluster, "b2") == word.other_id
    assert id_of(url, cluster, "b6") == id_of(url, cluster, "b1") == one
    assert word.other_id is not None
    apart = shown(url, word.other_id)
    assert apart.row["split_from"] == one
    assert {(m["rule"], m["because"]) for m in apart.members} == {("by_hand", "ada split it off: broker 4 did this")}
    assert [(e["action"], e["said_by"], e["note"]) for e in apart.events] == [("split", "ada", "broker 4 did this")]


def test_what_was_merged_stays_together_in_later_audits(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", cut("b1"), rot("b3"))
    one, other = id_of(url, cluster, "b3"), id_of(url, cluster, "b1")
    assert merge(url, one, other, speaker=ADA, note="the disk made it fail").outcome == "merged"
    audit(url, cluster, "s2", cut("b1"), rot("b3"), rot("b7"), day=1)
    assert {id_of(url, cluster, b) for b in ("b1", "b3", "b7")} == {other}
    assert states(url, cluster) == [("broker", "open", 3)]
    assert incident(url, one) == other
    # A breach that is over, and back under the same cause, does not leave what somebody put together.
    audit(url, cluster, "s3", cut("b1"), day=2, codes=("A03", "D06"))
    audit(url, cluster, "s4", cut("b1"), rot("b3"), day=3, codes=("A03", "D06"))
    assert id_of(url, cluster, "b3") == other


def test_what_cannot_be_split_or_merged_is_said_and_changes_nothing(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", cut("b1"), cut("b2", "safe"), rot("b3"))
    audit(url, f"{cluster}-2", "s1", rot("b3"))
    one, disk, foreign = id_of(url, cluster, "b1"), id_of(url, cluster, "b3"), id_of(url, f"{cluster}-2", "b3")
    trail = rows(url, "SELECT count(*) FROM tidegauge.incident_event")

    def splits(incident_id: str, *which: str, by: str = "ada", note: str = "why") -> tuple[Any, ...]:
        word = split(url, incident_id, which, speaker=Speaker(by=by), note=note)
        return word.outcome, word.other_id, word.detail

    def merges(incident_id: str, into: str, by: str = "ada", note: str = "why") -> tuple[Any, ...]:
        word = merge(url, incident_id, into, speaker=Speaker(by=by), note=note)
        return word.outcome, word.other_id

    assert splits("incident-none", "b1")[0] == "unknown"
    assert splits(one, "b1", "b3") == ("elsewhere", disk, "b3")
    assert splits(one, "b9") == ("elsewhere", None, "b9")
    assert splits(one, "b1", "b2")[0] == "all"
    assert splits(one, "b1", by=" ")[0] == "nobody"
    assert splits(one, "b1", note=" ")[0] == "silent"
    assert merges(one, one)[0] == "itself"
    assert merges(one, foreign)[0] == "clusters"
    assert merges(one, "incident-none") == ("unknown", "incident-none")
    assert merges("incident-none", one) == ("unknown", "incident-none")
    assert merges(one, disk, by="")[0] == "nobody"
    assert merges(one, disk, note="")[0] == "silent"
    assert rows(url, "SELECT count(*) FROM tidegauge.incident_event") == trail
    assert states(url, cluster) == [("broker", "open", 2), ("disk", "open", 1)]
    assert merges(one, disk)[0] == "merged"
    assert merges(one, disk) == ("already", disk)
    assert merges(disk, one) == ("gone", disk)


def test_of_two_who_merge_at_once_into_each_other_one_is_told(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", cut("b1"), rot("b3"))
    one, other = id_of(url, cluster, "b1"), id_of(url, cluster, "b3")
    with ThreadPoolExecutor(2) as both:
        words = list(both.map(lambda pair: merge(url, *pair, speaker=ADA, note="why"), [(one, other), (other, one)]))
    assert sorted(word.outcome for word in words) == ["gone", "merged"]
    assert states(url, cluster)[0][1:] == ("open", 2)


def test_of_two_who_split_the_same_off_at_once_one_is_told(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", cut("b1"), cut("b2", "safe"))
    one = id_of(url, cluster, "b1")
    with ThreadPoolExecutor(2) as both:
        words = list(both.map(lambda _: split(url, one, ["b2"], speaker=ADA, note="why"), range(2)))
    assert sorted(word.outcome for word in words) == ["elsewhere", "split"]
    assert len(states(url, cluster)) == 2


def test_to_acknowledge_an_incident_acknowledges_its_breaches(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", cut("b1"), cut("b2", "safe"), losses=[LOSS])
    one = id_of(url, cluster, "b1")
    word = acknowledge_incident(url, one, speaker=ADA, until=None, note="on it")
    assert (word.outcome, word.detail) == ("acknowledged", "2")
    assert rows(
        url,
        "SELECT breach_id, state, acknowledged_by FROM tidegauge.v_breach WHERE cluster = %s ORDER BY 1",
        cluster,
    ) == [("b1", "acknowledged", "ada"), ("b2", "acknowledged", "ada")]
    assert states(url, cluster) == [("broker", "acknowledged", 3)]
    assert acknowledge_incident(url, one, speaker=ADA, until=None, note="on it").outcome == "already"
    # Whatever joins it later is news.
    audit(url, cluster, "s2", cut("b1"), cut("b2", "safe"), cut("b6", "new"), day=1)
    assert states(url, cluster) == [("broker", "open", 4)]
    audit(url, cluster, "s3", day=2)
    assert acknowledge_incident(url, one, speaker=ADA, until=None, note="on it").outcome == "over"
    assert acknowledge_incident(url, "incident-none", speaker=ADA, until=None, note="").outcome == "unknown"
    assert acknowledge_incident(url, one, speaker=Speaker(by=" "), until=None, note="").outcome == "nobody"
    assert acknowledge_incident(url, one, speaker=ADA, until=START, note="").outcome == "past"


@pytest.fixture
def audits(url: str) -> Iterator[str]:
    """The store's URL as somebody who may only write what audits write."""
    script = (Path(sql.__file__).parent / "roles" / "writer.sql").read_text(encoding="utf-8")
    with store.connect(url, "make the role") as connection, connection.cursor() as cursor:
        cursor.execute(script)
        cursor.execute("CREATE ROLE incident_audits LOGIN IN ROLE tidegauge_writer")
        cursor.execute("SELECT tidegauge.grant_reading('tidegauge_writer')")
    yield url.replace("postgres@", "incident_audits@")
    with store.connect(url, "remove the role") as connection, connection.cursor() as cursor:
        cursor.execute("DROP ROLE incident_audits")
        cursor.execute("DROP OWNED BY tidegauge_writer")
        cursor.execute("DROP ROLE tidegauge_writer")


def test_who_writes_audits_carries_incidents_and_says_nothing_for_people(url: str, cluster: str, audits: str) -> None:
    audit(audits, cluster, "s1", cut("b1"), cut("b2", "safe"))
    assert states(url, cluster) == [("broker", "open", 2)]
    for word in (
        lambda: split(audits, id_of(url, cluster, "b1"), ["b2"], speaker=ADA, note="mine"),
        lambda: note_step(audits, id_of(url, cluster, "b1"), "look", is_done=True, speaker=ADA),
    ):
        with pytest.raises(StoreError, match="permission denied"):
            word()


@pytest.mark.parametrize(
    "statement", ["UPDATE tidegauge.incident_event SET note = ''", "TRUNCATE tidegauge.incident_event"]
)
def test_the_trail_is_rewritten_by_nobody_not_even_the_owner(url: str, statement: str) -> None:
    with (
        pytest.raises(StoreError, match="only added to"),
        store.connect(url, "try") as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
