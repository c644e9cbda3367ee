"""Refused snapshots as alerts: a real store, receivers on this machine that keep what came."""

from collections.abc import Iterator

import pytest

from tests.store.test_dated_ahead import claim
from tests.store.test_identity import OTHER, OURS, audited
from tests.tidegauge.alerts.receivers import Web, web
from tests.tidegauge.alerts.test_send import NOW, alerting, hook, words
from tidegauge import store
from tidegauge.alerts.send import send
from tidegauge.snapshots.errors import SnapshotError


@pytest.fixture(scope="module")
def url(empty_store: str) -> str:
    return empty_store


@pytest.fixture
def receiver() -> Iterator[Web]:
    with web() as told:
        yield told


def test_a_snapshot_of_another_cluster_is_told_until_somebody_settles_it_and_again_when_it_comes_back(
    url: str, receiver: Web
) -> None:
    cluster = "prod"
    found = hook(receiver, cluster, ", severities: [critical]")

    def told() -> str:
        receiver.posted.clear()
        send(found, url, say=lambda _: None, now=NOW)
        return words(receiver)

    audited(url, cluster, "s1", cluster_id=OURS)
    assert told() == ""
    for _ in range(2):
        with pytest.raises(SnapshotError):
            audited(url, cluster, "forged", cluster_id=OTHER, day=1)
        said = told()
        assert "[critical] SnapshotOfAnotherCluster cluster" in said
        assert f"is of cluster.id {OTHER}; prod is {OURS}." in said
        assert f"Next: tidegauge store settle prod {OTHER} --by NAME --rebuilt, or --not-ours" in said
        assert "docs/guides/store.md#which-cluster-a-name-stands-for" in said
        assert told() == "", "once"
        store.settle(url, cluster, OTHER, "not_ours", by="sre")
        assert "[resolved] SnapshotOfAnotherCluster" in (over := told())
        assert "somebody settled it" in over


def test_alertmanager_hears_of_it_as_of_any_alert(url: str, receiver: Web) -> None:
    cluster = "hostile\n<@here>"
    audited(url, cluster, "s1", cluster_id=OURS)
    with pytest.raises(SnapshotError):
        audited(url, cluster, "s2", cluster_id="`rm -rf /`; $(x)")
    found = alerting(f"channels: {{am: {{alertmanager: 'http://127.0.0.1:{receiver.port}'}}}}")
    send(found, url, say=lambda _: None, now=NOW)
    told = [alert for _, posted in receiver.posted for alert in posted]
    (body,) = [alert for alert in told if alert["labels"]["cluster"].startswith("hostile")
               and alert["labels"]["alertname"] == "SnapshotOfAnotherCluster"]  # fmt: skip
    assert body["labels"]["cluster_id"] == "`rm -rf /`; $(x)"
    assert "'`rm -rf /`; $(x)' --by NAME" in body["annotations"]["next"], "what is pasted into a shell runs nothing"
    assert "\n" not in body["annotations"]["next"]


def test_a_snapshot_of_the_future_is_told_once_until_somebody_settles_it_and_again_when_it_comes_back(
    url: str, receiver: Web
) -> None:
    cluster = "early"
    found = hook(receiver, cluster, ", severities: [critical]")

    def told() -> str:
        receiver.posted.clear()
        send(found, url, say=lambda _: None, now=NOW)
        return words(receiver)

    audited(url, cluster, "s1", cluster_id=OURS)
    assert told() == ""
    for _ in range(2):
        store.note_dated_ahead(url, [claim(cluster)], met_by="/runs/1")
        said = told()
        assert "[critical] SnapshotDatedAhead (early)" in said
        assert "says that it was captured at 9999-12-31 23:59 UTC; it was 2026-11-21 12:00 UTC when /runs/1" in said
        assert "then tidegauge store settle early --dated-ahead --by NAME" in said
        assert "docs/guides/store.md#snapshots-of-the-future" in said
        store.note_dated_ahead(url, [claim(cluster, "another")], met_by="/runs/2")
        audited(url, cluster, "s1", cluster_id=OURS, ruleset_version="2")
        assert told() == "", "once, whatever is met and audited meanwhile"
        store.settle_dated_ahead(url, cluster, by="sre")
        assert "[resolved] SnapshotDatedAhead" in (over := told())
        assert "somebody settled it" in over
