"""The file `report.json`, which is there when all is done, and not before.

In: a snapshot's folder of a run, a report. Out: the file. The rule that must hold: whoever finds `report.json` finds a
whole report, of this run and not of one before, whose results the store has, too, or was not to have. Until then the
verdicts stand under another name, so that a full disk or a store that went away leaves no report of a run that nobody
else knows.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from tidegauge.snapshots.location import Location
from tidegauge.snapshots.places import made, moved
from tidegauge.snapshots.whole_files import write_whole

NAME: Final = "report.json"
_JUDGED: Final = ".report.json.judged"


def at(target: Location) -> Location:
    """Where the verdicts are now."""
    judged = target / _JUDGED
    return judged if judged.exists() else target / NAME


def read(path: Location) -> dict[str, Any]:
    """A report."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def keep_judged(target: Location, report: Mapping[str, Any]) -> None:
    """Writes verdicts that nobody has published yet."""
    write(target / _JUDGED, report)


def keep(target: Location, report: Mapping[str, Any]) -> None:
    """Writes the report for good."""
    write(target / NAME, report)
    (target / _JUDGED).unlink(missing_ok=True)


def keep_with(target: Location, name: str, value: object) -> None:
    """Writes the report for good, with what its `run` has not told yet."""
    report = read(at(target))
    report["run"][name] = value
    keep(target, report)


def keep_as_judged(target: Location) -> None:
    """The verdicts as they stand are the report for good."""
    moved([(at(target), target / NAME)])


def forget(target: Location) -> None:
    """Removes what an earlier run, or an earlier try of this one, said."""
    for name in (NAME, _JUDGED):
        (target / name).unlink(missing_ok=True)


def write(path: Location, value: object) -> None:
    """JSON, whole or not at all."""
    made(path.parent)
    write_whole(path, json.dumps(value, indent=1, default=str) + "\n")
