"""How a report reads on a terminal."""

import json
import os
from pathlib import Path

import click
import pytest

from tidegauge.cli import present
from tidegauge.cli.explain import explain
from tidegauge.cli.present import begin, linked
from tidegauge.snapshots.errors import SnapshotError

WRITTEN = ("name", "subject", "explanation", "next")
HOSTILE = "or\x1b[31mders\n\u202e"


def breach(breach_id: str, *, implied_by: str | None = None, severity: str = "critical", topic: str = "orders") -> dict:
    return {
        "breach_id": breach_id,
        "code": "D06",
        "name": "NoCommittedTruncation",
        "severity": severity,
        "subject": {"topic": topic, "partition": 0, "follower_id": 1},
        "explanation": "Broker 1 holds offsets 800..1499.\nBroker 1 will truncate to 800.",
        "evidence": {"divergence_offset": 800, "newer_epoch": None},
        "implied_by": implied_by,
        "next": "keep broker 1 down",
    }


def incident(*breach_ids: str, severity: str = "critical", topic: str = HOSTILE) -> dict:
    return {
        "incident_id": "incident-0123456789",
        "severity": severity,
        "headline": f"Unclean election, broker 1 -> 2: {topic}-0, 700 records at risk; believe broker 1",
        "avoid": "Keep broker 1 down.",
        "members": [{"kind": "breach", "breach_id": b, "because": "it names it"} for b in breach_ids],
        "steps": [],
    }


@pytest.fixture
def report() -> dict:
    return {
        "run": {"cluster": "demo", "snapshot_id": "s1", "consistency": "fuzzy"},
        "coverage": {
            "brokers": 3, "replicas": 24, "segments": 53, "segments_reused": 0, "batches": 1132, "bytes": 2_300_000,
            "unread": [{"path": f"broker-1/{HOSTILE}", "reason": "a link; not followed"}],
        },
        "invariants": [
            {"code": "D06", "name": "NoCommittedTruncation", "severity": "critical", "verdict": "breached",
             "checked": 16, "breached": 1, "unknown": 0, "reasons": {}},
            {"code": "D08", "name": "FollowerNotAheadOfLeader", "severity": "warning", "verdict": "unknown",
             "checked": 4, "breached": 0, "unknown": 2, "reasons": {"copy skew": 2}},
            {"code": "A01", "name": "BatchLengthChain", "severity": "critical", "verdict": "holds",
             "checked": 53, "breached": 0, "unknown": 0, "reasons": {}},
        ],
        "incidents": [incident("D06-1", "D02-1", "K07-1"), incident("D05-1", severity="info")],
        "breaches": [
            breach("D06-1"),
            breach("K07-1") | {"code": "K07", "name": "ElectionsAreClean"},
            breach("D02-1", implied_by="D06-1"),
            breach("D05-1", severity="info"),
        ],
        "losses": [
            {"topic": HOSTILE, "partition": 0, "start_offset": 800, "end_offset": 1500, "records": 700,
             "held_by": [1], "state": "at_risk", "declared_committed": 72, "cause": "unclean election",
             "groups_affected": ["billing"]},
        ],
        "open_transactions": [
            {"topic": "raw", "partition": 0, "producer_id": 1001, "producer_epoch": 0, "transactional_id": None,
             "first_offset": 84, "coordinator_state": None, "hanging": True},
        ],
    }  # fmt: skip


def said(report: dict) -> str:
    return click.unstyle("\n".join(present.lines(report)))


def test_the_order_is_coverage_incidents_verdicts_losses(report):
    text = said(report)
    places = [
        text.index(part)
        for part in ("Read 3 brokers", "Unclean el", "D06 No", "3 invariants: 1 hold", "Losses: 700", "Open t")
    ]
    assert places == sorted(places)


def test_a_breach_is_argued_line_by_line_and_ends_with_the_command(report):
    lines = said(report).splitlines()
    at = lines.index("  Broker 1 holds offsets 800..1499.")
    assert lines[at - 1].startswith("D06 NoCommittedTruncation  orders-0, follower 1  critical")
    assert lines[at + 1 : at + 3] == ["  Broker 1 will truncate to 800.", "  Next: keep broker 1 down"]


def test_an_incident_is_a_sentence_then_what_not_to_do_then_its_worst_breach_and_the_others_named(report):
    lines = said(report).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("Unclean election, broker 1 -> 2"))
    assert lines[at + 1] == "  Keep broker 1 down.  critical  [incident-0123456789]"
    assert lines[at + 2].startswith("D06 NoCommittedTruncation")
    folded = lines.index("  Folded into it: 1 more breach.")
    assert lines[folded + 1] == "    K07 ElectionsAreClean  orders-0, follower 1  [K07-1]"
    # Of severity info nothing is printed but how many there are.
    assert "\n".join(lines).count("Unclean election") == 1


def test_incidents_beyond_what_anybody_reads_are_counted(report):
    report["incidents"] *= 60
    text = said(report)
    assert text.count("[incident-0123456789]") == present.INCIDENTS_SHOWN
    assert "… and 40 more incidents, in the report." in text


def test_consequences_are_folded_under_their_root(report):
    text = said(report)
    assert text.count("Broker 1 holds offsets") == 1
    assert "Follows from it: D06." in text
    assert "1 further finding of severity info" in text


def test_what_is_not_known_is_told_with_its_reason(report):
    assert "  copy skew: D08" in said(report).splitlines()


def test_losses_say_who_holds_them_and_whom_they_concern(report):
    text = said(report)
    assert "700 records, at risk, held by broker 1, at least 72 declared committed" in text
    assert "Groups that had read past it: billing" in text


def test_no_losses_are_said_too(report):
    report["losses"] = []
    assert "Losses: none found." in said(report)


def test_names_out_of_a_snapshot_cannot_write_to_the_terminal(report):
    text = "\n".join(present.lines(report))
    assert "\x1b[31mders" not in text
    assert "\u202e" not in text
    assert "or\\x1b[31mders" in text


def everywhere(value: object) -> object:
    """The same value, with what steers a terminal in each text by which nothing is looked up."""
    if isinstance(value, dict):
        looked_up = {"code", "severity", "verdict", "points_to", "state", "failure", "implied_by"}
        return {
            f"{name}\x1b[8m" if name == "follower_id" else name: inner if name in looked_up else everywhere(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [everywhere(inner) for inner in value]
    return f"{value}\x1b[2J\x9b\u202e" if isinstance(value, str) else value


def test_a_report_that_somebody_else_wrote_cannot_write_to_the_terminal(report):
    text = said(everywhere(report))
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "NoCommittedTruncation\\x1b[2J" in text


def test_a_breach_of_a_report_that_somebody_else_wrote_is_explained_plainly(report, tmp_path):
    first, _, second, _ = report["breaches"]
    hostile = {**first, "breach_id": "D06-1", **{n: everywhere(v) for n, v in first.items() if n in WRITTEN}}
    hostile |= {"implied_by": "\x1b]0;owned\x07", "severity": "critical", "evidence": {"a\x1b[31m": "b\x1b[31m"}}
    report["breaches"] = [hostile, everywhere(second) | {"breach_id": "D02-1\x1b[2K\n", "implied_by": "D06-1"}]
    (tmp_path / "report.json").write_text(json.dumps(report))
    text = click.unstyle("\n".join(explain("D06-1", tmp_path)))
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "It follows from \\x1b]0;owned\\x07." in text
    assert "[D02-1\\x1b[2K\\x0a]" in text


@pytest.mark.parametrize("laid", ["[" * 100_000, "{}", "[]", '{"breaches": 1}', "\xff", None])
def test_a_report_that_is_none_is_said_to_be_none(tmp_path, laid):
    if laid is None:
        os.mkfifo(tmp_path / "report.json")
    else:
        (tmp_path / "report.json").write_text(laid, encoding="latin-1")
    with pytest.raises(SnapshotError, match=r"report\.json"):
        list(explain("D06-1", tmp_path))


def test_a_breach_is_explained_with_its_evidence_and_what_follows(report, tmp_path):
    (tmp_path / "report.json").write_text(json.dumps(report))
    text = click.unstyle("\n".join(explain("D06-1", tmp_path)))
    assert "divergence_offset = 800" in text
    assert "newer_epoch" not in text
    assert "From it follows D06 NoCommittedTruncation [D02-1]" in text
    assert "It follows from D06-1." in "\n".join(explain("D02-1", tmp_path))


def test_the_last_line_says_where_to_begin() -> None:
    minor, worst = incident("B01-c", severity="info"), incident("D06-a")
    assert begin([worst, minor], [], Path("a b")) == "tidegauge plan incident-0123456789 --report 'a b'"
    there = begin([worst], [], Path("x"), command="/c/.venv/bin/tidegauge")
    assert there == "/c/.venv/bin/tidegauge plan incident-0123456789 --report x"
    assert begin([minor], [], Path("x")) == "nothing to do: nothing is breached"
    assert "bring back the missing evidence" in begin([minor], [{"blinds": ["D06"]}], Path("x"))


def test_a_path_is_a_link_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert linked(Path("/a\x1b[2J b")) == "/a\\x1b[2J b"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert linked(Path("/a\x1b b")) == "\x1b]8;;file:///a%1B%20b\x1b\\/a\\x1b b\x1b]8;;\x1b\\"
