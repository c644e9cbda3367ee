"""Every capture of a real cluster with one kind of evidence removed at a time: what is not known is not called sound.

Held for each, beside the verdicts on the whole capture: no invariant that was breached holds, nothing is cried that was
not cried of the whole, each verdict that is known no more says which evidence it lacks, as the report's coverage does,
and who was told of a loss is not let go with exit code 0. The one exception is named, with what is left there to tell.

Of each capture `make test` takes every third removal, and of the next capture the ones behind these, so that each kind
is taken of many; `make soak` takes all the others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import GOLDEN, Golden
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.derivation.removals import linked, removals_of
from tests.sampling import one_in
from tidegauge.audit.evaluate import worst_at_or_above
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach, InvariantResult
from tidegauge.runs.missing_evidence import kept, told_coverage

CAPTURES = sorted(path.name.removesuffix(".tar.gz") for path in GOLDEN.glob("*.tar.gz"))
_G08 = "G08 does not say what it lacks: {'nothing to check': 0}"
NOTHING_TELLS = {
    ("format-upgraded", "broker-1"): "exit code 0",
    ("pair-clean-b2", "indexes"): _G08,
    ("pair-clean-b2", "transaction indexes"): _G08,
}
"""What is said there, and nothing can be done about. Two replicas agree to the byte, no metadata log says who else
there was, and every group has committed anew: what was lost long ago is on the disk alone that is not there. And of an
aborted transaction whose records and marker a cleaner took, the transaction index alone tells.
"""
FAMILIES = {code[0] for code in CATALOGUE}
FAIL_ON = "critical"
"""What `tidegauge audit` ends with exit code 1 for, where nobody says otherwise."""
SHARES = 3
"""Of a capture's removals: the first one is of `make test`, the others are of `make soak`."""
_HELD_AGAINST = "leader_id"
"""In a subject: the replica that another was compared with. Where its broker is gone, it is compared with another."""

Cried = tuple[str, tuple[tuple[str, Any], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit says of a directory."""

    verdicts: Mapping[str, InvariantResult]
    breaches: list[Breach]
    blinded: Mapping[str, list[str]]
    """Piece of evidence -> the codes that it leaves open, by the report's coverage."""
    fails: bool
    """It ends with an exit code that is not 0."""


def audited(judge: Judge, directory: Path) -> Audit:
    facts = derived(directory)
    verdicts, breaches = judge.verdicts(facts, FAMILIES)
    coverage = told_coverage({"missing": kept(facts.missing())}, list(verdicts.values()))
    report = {"breaches": [{"severity": b.severity} for b in breaches], "losses": facts.rows["losses"]}
    return Audit(
        verdicts=verdicts,
        breaches=breaches,
        blinded={piece["evidence"]: piece["blinds"] for piece in coverage["missing_evidence"]},
        fails=worst_at_or_above(report, FAIL_ON),
    )


def cried(breach: Breach) -> Cried:
    """What a breach is about: code and subject."""
    return breach.code, tuple(sorted((k, str(v)) for k, v in breach.subject.items() if k != _HELD_AGAINST))


def forgiven(whole: Audit, less: Audit) -> Iterator[str]:
    """Which invariants were breached, and hold since evidence is gone."""
    for code, now in less.verdicts.items():
        if whole.verdicts[code].verdict == "breached" and now.verdict == "holds":
            yield f"{code} was breached and holds"


def wrong_beside(whole: Audit, less: Audit) -> Iterator[str]:
    """What must not be said with less evidence than the whole has."""
    yield from forgiven(whole, less)
    for code, now in less.verdicts.items():
        was = whole.verdicts[code].verdict
        if was != "unknown" and now.verdict == "unknown":
            if not now.lacks:
                yield f"{code} does not say what it lacks: {dict(now.reasons)}"
            yield from (
                f"{code} lacks {e}, and the coverage does not say so"
                for e in now.lacks
                if code not in less.blinded.get(e, ())
            )
    known = {cried(b) for b in whole.breaches if b.severity != "info"}
    for breach in less.breaches:
        if breach.severity != "info" and cried(breach) not in known:
            yield f"{breach.code} of {dict(breach.subject)} is cried: {breach.explanation}"
    if whole.fails and not less.fails:
        yield "exit code 0"


@pytest.mark.parametrize("share", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, SHARES))])
@pytest.mark.parametrize("name", one_in(40, CAPTURES, CAPTURES))
def test_nothing_is_made_up_and_nothing_forgiven_where_evidence_is_removed(
    name: str, share: int, golden: Golden, judge: Judge, tmp_path: Path
) -> None:
    whole = audited(judge, golden(name))
    found = {}
    for number, removal in enumerate(removals_of(golden(name))):
        if (number + CAPTURES.index(name)) % SHARES != share:
            continue
        copy = linked(golden(name), tmp_path / str(number) / name)
        removal.take(copy)
        wrong = list(wrong_beside(whole, audited(judge, copy)))
        if (name, removal.name) in NOTHING_TELLS:
            wrong.remove(NOTHING_TELLS[name, removal.name])
        if wrong:
            found[removal.name] = wrong
    assert found == {}
