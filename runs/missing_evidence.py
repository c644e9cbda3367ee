"""Which evidence a snapshot lacks, and which verdicts that leaves open.

In: what was gathered of a snapshot; verdicts. Out: `Missing` pieces, kept in `coverage.json`, and the report's
`coverage.missing_evidence`. Each verdict that is not known, for want of something, stands under the piece that it
lacks, and each missing piece says what would bring it back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from tidegauge.expectations.evidence import REMEDIES, WHY, Evidence
from tidegauge.expectations.verdicts import InvariantResult
from tidegauge.runs.run_places import FACTS_DIGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """One piece of evidence that is not there. `subjects`: how many replicas or partitions cannot be judged for it."""

    evidence: Evidence
    why: str
    subjects: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AtHand:
    """One piece of evidence that is there, and how far it reaches."""

    evidence: Evidence
    what: str


class UnreadSegment(TypedDict, total=False):
    """Of a row of the index step: which segment it is of, and why that could not be read."""

    path: str
    directory: str
    error: str | None


def unread_segments(rows: Iterable[UnreadSegment]) -> list[Missing]:
    """What the index step could not read; `rows` are its own."""
    errors = [row for row in rows if row["error"]]
    if not errors:
        return []
    replicas = {row["directory"] for row in errors}
    why = f"{len(errors)} segments of {len(replicas)} replicas cannot be read, {errors[0]['path']} first"
    return [Missing(evidence=Evidence.SEGMENT, why=why, subjects=len(replicas))]


def kept(missing: Iterable[Missing]) -> list[dict[str, Any]]:
    """As `coverage.json` keeps them."""
    return [{"evidence": m.evidence.value, "why": m.why, "subjects": m.subjects} for m in missing]


def missing_in(coverage: Mapping[str, Any]) -> dict[Evidence, int]:
    """The pieces that a snapshot lacks, by its coverage, with how many subjects go with each."""
    found: dict[Evidence, int] = {}
    for piece in coverage["missing"]:
        evidence = Evidence(piece["evidence"])
        found[evidence] = found.get(evidence, 0) + piece["subjects"]
    return found


def told_coverage(coverage: Mapping[str, Any], verdicts: Sequence[InvariantResult]) -> dict[str, Any]:
    """The coverage as a report has it: with the verdicts that each missing piece leaves open.

    A piece that only single rows lack (a setting of one topic, one moment for two files) is told in general words.
    """
    blinds: dict[Evidence, list[str]] = {e: [] for e in missing_in(coverage)}
    for verdict in verdicts:
        if verdict.verdict == "unknown":
            for lacking in verdict.lacks:
                blinds.setdefault(Evidence(lacking), []).append(verdict.code)
    why: dict[Evidence, list[str]] = {}
    for piece in coverage["missing"]:
        why.setdefault(Evidence(piece["evidence"]), []).append(piece["why"])
    told = {name: value for name, value in coverage.items() if name not in ("missing", FACTS_DIGEST)}
    told["missing_evidence"] = [
        {
            "evidence": evidence.value,
            "why": "; ".join(why.get(evidence, [WHY[evidence]])),
            "blinds": sorted(blinds[evidence]),
            "remedy": REMEDIES[evidence],
        }
        for evidence in Evidence
        if evidence in blinds
    ]
    return told
