"""Suites: complete, of the types that they are meant to be of, and what becomes of one that is stored.

Great Expectations takes seconds to import: here and beside, each test that needs it does so.
"""

import json
from pathlib import Path

import pytest

from tidegauge.expectations.errors import EvaluationError
from tidegauge.expectations.registry import CATALOGUE, by_relation


@pytest.mark.parametrize(
    ("rendering", "type_name"),
    [("suites", "expect_invariant_to_hold"), ("plain_suites", "unexpected_rows_expectation")],
    ids=["of the custom expectation", "plain"],
)
def test_each_relation_has_a_suite_and_each_invariant_an_expectation(rendering: str, type_name: str) -> None:
    from tidegauge.expectations.gx import suites

    rendered = getattr(suites, rendering)()
    assert rendered.keys() == {i.relation for i in CATALOGUE.values()}
    for relation, members in by_relation(CATALOGUE.values()).items():
        found = {e.meta["code"]: e for e in rendered[relation].expectations}
        assert found.keys() == {i.code for i in members}
        for invariant in members:
            assert found[invariant.code].configuration.type == type_name
            assert found[invariant.code].severity == invariant.severity.value
            assert invariant.statement in found[invariant.code].description


def test_a_suite_of_the_custom_expectation_cannot_be_stored(tmp_path: Path) -> None:
    """A process that does not import the class would load it without its expectations, and call it a success."""
    import great_expectations as gx

    from tidegauge.expectations.gx.suites import suites

    context = gx.get_context(mode="file", project_root_dir=tmp_path)
    with pytest.raises(EvaluationError, match=r"is not stored.*tidegauge gx export"):
        context.suites.add(suites()["replicas"])
    assert list((tmp_path / "gx" / "expectations").glob("*.json")) == []
    stored = context.suites.add(gx.ExpectationSuite(name="mine"))
    with pytest.raises(EvaluationError, match="is not stored"):
        stored.add_expectation(suites()["replicas"].expectations[0])
    assert json.loads((tmp_path / "gx" / "expectations" / "mine.json").read_text())["expectations"] == []
