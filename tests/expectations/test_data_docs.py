"""The pages: whole, linked, and deaf to what names may hold."""

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest

from tidegauge.expectations.agreement import Validation
from tidegauge.expectations.data_docs import pages_of
from tidegauge.expectations.registry import CATALOGUE

HOSTILE = "<script>alert(1)</script>\"'>{{ 7*7 }}\u202e"


def breach(code: str, number: int = 0, **values: Any) -> dict[str, Any]:
    return {
        "breach_id": f"{code}-{number:010d}",
        "code": code,
        "name": CATALOGUE[code].name,
        "severity": "critical",
        "subject": {"topic": "orders", "partition": number, "broker_id": 1},
        "start_offset": 800,
        "end_offset": 1500,
        "records": 700,
        "explanation": "First this.\nThen that.",
        "evidence": {"at_ms": 1795228011123, "isr": [1, 2]},
        "implied_by": None,
        "next": "tidegauge explain it",
    } | values


STEP = ("step", "sentence", "command", "to_complete")


def report(**values: Any) -> dict[str, Any]:
    lines = [
        {
            "code": i.code,
            "name": i.name,
            "severity": i.severity.value,
            "verdict": "holds",
            "checked": 12345,
            "breached": 0,
            "unknown": 0,
            "reasons": {},
        }
        for i in CATALOGUE.values()
    ]
    return {
        "schema_version": 1,
        "run": {
            "run_id": "r1",
            "cluster": "test",
            "snapshot_id": "2026-11-21",
            "previous_snapshot_id": None,
            "ruleset_version": "1",
            "started_at": "2026-11-21T05:00:00Z",
            "finished_at": "2026-11-21T05:00:09Z",
            "consistency": "fuzzy",
            "source": "captured",
        },
        "coverage": {
            "brokers": 3,
            "replicas": 21,
            "segments": 60,
            "segments_reused": 0,
            "batches": 1132,
            "bytes": 1_500_000,
            "unread": [],
        },
        "invariants": lines,
        "breaches": [],
        "losses": [],
    } | values


class Page(HTMLParser):
    """What a browser would make of it, as far as the tests ask."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.links += [v for n in ("href", "src", "action") if (v := values.get(n)) is not None]
        self.ids |= {v for n, v in attrs if n == "id" and v is not None}
        assert not any(name.startswith("on") for name in values), values

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def pages(content: Mapping[str, Any], **validations: Validation) -> Mapping[str, Page]:
    found = list(pages_of(content, validations))
    assert found[-1][0] == "index.html", "whoever finds it finds all"
    return {name: Page(page) for name, page in found}


def test_every_invariant_has_a_page_that_says_what_why_and_what_to_do() -> None:
    found = pages(report())
    assert found.keys() == {"index.html", "risks.html", *(f"{code}.html" for code in CATALOGUE)}
    for code, invariant in CATALOGUE.items():
        page = found[f"{code}.html"]
        for said in (invariant.statement, invariant.because, invariant.reference):
            assert " ".join(said.split()) in page.text
        assert "Mitigation" in page.texts
        assert f"{code} {invariant.name}" in found["index.html"].text


def test_every_link_leads_somewhere_and_nothing_is_loaded() -> None:
    breaches = [breach("D06"), breach("D05", implied_by="D06-0000000000")]
    found = pages(report(breaches=breaches))
    for name, page in found.items():
        assert not {"script", "img", "iframe", "link", "object", "form"} & set(page.tags)
        for link in page.links:
            target, _, anchor = link.partition("#")
            assert anchor in found[target or name].ids | {""}, (name, link)


def test_names_that_others_chose_are_text() -> None:
    hostile = report(
        breaches=[
            breach(
                "J01",
                subject={"group": HOSTILE, "topic": HOSTILE, "partition": 0},
                explanation=HOSTILE,
                evidence={"path": HOSTILE},
                next=HOSTILE,
            )
        ],
        losses=[loss(topic=HOSTILE, cause=HOSTILE, groups_affected=[HOSTILE])],
        incidents=[incident(headline=HOSTILE, avoid=HOSTILE, steps=[dict.fromkeys(STEP, HOSTILE)])],
    )
    hostile["run"] |= {"cluster": HOSTILE, "snapshot_id": HOSTILE, "source": HOSTILE}
    hostile["coverage"]["unread"] = [{"path": HOSTILE, "reason": HOSTILE}]
    hostile["invariants"][0]["reasons"] = {HOSTILE: 3}
    for page in pages(hostile).values():
        assert "script" not in page.tags
        assert "<script>alert(1)</script>" in page.text
        assert "{{ 7*7 }}" in page.text


def loss(**values: Any) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "start_offset": 800,
        "end_offset": 1500,
        "records": 700,
        "leader_epoch": 0,
        "held_by": [1],
        "state": "at_risk",
        "declared_committed": None,
        "cause": "unclean election",
        "groups_affected": [],
    } | values


def test_the_index_tells_losses_breaches_and_what_was_not_read() -> None:
    content = report(losses=[loss()], breaches=[breach("D06"), breach("D05", implied_by="D06-0000000000")])
    content["coverage"]["unread"] = [{"path": "broker-1/orders-0/0.log", "reason": "Permission denied"}]
    line = next(one for one in content["invariants"] if one["code"] == "F08")
    line |= {"verdict": "unknown", "checked": 0, "unknown": 3, "reasons": {"too young to tell": 3}}
    text = pages(content)["index.html"].text
    assert "orders -0 at risk [800, 1500) 700" in text.replace("orders-0", "orders -0")
    assert "First this. Then that." in text
    assert "1 further breach follows from this one" in text
    assert "broker-1/orders-0/0.log Permission denied" in text
    assert "F08 NoHangingTransaction ? unknown warning 0 0 3 too young to tell (3)" in text


def incident(**values: Any) -> dict[str, Any]:
    step = {"step": "avoid", "sentence": "Keep it down.", "command": "tidegauge salvage s", "to_complete": None}
    return {
        "incident_id": "incident-0123456789",
        "severity": "critical",
        "headline": "Unclean election, broker 1 -> 2: orders-0, 700 records at risk",
        "avoid": "Keep broker 1 down.",
        "steps": [step],
    } | values


def test_the_index_begins_with_the_incidents_and_what_to_do() -> None:
    text = pages(report(incidents=[incident()], losses=[loss()]))["index.html"].text
    told = "critical Unclean election, broker 1 -> 2: orders-0, 700 records at risk Keep broker 1 down."
    assert text.index(told) < text.index("tidegauge salvage s") < text.index("at risk [800, 1500) 700")
    many = pages(report(incidents=[incident()] * 250))["index.html"].text
    assert many.count("incident-0123456789") == 200
    assert "50 more are in report.json" in many


def test_a_verdict_is_told_in_words() -> None:
    content = report()
    content["invariants"][0]["verdict"] = "breached"
    text = pages(content)["index.html"].text
    assert "✗ breached 1" in text
    assert f"✓ holds {len(CATALOGUE) - 1}" in text


def test_a_clean_run_says_so() -> None:
    text = pages(report())["index.html"].text
    for said in (
        "No loss was found.",
        "No invariant is breached.",
        "Every file of the snapshot that an audit needs was read.",
    ):
        assert said in text


def test_an_invariant_s_page_shows_its_breaches_evidence_and_the_judge_s_word() -> None:
    validation = Validation(code="D06", suite="s", expectation="e", success=False, unexpected_count=1)
    page = pages(report(breaches=[breach("D06")]), D06=validation)["D06.html"]
    assert "orders-0, broker 1 , offsets [800, 1500), 700 records" in page.text
    assert "2026-11-21 02:26:51.123 UTC" in page.text
    assert "failed, 1 unexpected row, suite s" in page.text


def test_thousands_of_breaches_are_counted_and_a_few_hundred_shown() -> None:
    found = pages(report(breaches=[breach("D06", number=n) for n in range(1500)]))
    assert found["D06.html"].tags.count("article") == 200
    for name in ("index.html", "D06.html"):
        assert "1,300 more are in report.json" in found[name].text


def test_an_invariant_that_the_catalogue_has_not_is_listed_without_a_page() -> None:
    content = report()
    content["invariants"].append(content["invariants"][0] | {"code": "Z99", "name": "Retired"})
    found = pages(content)
    assert "Z99.html" not in found
    assert "Z99 Retired" in found["index.html"].text


@pytest.mark.parametrize("missing", ["run", "invariants", "breaches", "losses", "coverage"])
def test_a_report_that_lacks_a_part_is_no_page_with_holes(missing: str) -> None:
    content = report()
    del content[missing]
    with pytest.raises(Exception, match=missing):
        list(pages_of(content, {}))
