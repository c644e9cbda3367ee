"""The catalogue is whole: nothing in it lacks what is rendered from it."""

import re
from string import Formatter

import pytest

from tests.expectations.test_cases import FOLDERS, cases_of, folder_of
from tidegauge.dev.new_invariant import FILL_IN
from tidegauge.expectations.arithmetic import unbounded
from tidegauge.expectations.data_docs import FAMILIES, runbook
from tidegauge.expectations.dialects import Dialect
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE, RULESET_VERSION
from tidegauge.expectations.states import state_expression
from tidegauge.expectations.verdicts import subject_columns
from tidegauge.relations import RELATIONS

SQL_WORDS = {
    "and", "or", "not", "is", "null", "true", "false", "case", "when", "then", "else", "end", "in", "between", "like",
    "coalesce", "cardinality", "greatest", "least", "abs", "mod", "nullif", "distinct", "from", "any", "array",
}  # fmt: skip


def names_in(sql: str) -> set[str]:
    """Identifiers of an SQL expression: what is left without text literals, numbers and keywords."""
    bare = re.sub(r"'(?:[^']|'')*'", " ", sql)
    words = re.findall(r'"([^"]+)"|\b([A-Za-z_][A-Za-z_0-9]*)\b', bare)
    return {quoted or word for quoted, word in words if quoted or word.lower() not in SQL_WORDS}


def fields_in(template: str) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(template) if field}


def expressions(invariant: Invariant) -> list[str]:
    optional = (invariant.applies_when, invariant.start_offset, invariant.end_offset, invariant.records)
    return [
        invariant.breach_when,
        *(u.when for u in invariant.unknown),
        *(when for _, when in invariant.severity_when),
        *(expression for _, expression in invariant.derived),
        *(expression for expression in optional if expression is not None),
    ]


def test_it_is_in_code_order() -> None:
    assert list(CATALOGUE) == sorted(CATALOGUE)
    assert RULESET_VERSION


def test_every_folder_holds_an_invariant_and_what_belongs_to_it() -> None:
    ours = set(map(folder_of, CATALOGUE))
    # One that git has emptied may stay behind, with bytecode in it.
    there = {path for path in FOLDERS.iterdir() if path.name != "__pycache__" and any(path.glob("*.*"))}
    assert there == {*ours, FOLDERS / "shared"}
    for folder in ours:
        files = {path.name for path in folder.glob("*.*")}
        assert {"__init__.py", "invariant.py", "runbook.md", "cases.yaml"} <= files, folder


def test_a_reason_asks_for_the_same_piece_of_evidence_wherever_it_stands() -> None:
    asked: dict[str, set[Evidence | None]] = {}
    for unknown in (unknown for invariant in CATALOGUE.values() for unknown in invariant.unknown):
        asked.setdefault(unknown.reason, set()).add(unknown.evidence)
    assert {reason: pieces for reason, pieces in asked.items() if len(pieces) > 1} == {}


def nothing_of_the_skeleton_is_left(invariant: Invariant) -> None:
    left = [
        f"{path.relative_to(FOLDERS)}:{number}: {line.strip()}"
        for path in sorted(folder_of(invariant.code).glob("*.*"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if FILL_IN in line.replace("fill_in", FILL_IN)
    ]
    assert left == [], "\n".join(["to be filled in:", *left])


@pytest.mark.parametrize("field", ["code", "key", "name", "statement"])
def test_no_two_share_a_name(field: str) -> None:
    values = [getattr(i, field) for i in CATALOGUE.values()]
    assert len(set(values)) == len(values)


def names_have_their_form(invariant: Invariant) -> None:
    assert re.fullmatch(r"[A-Z]\d\d", invariant.code)
    assert invariant.code[0] in FAMILIES
    assert re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*", invariant.key)
    assert re.fullmatch(r"([A-Z][a-z0-9]+)+", invariant.name)


def it_says_what_it_means_in_sentences(invariant: Invariant) -> None:
    for text in (invariant.statement, invariant.because):
        assert re.fullmatch(r"[^a-z].*[.)]", text, re.DOTALL), text
    for text in (invariant.statement, invariant.because, *invariant.explanation, invariant.next, invariant.reference):
        assert text
        assert " ".join(text.split()) == text
    assert invariant.explanation


def its_relation_has_every_column_that_it_names(invariant: Invariant) -> None:
    relation = RELATIONS[invariant.relation]
    columns = set(relation.column_names)
    for expression in expressions(invariant):
        assert names_in(expression) <= columns, expression
    derived = {name for name, _ in invariant.derived}
    assert not derived & columns, "a derived name hides a column"
    assert set(subject_columns(invariant)) <= columns
    assert set(invariant.evidence) <= columns | derived
    for template in (*invariant.explanation, invariant.next):
        assert fields_in(template) <= columns | derived, template
    if invariant.details:
        assert relation.details is not None


def it_has_a_runbook(invariant: Invariant) -> None:
    text = runbook(invariant)
    assert re.findall(r"^#.*", text, re.MULTILINE) == [
        f"# {invariant.name} ({invariant.code})",
        "## Meaning",
        "## Impact",
        "## Diagnosis",
        "## Mitigation",
    ]


def it_has_cases_of_every_verdict_and_every_reason(invariant: Invariant) -> None:
    cases = cases_of(invariant.code)
    verdicts = {name.split("_", 1)[0] for name in cases}
    assert {"holds", "breached", "unknown"} <= verdicts <= {"holds", "breached", "unknown", "ignored"}
    reasons = {case["reason"] for name, case in cases.items() if name.startswith("unknown_")}
    assert {u.reason for u in invariant.unknown} <= reasons
    severities = {case.get("severity", invariant.severity) for name, case in cases.items() if "says" in case}
    assert {severity for severity, _ in invariant.severity_when} <= severities
    columns = set(RELATIONS[invariant.relation].column_names)
    for name, case in cases.items():
        assert set(case["row"]) <= columns, name


def its_sums_have_no_bounds(invariant: Invariant) -> None:
    for sql in expressions(invariant):
        assert unbounded(sql).count("CAST(") == sum(sql.count(f" {sign} ") for sign in "+-*"), sql


def it_can_be_judged_in_spark(invariant: Invariant) -> None:
    said = state_expression(invariant, dialect=Dialect.SPARK)
    assert not {'"', "ANY", "&&", "cardinality", "numeric"} & set(said.replace("(", " ").split())


def test_what_one_implies_is_in_the_catalogue_and_leads_back_to_none() -> None:
    implies = {code: set(i.implies) for code, i in CATALOGUE.items()}
    assert set().union(*implies.values()) <= CATALOGUE.keys()
    reached = {code: set(codes) for code, codes in implies.items()}
    for _ in CATALOGUE:
        reached = {c: codes.union(*(reached[r] for r in codes)) for c, codes in reached.items()}
    assert [code for code, codes in reached.items() if code in codes] == []


def test_every_relation_has_a_subject_that_exists() -> None:
    for relation in RELATIONS.values():
        assert relation.subject
        assert {*relation.key, *relation.subject} <= set(relation.column_names)
        if relation.details is not None:
            assert relation.details.column in relation.column_names


@pytest.mark.parametrize("code", CATALOGUE)
def test_an_invariant_is_whole(code: str, subtests: pytest.Subtests) -> None:
    """One test an invariant: `-k CODE` chooses it, and what it lacks is named all at once."""
    for holds in (
        nothing_of_the_skeleton_is_left,
        names_have_their_form,
        it_says_what_it_means_in_sentences,
        its_relation_has_every_column_that_it_names,
        it_has_a_runbook,
        it_has_cases_of_every_verdict_and_every_reason,
        its_sums_have_no_bounds,
        it_can_be_judged_in_spark,
    ):
        with subtests.test(holds.__name__):
            holds(CATALOGUE[code])
