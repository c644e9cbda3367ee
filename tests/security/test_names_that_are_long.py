"""Names as long as Kafka, or a manifest's writer, can make them: they stop no message and no other snapshot's audit."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.derivation.small_cluster import small_world, taken, written
from tests.security.hostile import manifest_of
from tidegauge.alerts.deliver import _room
from tidegauge.alerts.message import LONGEST_TITLE, digest, text, title
from tidegauge.alerts.model import INCIDENT, Alert, AlertKey
from tidegauge.runs.run import NO_STORE, new_run
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.fields import LONGEST_NAME
from tidegauge.snapshots.location import location
from tidegauge.snapshots.manifest import MANIFEST_NAME, from_json

GROUP = "g" * 32_767
FOUND = Alert(
    key=AlertKey("payments", "incident-7b7f9305dc", "1"),
    severity="critical",
    name=INCIDENT,
    subject={},
    explanation=(f"Stop the group {GROUP}.", "The log ends at 10."),
    headline=f"Committed offsets of group {GROUP}: 12 where the log ends at 10",
    next=f"kafka-consumer-groups.sh --group {GROUP}",
    began_at=datetime(2026, 11, 21, tzinfo=UTC),
)
CONSOLE = "https://gauge.example.com"
SERVICES = {
    "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#c": 35_000,
    "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js": 2_000,
    "workflows://host/workflow/signature": 1_000,
    "pagerduty://A1BRTD4JD_TIiajkdnlazkcOXrIdevi7FQ@TIiajkdnlazkcOXrIdevi7FQ1234abcd": 1_024,
    "tgram://123456789:abcdefg_hijklmnop/12315544": 4_096,
    "mailto://u:p@example.com": 32_768,
    "json://localhost/x": 32_768,
}
"""Addresses, and the characters that the service takes."""


@pytest.mark.parametrize(("address", "takes"), SERVICES.items())
def test_no_message_is_longer_than_the_service_takes(address: str, takes: int) -> None:
    room = _room(address)
    for many in (1, 2, 40):
        heading, body = digest([FOUND] * many, CONSOLE, room)
        assert len(heading) <= LONGEST_TITLE
        assert len(body) <= room
        assert len(body) + (len(heading) if room < takes - LONGEST_TITLE else 0) <= takes
        if many == 40:
            assert body.splitlines()[-1].startswith("and ")
    assert len(title(FOUND)) <= LONGEST_TITLE


def test_of_an_alert_that_is_too_long_where_to_read_on_is_kept() -> None:
    lines = text(FOUND, CONSOLE, 600).splitlines()
    assert lines[-2:] == [
        "Runbook: docs/guides/incidents.md",
        "Look: https://gauge.example.com/clusters/payments/incidents/incident-7b7f9305dc",
    ]
    short = replace(FOUND, explanation=("The log ends at 10.",), next="")
    assert text(short, CONSOLE).splitlines()[0] == "The log ends at 10."


@pytest.mark.parametrize("field", ["cluster", "cluster_id", "snapshot_id"])
def test_a_name_that_no_index_of_the_store_takes_is_refused_and_the_others_are_judged(
    field: str, tmp_path: Path
) -> None:
    good = taken(written(tmp_path / "good", small_world()))
    hostile = taken(written(tmp_path / "hostile", small_world()))
    value = manifest_of(hostile) | {"snapshot_id": "other"} | {field: "x" * (LONGEST_NAME + 1)}
    (hostile / MANIFEST_NAME).write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(SnapshotError, match=f"{field} is longer than"):
        from_json(json.dumps(value), place=location(str(hostile)), where="it")
    value[field] = "x" * LONGEST_NAME
    assert from_json(json.dumps(value), place=location(str(hostile)), where="it").brokers
    run = new_run(
        tmp_path / "out", (str(good), str(hostile)), store_url=NO_STORE, fail_on="never", started_at_ms=1 << 42
    )
    assert [snapshot.root for snapshot in run.snapshots] == [good]
