"""The store on a real Postgres: the life of a breach over runs."""

from collections.abc import Sequence

import pytest

from spark_jobs import store
from tests.spark_jobs.store.helpers import audit, breach, broker, key, life, opened, report, rows

# ------------------------------------------------------------------------------------------------- the life of a breach


def test_a_breach_is_open_then_still_open_then_resolved_then_open_again(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", day=1)
    assert life(url, cluster) == ()
    audit(url, cluster, "s2", breach("b1"), day=2)
    assert life(url, cluster) == ("open", "s2", "s2", "s2", None)
    audit(url, cluster, "s3", breach("b1", records=650), day=3)
    assert life(url, cluster) == ("still_open", "s2", "s2", "s3", None)
    assert rows(url, "SELECT records FROM tidegauge.v_breach_open WHERE cluster = %s", cluster) == [(650,)]
    audit(url, cluster, "s4", day=4)
    assert life(url, cluster) == ("resolved", "s2", "s2", "s3", "s4")
    assert rows(url, "SELECT * FROM tidegauge.v_breach_open WHERE cluster = %s", cluster) == []
    audit(url, cluster, "s5", day=5)
    assert life(url, cluster) == ("resolved", "s2", "s2", "s3", "s4")
    audit(url, cluster, "s6", breach("b1"), day=6)
    assert life(url, cluster) == ("open", "s2", "s6", "s6", None)
    assert rows(url, "SELECT times_opened FROM tidegauge.breach WHERE cluster = %s", cluster) == [(2,)]
    findings = rows(url, "SELECT snapshot_id FROM tidegauge.v_finding WHERE cluster = %s ORDER BY 1", cluster)
    assert findings == [("s2",), ("s3",), ("s6",)]


def test_auditing_an_older_snapshot_resolves_nothing_that_came_later(url: str, cluster: str) -> None:
    audit(url, cluster, "s3", breach("b1"), day=3)
    audit(url, cluster, "s1", day=1)
    assert life(url, cluster) == ("open", "s3", "s3", "s3", None)
    assert rows(url, "SELECT snapshot_id FROM tidegauge.v_run_latest WHERE cluster = %s", cluster) == [("s3",)]
    audit(url, cluster, "s2", breach("b1"), day=2)
    assert life(url, cluster) == ("still_open", "s2", "s2", "s3", None)


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3)])
def test_the_order_of_audits_does_not_matter(url: str, cluster: str, order: Sequence[int]) -> None:
    for day in order:
        audit(url, cluster, f"s{day}", *([breach("b1")] if day in (1, 2, 4) else []), day=day)
    assert life(url, cluster) == ("open", "s1", "s4", "s4", None)
    assert rows(url, "SELECT times_opened FROM tidegauge.breach WHERE cluster = %s", cluster) == [(2,)]


def test_replacing_a_run_takes_back_what_it_said(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), day=1)
    audit(url, cluster, "s2", day=2)
    audit(url, cluster, "s2", breach("b1"), day=2)
    assert life(url, cluster) == ("still_open", "s1", "s1", "s2", None)
    audit(url, cluster, "s2", day=2)
    assert life(url, cluster) == ("resolved", "s1", "s1", "s1", "s2")


def test_a_run_that_could_not_judge_an_invariant_does_not_resolve_its_breaches(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), day=1)
    audit(url, cluster, "s2", day=2, unknown={"D06": 1})
    assert life(url, cluster) == ("still_open", "s1", "s1", "s1", None)
    assert rows(url, "SELECT seen_in_latest FROM tidegauge.v_breach_open WHERE cluster = %s", cluster) == [(False,)]
    audit(url, cluster, "s3", day=3, codes=["D02"])
    assert life(url, cluster) == ("still_open", "s1", "s1", "s1", None)
    audit(url, cluster, "s4", day=4)
    assert life(url, cluster) == ("resolved", "s1", "s1", "s1", "s4")


def test_a_run_may_say_exactly_which_breaches_it_could_not_judge(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), breach("b2"), day=1)
    assert {(b.breach_id, b.code) for b in store.known_breaches(url, cluster)} == {("b1", "D06"), ("b2", "D06")}
    audit(url, cluster, "s2", day=2, unknown={"D06": 1}, undecided=["b2"])
    assert life(url, cluster, "b1") == ("resolved", "s1", "s1", "s1", "s2")
    assert life(url, cluster, "b2") == ("still_open", "s1", "s1", "s1", None)
    assert [b.breach_id for b in store.known_breaches(url, cluster)] == ["b2"]


def test_a_snapshot_without_the_broker_resolves_nothing_about_it(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), day=1)
    audit(url, cluster, "s2", day=2, brokers=[broker(1, captured=False), broker(2)])
    assert life(url, cluster) == ("still_open", "s1", "s1", "s1", None)
    audit(url, cluster, "s3", day=3)
    assert life(url, cluster) == ("resolved", "s1", "s1", "s1", "s3")


def test_a_snapshot_without_an_instant_keeps_its_place_when_it_is_audited_again(url: str, cluster: str) -> None:
    for snapshot_id in ("s1", "s2", "s1"):
        run_id = opened(url, key(cluster, snapshot_id), captured_at=None)
        store.publish(url, run_id, report(*([breach("b1")] if snapshot_id == "s2" else [])))
    assert life(url, cluster) == ("open", "s2", "s2", "s2", None)


def test_clusters_do_not_meddle_with_each_other(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), day=1)
    audit(url, f"{cluster}-other", "s2", day=2)
    assert life(url, cluster)[0] == "open"


def test_a_breach_told_twice_is_kept_once(url: str, cluster: str) -> None:
    audit(url, cluster, "s1", breach("b1"), breach("b1", records=1))
    assert rows(url, "SELECT records FROM tidegauge.v_finding WHERE cluster = %s", cluster) == [(700,)]
