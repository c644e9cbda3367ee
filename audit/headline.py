"""A report's verdict in one line, for a task's log and a note: the report in, a sentence out."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tidegauge.terminal import plain

BEGINNING: Final = "verdict: "
"""How the line begins; dags/tidegauge_job.py looks for it."""
_SEVERITIES: Final = ("critical", "warning")
_STATES: Final = {"lost": "lost", "at_risk": "at risk", "possible": "possibly lost"}


def headline(report: Mapping[str, Any]) -> str:
    """The line, without an end."""
    roots = Counter(b["severity"] for b in report["breaches"] if not b["implied_by"])
    records: Counter[str] = Counter()
    for loss in report["losses"]:
        records[loss["state"]] += loss["records"]
    unknown = sum(1 for invariant in report["invariants"] if invariant["verdict"] == "unknown")
    run = report["run"]
    told = ", ".join(_counted(roots, records)) or "nothing is breached"
    return f"{BEGINNING}{plain(run['cluster'])}/{plain(run['snapshot_id'])}: {told}; {unknown} invariants not known"


def _counted(roots: Counter[str], records: Counter[str]) -> Iterator[str]:
    for state, words in _STATES.items():
        if records[state]:
            yield f"{records[state]:,} records {words}"
    for severity in _SEVERITIES:
        if roots[severity]:
            yield f"{roots[severity]} {severity} breach{'es' if roots[severity] > 1 else ''}"
