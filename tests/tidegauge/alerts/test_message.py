"""Where an alert says to read on."""

from datetime import UTC, datetime
from pathlib import Path

from tidegauge.alerts.message import page, runbook, text, title
from tidegauge.alerts.model import INCIDENT, Alert, AlertKey

ROOT = Path(__file__).parents[3]
FOUND = Alert(
    key=AlertKey("payments", "incident-7b7f9305dc", "1"),
    severity="critical",
    name=INCIDENT,
    subject={},
    explanation=("Keep broker 1 down.", "Breaches: D06, K07."),
    headline="Unclean election, broker 1 -> 2: orders-0, 700 records at risk; believe broker 1",
    next="tidegauge plan incident-7b7f9305dc",
    began_at=datetime(2026, 11, 21, tzinfo=UTC),
)


def test_the_title_is_the_incident_s_sentence_and_the_text_begins_with_what_not_to_do() -> None:
    assert title(FOUND) == f"[critical] {FOUND.headline} (payments)"
    assert text(FOUND, None).splitlines() == [
        "Keep broker 1 down.",
        "Breaches: D06, K07.",
        "Next: tidegauge plan incident-7b7f9305dc",
        "Runbook: docs/guides/incidents.md",
    ]


def test_the_runbook_is_a_file_that_is_there_and_the_page_the_console_s() -> None:
    assert (ROOT / runbook(FOUND, None)).is_file()
    assert page(FOUND, None) is None
    assert (
        page(FOUND, "https://gauge.example.com")
        == "https://gauge.example.com/clusters/payments/incidents/incident-7b7f9305dc"
    )
