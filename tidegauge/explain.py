"""One breach explained: its argument, its evidence, what follows from it.

In: a breach id and an audit's directory. Out: lines for a terminal.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from snapshots.errors import SnapshotError
from tidegauge.present import breach_lines, safe


def explain(breach_id: str, directory: Path) -> Iterator[str]:
    """The breach of that id in any report below the directory. Raises `SnapshotError` if there is none."""
    reports = sorted(directory.glob("**/report.json"))
    if not reports:
        raise SnapshotError(f"{directory} holds no report.json. Name the --out directory of an audit.")
    for path in reports:
        report: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for breach in report["breaches"]:
            if breach["breach_id"] == breach_id:
                yield from _lines(breach, report)
                return
    raise SnapshotError(
        f"{directory} holds no breach {breach_id}. Breach ids stand in brackets in what an audit prints, "
        "and as breach_id in report.json."
    )


def _lines(breach: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[str]:
    yield from breach_lines(breach)
    yield "  Evidence:"
    for name, value in breach["evidence"].items():
        if value is not None:
            yield f"    {name} = {safe(value)}"
    if breach["implied_by"]:
        yield f"  It follows from {breach['implied_by']}."
    implied = [b for b in report["breaches"] if b["implied_by"] == breach["breach_id"]]
    for consequence in implied:
        yield f"  From it follows {consequence['code']} {consequence['name']} [{consequence['breach_id']}]"
