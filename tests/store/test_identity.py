"""The store on a real Postgres: which cluster a name stands for, and what becomes of a run that says otherwise."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.store.helpers import START, breach, broker, key, leftovers, life, report, rows, table, visible
from tidegauge import store
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.store.identity import LONGEST_CLUSTER_ID

OURS = "kL9ljBuJTXmJ6XPjJmgLdA"
OTHER = "M7aYRSmfQ_WqaDxHkB0bYw"


def audited(
    url: str,
    cluster: str,
    snapshot_id: str,
    *breaches: dict[str, Any],
    cluster_id: str | None,
    day: float = 0,
    ruleset_version: str = "1",
) -> str:
    at = START + timedelta(days=day)
    new = store.NewRun(
        key=key(cluster, snapshot_id, ruleset_version), consistency="fuzzy", source="captured",
        started_at=datetime.now(UTC), captured_at=at, place=f"/backup/{snapshot_id}", cluster_id=cluster_id,
    )  # fmt: skip
    (run_id,) = store.open_runs(url, [new])
    store.stage(url, run_id, "brokers", table("brokers", broker(1), broker(2)))
    return store.publish(url, run_id, report(*breaches))


def known(url: str, cluster: str) -> list[tuple[str, bool]]:
    return [(each.cluster_id, each.retired_at is None) for each in store.identities(url) if each.cluster == cluster]


def contradicted(url: str, cluster: str) -> list[tuple[Any, ...]]:
    return rows(
        url,
        "SELECT cluster_id, opening, known_cluster_id, snapshot_id, place, refusals, is_open, outcome, settled_by "
        "FROM tidegauge.v_cluster_contradiction WHERE cluster = %s ORDER BY cluster_id, opening",
        cluster,
    )


def test_a_name_stands_for_the_cluster_that_was_first_published_under_it(url: str, cluster: str) -> None:
    audited(url, cluster, "s1", cluster_id=OURS)
    audited(url, cluster, "s2", cluster_id=OURS, day=1)
    assert known(url, cluster) == [(OURS, True)]
    assert [i.snapshot_id for i in store.identities(url) if i.cluster == cluster] == ["s1"]


def test_a_snapshot_of_another_cluster_resolves_nothing_is_the_newest_of_nothing_and_is_told(
    url: str, cluster: str
) -> None:
    audited(url, cluster, "s1", breach("b1"), cluster_id=OURS, day=1)
    before = [row for row in visible(url, cluster) if row[0] != "v_cluster_contradiction"]
    for times in (1, 2):
        with pytest.raises(SnapshotError, match="is known here as kL9ljBuJTXmJ6XPjJmgLdA, since s1") as refused:
            audited(url, cluster, "forged", cluster_id=OTHER, day=2)
        assert f"tidegauge store settle {cluster} {OTHER} --by NAME --rebuilt" in str(refused.value)
        assert contradicted(url, cluster) == [(OTHER, 1, OURS, "forged", "/backup/forged", times, True, None, None)]
    assert life(url, cluster) == ("open", "s1", "s1", "s1", None)
    assert [row for row in visible(url, cluster) if row[0] != "v_cluster_contradiction"] == before
    failed = rows(
        url, "SELECT run_id, status FROM tidegauge.audit_run WHERE snapshot_id = 'forged' AND cluster = %s", cluster
    )
    assert {status for _, status in failed} == {"failed"}
    assert [leftovers(url, run_id) for run_id, _ in failed] == [0, 0]


def test_a_snapshot_that_does_not_say_whose_it_is_is_not_published_where_the_name_stands_for_a_cluster(
    url: str, cluster: str
) -> None:
    audited(url, cluster, "s0", cluster_id=None)
    assert known(url, cluster) == [], "no contradiction where nothing is known"
    audited(url, cluster, "s1", breach("b1"), cluster_id=OURS, day=1)
    with pytest.raises(store.UnidentifiedError, match=r"names a cluster\.id"):
        audited(url, cluster, "nameless", cluster_id=None, day=2)
    assert life(url, cluster) == ("open", "s1", "s1", "s1", None)
    assert contradicted(url, cluster) == [], "it contradicts nothing"


def test_a_rebuilt_cluster_takes_its_name_over_and_what_was_captured_before_is_still_the_old_one_s(
    url: str, cluster: str
) -> None:
    audited(url, cluster, "s1", breach("b1"), cluster_id=OURS, day=1)
    with pytest.raises(SnapshotError):
        audited(url, cluster, "s2", cluster_id=OTHER, day=2)
    assert store.settle(url, cluster, OTHER, "rebuilt", by="sre", note="new disks") == 1
    assert contradicted(url, cluster) == [(OTHER, 1, OURS, "s2", "/backup/s2", 1, False, "rebuilt", "sre")]
    assert known(url, cluster) == [(OTHER, True), (OURS, False)]
    audited(url, cluster, "s2", cluster_id=OTHER, day=2)
    assert life(url, cluster) == ("resolved", "s1", "s1", "s1", "s2")
    audited(url, cluster, "s1", breach("b1"), cluster_id=OURS, day=1, ruleset_version="2")  # a backfill by newer rules
    late = (datetime.now(UTC) + timedelta(minutes=30) - START) / timedelta(days=1)
    with pytest.raises(SnapshotError, match=f"is known here as {OTHER}"):
        audited(url, cluster, "s3", cluster_id=OURS, day=late)


def test_a_stranger_stays_refused_and_one_that_comes_back_is_told_anew(url: str, cluster: str) -> None:
    audited(url, cluster, "s1", cluster_id=OURS)
    for opening in (1, 2):
        with pytest.raises(SnapshotError):
            audited(url, cluster, "s2", cluster_id=OTHER, day=1)
        assert [(row[1], row[6]) for row in contradicted(url, cluster)][-1] == (opening, True)
        assert store.settle(url, cluster, OTHER, "not_ours", by="sre") == 1
    assert {row[6] for row in contradicted(url, cluster)} == {False}
    assert known(url, cluster) == [(OURS, True)]
    assert store.settle(url, cluster, OTHER, "not_ours", by="sre") == 0


def test_what_cannot_be_settled_is_said(url: str, cluster: str) -> None:
    with pytest.raises(SnapshotError, match="nothing to settle"):
        store.settle(url, cluster, OTHER, "rebuilt", by="sre")
    audited(url, cluster, "s1", cluster_id=OURS)
    with pytest.raises(SnapshotError, match="already"):
        store.settle(url, cluster, OURS, "not_ours", by="sre")
    with pytest.raises(SnapshotError, match=r"no cluster\.id"):
        store.settle(url, cluster, "x" * (LONGEST_CLUSTER_ID + 1), "rebuilt", by="sre")
    assert known(url, cluster) == [(OURS, True)]


def test_one_cluster_under_two_names_is_published_and_told(url: str, cluster: str) -> None:
    audited(url, cluster, "s1", cluster_id=f"{cluster}-id")
    assert store.shared_names(url, [cluster]) == {}
    audited(url, f"{cluster}-test", "s1", cluster_id=f"{cluster}-id")
    assert store.shared_names(url, [cluster, f"{cluster}-test"]) == {
        cluster: (f"{cluster}-test",), f"{cluster}-test": (cluster,),
    }  # fmt: skip


@pytest.mark.parametrize("cluster_id", ["a\0b", "x" * 1_000_000, "", "it's; DROP TABLE tidegauge.breach"])
def test_an_id_of_any_length_and_characters_is_kept_or_refused(url: str, cluster: str, cluster_id: str) -> None:
    if len(cluster_id) > LONGEST_CLUSTER_ID:
        with pytest.raises(SnapshotError, match="of 1000000 characters"):
            audited(url, cluster, "s1", cluster_id=cluster_id)
        return
    audited(url, cluster, "s1", cluster_id=cluster_id)
    assert known(url, cluster) == [(cluster_id.replace("\0", "\u2400"), True)]
    with pytest.raises(SnapshotError, match="is known here as"):
        audited(url, cluster, "s2", cluster_id=OTHER)


def test_of_two_clusters_that_are_published_first_at_once_one_takes_the_name(url: str, cluster: str) -> None:
    def outcome(cluster_id: str) -> str:
        try:
            return audited(url, cluster, f"of-{cluster_id}", cluster_id=cluster_id) and "published"
        except SnapshotError:
            return "refused"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(outcome, (OURS, OTHER))) == ["published", "refused"]
    assert len(known(url, cluster)) == 1


# ------------------------------------------------------------------------------------------------ the past of a cluster


def test_an_older_snapshot_takes_nothing_back_of_what_the_newest_says(url: str, cluster: str) -> None:
    """What the newest found stays open, what it judged and did not find stays resolved, whatever comes from before."""
    audited(url, cluster, "s5", breach("b1"), cluster_id=OURS, day=5)
    audited(url, cluster, "s1", breach("b2"), cluster_id=OURS, day=1)
    assert (life(url, cluster, "b1")[0], life(url, cluster, "b2")[0]) == ("open", "resolved")
    audited(url, cluster, "s3", breach("b2"), cluster_id=OURS, day=3)
    assert life(url, cluster, "b1") == ("open", "s5", "s5", "s5", None)
    assert life(url, cluster, "b2") == ("resolved", "s1", "s1", "s3", "s5")
    assert rows(url, "SELECT snapshot_id FROM tidegauge.v_run_latest WHERE cluster = %s", cluster) == [("s5",)]


def test_a_cluster_s_first_snapshot_may_be_of_long_ago(url: str, cluster: str) -> None:
    audited(url, cluster, "s1", breach("b1"), cluster_id=OURS, day=-9000)
    assert life(url, cluster) == ("open", "s1", "s1", "s1", None)
