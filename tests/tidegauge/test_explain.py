"""A breach explained: the timeline around it, and the same words from a report and from a store."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.conftest import Golden
from tidegauge.audit.explained import Explained, from_store
from tidegauge.audit.request import AuditRequest
from tidegauge.audit.steps import audit
from tidegauge.cli.explain import explain, lines
from tidegauge.cli.main import main
from tidegauge.store.incident_reading import headline, incidents

BREACH = {
    "breach_id": "D06-1", "code": "D06", "name": "NoCommittedTruncation", "severity": "critical",
    "subject": {"topic": "orders", "partition": 0, "leader_id": 2, "follower_id": 1},
    "start_offset": 800, "end_offset": 1500, "records": 700, "explanation": "First this.", "implied_by": None,
    "evidence": {"newer_epoch": 40, "unclean_election_offset": None}, "next": "then that",
    "points_to": "lost_flush", "believe": [1], "diagnosis": "The tail is gone.",
}  # fmt: skip


def change(offset: int, **values: Any) -> dict[str, Any]:
    return {
        "metadata_offset": offset, "at_ms": 1_795_228_011_123 + offset, "leader_id": 2, "previous_leader_id": 2,
        "leader_epoch": offset, "isr": [2], "previous_isr": [2], "elr": [], "previous_elr": [], "adding_replicas": [],
        "removing_replicas": [], "replicas": [1, 2], "election": "none",
    } | values  # fmt: skip


def told(**values: Any) -> list[str]:
    return click.unstyle("\n".join(lines(Explained(breach=BREACH, consequences=[], **values)))).splitlines()


def test_it_ends_with_the_next_command_and_says_whom_to_believe() -> None:
    text = told()
    assert "  Points to a lost flush: The tail is gone. Believe broker 1." in text
    assert text[-1] == "  Next: then that"
    assert text.index("  Runbook NoCommittedTruncation:") > text.index("  Evidence:")
    assert {"    Meaning", "    Impact", "    Diagnosis", "    Mitigation"} <= set(text)


def test_the_timeline_is_cut_around_the_record_that_began_the_epoch() -> None:
    changes = [change(offset) for offset in range(100)]
    broker = {"broker_id": 1, "metadata_offset": 41, "at_ms": None, "change": "fenced", "broker_epoch": 7}
    text = told(partition_changes=changes, broker_changes=[broker])
    at = text.index("  The metadata log around it:")
    assert text[at + 1] == "    … 28 earlier"
    (marked,) = [line for line in text if line.startswith("    > ")]
    assert marked.startswith("    > offset 40, 2026-11-21")
    assert "      offset 41, before the log that is kept: broker 1 fenced" in text
    assert "    … 49 later" in text


@pytest.mark.slow
@pytest.mark.jvm
def test_a_report_and_a_store_tell_the_same(golden: Golden, tmp_path: Path, empty_store: str) -> None:
    out = tmp_path / "out"
    asked = AuditRequest(snapshots=(str(golden("unclean-before")),), out=out, fail_on="critical", store=empty_store)
    done = audit(asked, master="local[2]", progress=lambda _: None)
    assert done.exit_code == 1
    report = json.loads((out / "report.json").read_text())
    assert {b["points_to"] for b in report["breaches"] if b["severity"] == "critical"} == {"unclean_loss"}
    roots = [b for b in report["breaches"] if b["code"] == "D06"]
    assert {tuple(b["believe"]) for b in roots} == {(1,)}
    for breach in roots:
        text = list(explain(breach["breach_id"], out))
        assert text == list(lines(from_store(breach["breach_id"], empty_store)))
        assert any("> offset" in line and "unclean election: broker" in line for line in text)
        assert any(line.startswith(f"  Part of {report['incidents'][0]['incident_id']}: Unclean elec") for line in text)
    told = [(incident["incident_id"], incident["headline"]) for incident in report["incidents"]]
    assert [(row["incident_id"], headline(row)) for row in incidents(empty_store) or ()] == told
    risks = {(r["topic"], tuple(r["brokers"])): r for r in report["risks"]}
    assert risks["orders", (2, 3)]["losing_partitions"] == [0]
    assert report["risks"][0]["losing"]
    assert (out / "data_docs" / "risks.html").read_text().count("orders") > 1


@pytest.mark.parametrize(
    "report",
    [
        "", "[", "{}", "[]", "null", "7", '"breaches"', '{"breaches": {}}', '{"breaches": [{}]}', '{"breaches": [7]}',
        '{"breaches": [[]]}', "[" * 100_000,
    ],
    ids=lambda text: text[:18],
)  # fmt: skip
def test_what_is_no_report_is_said_in_a_sentence(tmp_path: Path, report: str) -> None:
    (tmp_path / "report.json").write_text(report)
    done = CliRunner().invoke(main, ["explain", "D06-1", "--report", str(tmp_path)])
    assert done.exit_code == 2, done.output
    assert "is not a report that can be used" in done.output


def of_a_report(tmp_path: Path, **values: Any) -> Result:
    (tmp_path / "report.json").write_text(json.dumps({"breaches": [BREACH | values]}))
    return CliRunner().invoke(main, ["explain", "D06-1", "--report", str(tmp_path)])


def test_a_report_without_facts_is_told(tmp_path: Path) -> None:
    assert of_a_report(tmp_path).exit_code == 0
    assert of_a_report(tmp_path, severity="warning", believe=[], implied_by="D01-1").exit_code == 0


@pytest.mark.parametrize(
    "values",
    [
        {"subject": None},
        {"subject": {"topic": "orders", "partition": "zero"}},
        {"subject": {"broker_id": []}},
        {"evidence": []},
        {"evidence": {"unclean_election_offset": "late"}},
        {"severity": "dire"},
        {"severity": []},
        {"code": 6},
        {"explanation": None},
        {"believe": 7},
        {"points_to": ["lost_flush"]},
        {"next": {}},
    ],
    ids=str,
)
def test_a_breach_that_is_none_of_ours_is_said_in_a_sentence(tmp_path: Path, values: dict[str, Any]) -> None:
    done = of_a_report(tmp_path, **values)
    assert done.exit_code == 2, done.output
    assert "is not a report that can be used" in done.output


def test_facts_that_are_none_are_said_in_a_sentence(tmp_path: Path) -> None:
    for relation in ("partition_changes", "broker_changes"):
        (tmp_path / "facts" / relation).mkdir(parents=True)
        (tmp_path / "facts" / relation / "part-0.parquet").write_bytes(b"no Parquet")
    assert of_a_report(tmp_path).exit_code == 2
