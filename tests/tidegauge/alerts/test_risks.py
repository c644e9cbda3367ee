"""Risks in alerts: told apart from breaches, once each, over when an audit says so; to receivers on this machine."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from tests.store.helpers import grouped
from tests.tidegauge.alerts.receivers import Web, web
from tests.tidegauge.alerts.test_send import NOW, alerting, told
from tidegauge import store
from tidegauge.alerts.config import AlertsFileError
from tidegauge.derivation.fact_files import relation_table

Audit = Callable[..., datetime]
FAILING = {"now": [], "broker": [1], "brokers": [1, 2]}
HOSTILE = "<script>@channel\n*bold*"


@pytest.fixture(scope="module")
def url(empty_store: str) -> str:
    return empty_store


@pytest.fixture
def receiver() -> Iterator[Web]:
    with web() as answering:
        yield answering


@pytest.fixture
def audited(url: str, request: pytest.FixtureRequest) -> Audit:
    """Publishes an audit that found these risks, each `(topic, failure)`; topics in `unjudged` were not judged."""
    name = request.node.name[:60]

    def publish(hours: float, *risks: tuple[str, str], topics=("orders",), unjudged=(), breaches=()) -> datetime:
        at = NOW + timedelta(hours=hours)
        key = store.RunKey(cluster=name, snapshot_id=f"s{hours}", ruleset_version="1")
        run_id = store.open_run(url, key, consistency="fuzzy", source="captured", started_at=at, captured_at=at)
        rows = {
            "partitions": [{"topic": topic, "partition": 0, "isr": [1], "replicas": [1]} for topic in topics],
            "postures": [{"topic": t, "partition_count": 1} for t in topics if t not in unjudged],
            "risks": [
                {
                    "topic": topic, "failure": failure, "brokers": FAILING[failure],
                    "racks": [], "partition_count": 1, "losing": 1, "unavailable": 0, "unclean": 0, "refusing": 0,
                    "records_at_risk": 700, "records_at_risk_known": True, "losing_partitions": [0],
                }
                for topic, failure in risks
            ],
        }  # fmt: skip
        for relation, values in rows.items():
            store.stage(url, run_id, relation, relation_table(relation, values, cluster=name, snapshot_id=f"s{hours}"))
        invariant = {
            "code": "D06", "name": "NoCommittedTruncation", "severity": "critical", "checked": 1, "unknown": 0,
            "verdict": "breached" if breaches else "holds", "breached": len(breaches), "reasons": {},
        }  # fmt: skip
        found = store.Report(
            finished_at=at, invariants=[invariant], breaches=breaches, incidents=grouped(name, breaches)
        )
        store.publish(url, run_id, found)
        return at

    return publish


def hook(receiver: Web, request: pytest.FixtureRequest, more: str = ""):
    where = f"url: 'json://127.0.0.1:{receiver.port}/x', clusters: [{request.node.name[:60]}]"
    return alerting(f"channels: {{hook: {{{where}{more}}}}}")


def texts(receiver: Web) -> list[tuple[str, str]]:
    return [(body["title"], body["message"]) for _, body in receiver.posted]


def test_a_risk_is_told_once_and_once_when_it_is_over_and_again_when_it_is_back(
    url, audited, receiver, request
) -> None:
    found = hook(receiver, request)
    assert told(found, url, audited(0, ("orders", "broker"), ("orders", "now"))) == 2
    assert told(found, url, audited(1, ("orders", "broker"), ("orders", "now"))) == 0
    assert told(found, url, audited(2, ("orders", "now"))) == 1
    assert told(found, url, audited(3, ("orders", "broker"), ("orders", "now"))) == 1
    assert told(found, url, NOW + timedelta(hours=3)) == 0
    first, over, back = texts(receiver)
    assert first[0].endswith("2 new risks")
    assert first[0].startswith("[warning]")
    assert "[warning] Risk orders, failure broker 1" in first[1]
    assert "If it happens, of 1 partitions 1 lose committed records. Nothing is lost yet." in first[1]
    assert "Records at risk: 700." in first[1]
    assert "Runbook: docs/guides/alerts.md#risks" in first[1]
    assert "[resolved] Risk orders, failure broker 1" in over[0]
    assert "[warning] Risk orders, failure broker 1" in back[0]


def test_it_is_not_over_where_no_audit_could_judge_it_and_over_with_its_topic(url, audited, receiver, request) -> None:
    found = hook(receiver, request)
    told(found, url, audited(0, ("orders", "broker")))
    assert told(found, url, audited(1, unjudged=("orders",))) == 0
    assert told(found, url, audited(2, topics=("other",))) == 1
    assert "[resolved]" in texts(receiver)[-1][0]


def test_risks_and_incidents_go_in_messages_of_their_own_each_by_its_switch(url, audited, receiver, request) -> None:
    breach = {
        "breach_id": "D06-1", "code": "D06", "name": "NoCommittedTruncation", "severity": "critical",
        "subject": {"topic": "orders"}, "explanation": "lost", "evidence": {}, "start_offset": None, "end_offset": None,
        "records": None, "implied_by": None, "next": "", "points_to": "unclean_loss",
    }  # fmt: skip
    at = audited(0, ("orders", "broker"), ("orders", "brokers"), breaches=[breach])
    assert told(hook(receiver, request, ", risks: []"), url, at) == 1
    assert [("Risk" in title, "unclean election" in title) for title, _ in texts(receiver)] == [(False, True)]
    assert told(hook(receiver, request), url, at) == 1
    assert "Risk orders, failure broker 1" in texts(receiver)[1][0]
    assert told(hook(receiver, request, ", risks: [double]"), url, at) == 1
    assert "Risk orders, failure brokers 1, 2" in texts(receiver)[2][0]
    only_critical = hook(receiver, request, ", severities: [critical], risks: [now, single, double]")
    assert told(only_critical, url, at) == 0


def test_a_hostile_topic_stays_text(url, audited, receiver, request) -> None:
    told(hook(receiver, request), url, audited(0, (HOSTILE, "now"), topics=(HOSTILE,)))
    ((title, message),) = texts(receiver)
    assert "\n" not in title
    assert "\n*bold*" not in message
    assert "<script>@\u200bchannel\\x0a*bold*" in title


def test_alertmanager_gets_a_risk_by_its_own_labels(url, audited, receiver, request) -> None:
    at = audited(0, ("orders", "broker"))
    found = alerting(
        f"channels: {{am: {{alertmanager: 'http://127.0.0.1:{receiver.port}', clusters: [{request.node.name[:60]}]}}}}"
    )
    told(found, url, at)
    told(found, url, audited(1))
    (_, ((firing,))), (_, ((over,))) = receiver.posted
    assert firing["labels"] == over["labels"]
    assert firing["labels"]["alertname"] == "Risk"
    assert firing["labels"]["severity"] == "warning"
    assert over["endsAt"].startswith("2026-11-21T07:00:00")


def test_a_dry_run_keeps_nothing(url, audited, receiver, request) -> None:
    from tidegauge.alerts.send import send

    at = audited(0, ("orders", "broker"))
    said: list[str] = []
    assert send(hook(receiver, request), url, say=said.append, now=at, dry=True) == 1
    assert "Risk orders" in said[0]
    assert receiver.posted == []
    assert told(hook(receiver, request), url, at) == 1


def test_a_kind_of_risk_that_is_none_is_refused() -> None:
    with pytest.raises(AlertsFileError, match=r"risks 'triple' is no kind of risk. They are now, single, double"):
        alerting("channels: {a: {url: 'json://x', risks: [triple]}}")
