"""Alerts over the life of breaches: real audits in a real store, receivers on this machine that keep what came."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_string, policy
from typing import Any

import pytest
import requests

from tests.console.filling import publish_capture
from tests.store.helpers import LOSS, audit, breach, grouped, rows
from tests.tidegauge.alerts.receivers import Mail, Web, mail, web
from tidegauge import store
from tidegauge.alerts.config import Alerting, parsed
from tidegauge.alerts.send import ChannelError, send
from tidegauge.alerts.send import test as tell_all
from tidegauge.expectations.incidents.model import Election

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#alerts"
DISCORD = "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js"
PAGERDUTY = "pagerduty://0123456789abcdef@0123456789abcdef0123456789abcdef"
NOW = datetime(2026, 11, 21, 6, tzinfo=UTC)


@pytest.fixture(scope="module")
def url(empty_store: str) -> str:
    return empty_store


@pytest.fixture(scope="module")
def report(url: str, golden) -> store.Report:
    """What an audit of a cluster after an unclean election found, to be published again under other names."""
    run_id = publish_capture(url, golden("unclean-before"), cluster="template", snapshot_id="s", captured_at=NOW)
    with store.connect(url, "read") as connection, connection.cursor() as cursor:

        def rows(table: str) -> list[dict[str, Any]]:
            cursor.execute(f"SELECT * FROM tidegauge.{table} WHERE run_id = %s", (run_id,))
            return list(store.by_column(cursor))

        return store.Report(
            finished_at=NOW, invariants=rows("invariant_result"), breaches=rows("finding"), losses=[], coverage={}
        )


@pytest.fixture
def cluster(request: pytest.FixtureRequest, url: str) -> Iterator[str]:
    """Each test has a cluster of its own; afterwards nobody is told of it any more."""
    name = request.node.name[:60]
    yield name
    with store.connect(url, "clear up") as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM tidegauge.breach WHERE cluster = %s", (name,))
        cursor.execute("DELETE FROM tidegauge.incident_member WHERE cluster = %s", (name,))
        cursor.execute("DELETE FROM tidegauge.incident WHERE cluster = %s", (name,))
        cursor.execute("DELETE FROM tidegauge.alert_told")


@pytest.fixture
def receiver() -> Iterator[Web]:
    with web() as told:
        yield told


@pytest.fixture
def mailbox() -> Iterator[Mail]:
    with mail() as told:
        yield told


def alerting(text: str) -> Alerting:
    return parsed(text, where="alerts.yaml", environ={})


def letters_to(mailbox: Mail) -> str:
    return f"mailto://127.0.0.1:{mailbox.port}/?from=gauge@example.com&to=oncall@example.com&mode=insecure"


def hook(receiver: Web, cluster: str, more: str = "") -> Alerting:
    return alerting(f"channels: {{hook: {{url: 'json://127.0.0.1:{receiver.port}/x', clusters: [{cluster}]{more}}}}}")


def told(found: Alerting, url: str, now: datetime = NOW) -> int:
    return send(found, url, say=lambda _: None, now=now)


Audit = Callable[..., datetime]


@pytest.fixture
def audited(url: str, cluster: str, report: store.Report) -> Audit:
    """Publishes an audit of the cluster, so many hours later; findings may be left out."""

    def publish(hours: float = 0, *, sound: bool = False, source: str = "captured") -> datetime:
        at = NOW + timedelta(hours=hours)
        key = store.RunKey(cluster=cluster, snapshot_id=f"s{hours}", ruleset_version="1")
        run_id = store.open_run(url, key, consistency="fuzzy", source=source, started_at=at, captured_at=at)
        invariants = [
            row | {"breached": 0, "verdict": "holds", "unknown": 0, "reasons": {}} for row in report.invariants
        ]
        told_of = [b | {"points_to": "unclean_loss"} for b in report.breaches]
        elections = [_election(b) for b in told_of if b["code"] == "K07"]
        found = replace(report, breaches=told_of, incidents=grouped(cluster, told_of, elections=elections))
        store.publish(url, run_id, replace(report, breaches=[], invariants=invariants) if sound else found)
        return at

    return publish


def _election(breach: dict[str, Any]) -> Election:
    of, evidence = breach["subject"], breach["evidence"]
    return Election(
        topic=of["topic"], partition=of["partition"], metadata_offset=of["metadata_offset"], at_ms=evidence["at_ms"],
        election="unclean", leader_id=evidence["leader_id"], leader_epoch=evidence["leader_epoch"],
        led_before=evidence["previous_leader_id"],
    )  # fmt: skip


@pytest.fixture
def broken(audited: Audit) -> datetime:
    """A cluster after an unclean election, audited."""
    return audited()


def words(receiver: Web) -> str:
    return "\n".join(f"{body['title']}\n{body['message']}" for _, body in receiver.posted)


def test_an_incident_is_told_once_not_once_a_run_and_once_when_it_is_over(
    url, cluster, audited, broken, receiver
) -> None:
    found = hook(receiver, cluster)
    first = told(found, url)
    assert first > 0
    assert told(found, url) == 0
    again = audited(1)
    assert told(found, url, again) == 0, "still open: nobody is told anew"
    over = audited(2, sound=True)
    assert told(found, url, over) == first
    assert told(found, url, over) == 0
    firing, resolved = receiver.posted
    assert firing[1]["type"] == "failure"
    assert resolved[1]["type"] == "success"
    assert resolved[1]["title"].startswith("[resolved] ")
    assert "no audit finds its breaches any more" in resolved[1]["message"]


def test_one_cause_is_one_message_with_what_not_to_do_and_what_to_run(url, cluster, broken, receiver) -> None:
    assert told(hook(receiver, cluster), url) == 1
    ((_, body),) = receiver.posted
    assert body["title"].startswith("[critical] Unclean election")
    assert body["title"].endswith(f"({cluster})")
    lines = body["message"].splitlines()
    assert lines[1] == "Breaches: D02, D05, D06, D18, K07."
    assert "Broker 1 holds offsets 800..1499 under leader epoch 0." in lines
    assert any(line.startswith("Next: tidegauge plan incident-") for line in lines)
    assert "Runbook: docs/guides/incidents.md" in lines


def test_an_incident_that_comes_back_is_told_again(url, cluster, audited, broken, receiver) -> None:
    found = hook(receiver, cluster)
    first = told(found, url)
    over = audited(1, sound=True)
    told(found, url, over)
    back = audited(2)
    assert told(found, url, back) == first


def test_a_loss_that_waits_keeps_it_open_and_is_news_when_it_gets_worse(url, cluster, receiver) -> None:
    found = hook(receiver, cluster)
    audit(url, cluster, "s1", breach("b1"), losses=[LOSS])
    assert told(found, url) == 1
    audit(url, cluster, "s2", day=1)
    assert told(found, url) == 0, "that nothing is left to see is no end, and no news"
    audit(url, cluster, "s3", day=2, losses=[LOSS | {"state": "lost", "held_by": []}])
    assert told(found, url) == 1
    assert "700 records lost" in receiver.posted[-1][1]["title"]
    ((loss_id,),) = rows(url, "SELECT loss_id FROM tidegauge.loss_ledger WHERE cluster = %s", cluster)
    store.decide(url, loss_id, "accepted", by="ada", note="test data")
    assert told(found, url) == 1
    assert receiver.posted[-1][1]["title"].startswith("[resolved] ")
    assert "ada decided a loss (accepted): test data" in receiver.posted[-1][1]["message"]
    store.decide(url, loss_id, "reopened", by="ada", note="no")
    assert told(found, url) == 1, "somebody opened it again"


def test_a_channel_that_is_down_is_told_later_and_keeps_nobody_waiting(url, cluster, broken, receiver) -> None:
    with web() as down:
        down.status, down.answer = 503, b"not today"
        found = alerting(
            "channels:\n"
            f"  a: {{url: 'json://:hunter22@127.0.0.1:{down.port}/x', clusters: [{cluster}]}}\n"
            f"  b: {{url: 'json://127.0.0.1:{receiver.port}/x', clusters: [{cluster}]}}\n"
        )
        with pytest.raises(ChannelError, match="a: ") as error:
            told(found, url)
        assert "hunter22" not in str(error.value)
        assert len(receiver.posted) == 1
        down.status = 200
        assert told(found, url) > 0
        assert len(down.posted) == 1
        assert len(receiver.posted) == 1, "the other one knows already"


def test_an_acknowledged_incident_wakes_nobody(url, cluster, broken, receiver) -> None:
    with store.connect(url, "acknowledge all") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT tidegauge.acknowledge_incident(incident_id, 'ann', NULL, 'known') FROM tidegauge.incident"
        )
    assert told(hook(receiver, cluster), url) == 0


def test_quiet_hours_hold_back_and_let_go(url, cluster, broken, receiver) -> None:
    found = hook(receiver, cluster, ", quiet: {from: '05:00', to: '07:00', but: []}")
    assert told(found, url, NOW) == 0
    assert told(found, url, NOW + timedelta(hours=1)) > 0


def test_severity_and_cluster_route(url, cluster, broken, receiver) -> None:
    assert told(hook(receiver, cluster, ", severities: [warning]"), url) == 0
    assert told(hook(receiver, "another"), url) == 0
    assert told(hook(receiver, cluster, ", severities: [critical]"), url) > 0


def test_a_cluster_that_nobody_audits_is_told_and_so_is_that_it_is_audited_again(
    url, cluster, audited, broken, receiver
) -> None:
    found = hook(receiver, cluster, ", severities: [critical]")
    told(found, url)
    receiver.posted.clear()
    assert told(found, url, NOW + timedelta(hours=26)) == 0
    late = NOW + timedelta(hours=27)
    assert told(found, url, late) == 1
    assert told(found, url, late + timedelta(hours=1)) == 0
    assert f"NoFreshAudit ({cluster})" in words(receiver)
    fresh = audited(30)
    receiver.posted.clear()
    assert told(found, url, fresh) == 1
    assert f"[resolved] NoFreshAudit ({cluster})" in words(receiver)


def test_a_cluster_that_was_never_audited_is_missed(url, receiver) -> None:
    hook_of = f"{{url: 'json://127.0.0.1:{receiver.port}/x', clusters: [orders]}}"
    found = alerting(f"expect: [orders]\nchannels: {{hook: {hook_of}}}")
    assert told(found, url) == 1
    assert "No snapshot of it was ever audited." in words(receiver)


def test_alertmanager_gets_labels_that_identify_and_an_end(url, cluster, audited, broken, receiver) -> None:
    found = alerting(
        "console: https://gauge.example.com\nchannels:\n"
        f"  am: {{alertmanager: '{receiver.address}/', clusters: [{cluster}], severities: [critical]}}\n"
    )
    told(found, url)
    ((path, alerts),) = receiver.posted
    assert path == "/api/v2/alerts"
    (first,) = alerts
    ((incident_id,),) = rows(url, "SELECT incident_id FROM tidegauge.v_incident WHERE cluster = %s", cluster)
    identity = {"alertname": "Incident", "severity": "critical", "cluster": cluster, "incident_id": incident_id}
    assert first["labels"] == identity
    assert all(isinstance(value, str) for value in first["labels"].values())
    assert first["annotations"]["runbook_url"] == "docs/guides/incidents.md"
    assert first["endsAt"] > first["startsAt"]
    told(found, url, NOW + timedelta(minutes=10))
    assert {json.dumps(a["labels"]) for a in receiver.posted[1][1]} == {json.dumps(a["labels"]) for a in alerts}, (
        "Alertmanager is told again, under the same labels"
    )
    over = audited(1, sound=True)
    told(found, url, over)
    ended = receiver.posted[2][1]
    assert [a["labels"] for a in ended] == [a["labels"] for a in alerts]
    assert {a["endsAt"] for a in ended} == {"2026-11-21T07:00:00.000Z"}


def test_pagerduty_opens_one_for_each_incident_and_closes_it(
    url, cluster, audited, broken, receiver, monkeypatch
) -> None:
    _towards(monkeypatch, receiver)
    found = alerting(f"channels: {{pd: {{url: '{PAGERDUTY}', clusters: [{cluster}], severities: [critical]}}}}")
    count = told(found, url)
    opened = [body for _, body in receiver.posted]
    assert len(opened) == count
    assert {body["event_action"] for body in opened} == {"trigger"}
    keys = {body["dedup_key"] for body in opened}
    assert len(keys) == count
    assert {body["payload"]["severity"] for body in opened} == {"critical"}
    over = audited(1, sound=True)
    receiver.posted.clear()
    told(found, url, over)
    assert {(body["event_action"], body["dedup_key"]) for _, body in receiver.posted} == {
        ("resolve", key) for key in keys
    }


def test_slack_gets_a_digest(url, cluster, broken, receiver, monkeypatch) -> None:
    _towards(monkeypatch, receiver)
    found = alerting(f"channels: {{slack: {{url: '{SLACK}', clusters: [{cluster}]}}}}")
    told(found, url)
    assert receiver.posted
    assert "Unclean election" in json.dumps(receiver.posted)


def test_e_mail_arrives_as_text(url, cluster, broken, mailbox) -> None:
    found = alerting(f"channels: {{mail: {{url: '{letters_to(mailbox)}', clusters: [{cluster}]}}}}")
    told(found, url)
    (letter,) = mailbox.letters
    read = message_from_string(letter, policy=policy.default)
    assert read["To"] == "oncall@example.com"
    assert cluster in str(read["Subject"])
    assert "Unclean election" in letter.replace("=\r\n", "")


HOSTILE = (
    "<!channel> <script>alert(1)</script>\r\nBcc: all@example.com\x1b[31m @everyone [look](https://evil.example/x)"
)


@pytest.fixture
def hostile(url: str, cluster: str, broken) -> str:
    with store.connect(url, "break it") as connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tidegauge.breach SET explanation = %s WHERE cluster = %s", (f"{HOSTILE} is gone.", cluster)
        )
        cursor.execute("UPDATE tidegauge.incident SET what = %s, avoid = %s", (HOSTILE, HOSTILE))
    return url


def test_a_hostile_name_stays_text_everywhere(hostile, cluster, receiver, mailbox, monkeypatch) -> None:
    _towards(monkeypatch, receiver)
    of = f"clusters: [{cluster}]"
    found = alerting(
        "channels:\n"
        f"  hook: {{url: 'json://127.0.0.1:{receiver.port}/hook', {of}}}\n"
        f"  am: {{alertmanager: 'http://127.0.0.1:{receiver.port}', {of}}}\n"
        f"  slack: {{url: '{SLACK}', {of}}}\n"
        f"  discord: {{url: '{DISCORD}', {of}}}\n"
        f"  mail: {{url: '{letters_to(mailbox)}', {of}}}\n"
    )
    told(found, hostile)
    assert len(receiver.posted) == 4
    for path, body in receiver.posted:
        text = json.dumps(body)
        assert "\\u001b" not in text, path
        assert "\\r\\nBcc" not in text, path
        if "hook" not in path and "api/v2" not in path:
            assert "<!channel>" not in text, "Slack would wake everybody"
            assert "@everyone" not in text, "Discord would"
            assert "https://evil.example" not in text, "it would be a link"
            assert "](" not in text, "with words of its own"
    (letter,) = mailbox.letters
    headers, _, _ = letter.partition("\r\n\r\n")
    assert "Bcc" not in headers.replace("=\r\n", "").split("Subject:")[0]
    read = message_from_string(letter, policy=policy.default)
    assert read["Bcc"] is None
    html = [part for part in read.walk() if part.get_content_type() == "text/html"]
    assert not any("<script>" in part.get_content() for part in html)


def test_a_test_message_reaches_every_kind_of_channel(receiver, mailbox) -> None:
    found = alerting(
        "channels:\n"
        f"  hook: {{url: 'json://127.0.0.1:{receiver.port}/hook'}}\n"
        f"  am: {{alertmanager: 'http://127.0.0.1:{receiver.port}'}}\n"
        f"  mail: {{url: '{letters_to(mailbox)}'}}\n"
    )
    tell_all(found, (), say=lambda _: None)
    assert len(receiver.posted) == 2
    assert len(mailbox.letters) == 1
    with pytest.raises(ChannelError, match="gone: it cannot be reached"):
        tell_all(alerting("channels: {gone: {alertmanager: 'http://127.0.0.1:1'}}"), (), say=lambda _: None)


def test_a_dry_run_tells_nobody(url, cluster, broken, receiver) -> None:
    said: list[str] = []
    count = send(hook(receiver, cluster), url, say=said.append, now=NOW, dry=True)
    assert count == len(said) > 0
    assert not receiver.posted
    assert told(hook(receiver, cluster), url) == count


def _towards(monkeypatch: pytest.MonkeyPatch, receiver: Web) -> None:
    """A service whose address is fixed is played by the receiver."""
    real = requests.Session.request

    def request(self: requests.Session, method: str, url: str, **rest: Any) -> requests.Response:
        return real(self, method, re.sub(r"^https?://[^/]+", receiver.address, url), **rest)

    monkeypatch.setattr(requests.Session, "request", request)


def test_a_simulated_cluster_pages_nobody(url, cluster, audited, receiver) -> None:
    found = hook(receiver, cluster)
    audited(source="simulated")
    assert told(found, url, NOW + timedelta(days=30)) == 0


def test_one_simulated_snapshot_silences_no_cluster(url, cluster, audited, broken, receiver) -> None:
    audited(1, source="simulated")
    assert told(hook(receiver, cluster), url) > 0


def test_a_cluster_that_is_expected_and_only_simulated_is_missed(url, cluster, audited, receiver) -> None:
    at = audited(source="simulated")
    expected = replace(hook(receiver, cluster), expected=frozenset({cluster}))
    assert told(expected, url, at) == 1
    ((_, body),) = receiver.posted
    assert "No snapshot of it was ever audited." in body["message"]
