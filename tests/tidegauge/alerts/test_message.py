"""Where an alert says to read on."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tidegauge.alerts.message import runbook
from tidegauge.alerts.model import Alert, AlertKey

ROOT = Path(__file__).parents[3]
FOUND = Alert(
    key=AlertKey("payments", "D06-a1a8056a21", 1),
    severity="critical",
    code="D06",
    name="NoCommittedTruncation",
    subject={},
    explanation=(),
    began_at=datetime(2026, 11, 21, tzinfo=UTC),
)


def test_the_runbook_is_a_page_of_the_console_or_a_file_that_is_there() -> None:
    assert runbook(FOUND, "https://gauge.example.com") == "https://gauge.example.com/invariants/D06"
    assert runbook(FOUND, None) == "expectations/invariants/D06_NoCommittedTruncation/runbook.md"
    assert (ROOT / runbook(FOUND, None)).is_file()


def test_a_breach_that_the_store_no_longer_holds_keeps_its_runbook() -> None:
    withdrawn = replace(FOUND, name=FOUND.key.name)
    assert runbook(withdrawn, None) == runbook(FOUND, None)


def test_of_a_code_that_this_version_does_not_know_the_list_is_named() -> None:
    unknown = runbook(replace(FOUND, code="Z99", name="Z99-a1a8056a21"), None)
    assert (ROOT / unknown).is_file()
