"""The file `report.json`, which is there when all is done, and not before.

In: a snapshot's folder of a run, a report. Out: the file. The rule that must hold: whoever finds `report.json` finds a
whole report, of this run and not of one before, whose results the store has, too, or was not to have. Until then the
verdicts stand under another name, so that a full disk or a store that went away leaves no report of a run that nobody
else knows.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tidegauge.snapshots.whole_files import write_whole

NAME: Final = "report.json"
_JUDGED: Final = ".report.json.judged"


def at(target: Path) -> Path:
    """Where the verdicts are now."""
    judged = target / _JUDGED
    return judged if judged.exists() else target / NAME


def read(path: Path) -> dict[str, Any]:
    """A report."""
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def keep_judged(target: Path, report: Mapping[str, Any]) -> None:
    """Writes verdicts that nobody has published yet."""
    write(target / _JUDGED, report)


def keep(target: Path, report: Mapping[str, Any]) -> None:
    """Writes the report for good."""
    write(target / NAME, report)
    (target / _JUDGED).unlink(missing_ok=True)


def keep_with(target: Path, name: str, value: object) -> None:
    """Writes the report for good, with what its `run` has not told yet."""
    report = read(at(target))
    report["run"][name] = value
    keep(target, report)


def keep_as_judged(target: Path) -> None:
    """The verdicts as they stand are the report for good."""
    os.replace(at(target), target / NAME)


def forget(target: Path) -> None:
    """Removes what an earlier run, or an earlier try of this one, said."""
    for name in (NAME, _JUDGED):
        (target / name).unlink(missing_ok=True)


def write(path: Path, value: object) -> None:
    """JSON, whole or not at all."""
    write_whole(path, json.dumps(value, indent=1, default=str) + "\n")
