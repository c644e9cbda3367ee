"""The snapshots of a run that have not failed, and those that have as one error.

In: a run, with its notes of failures. Out: the run without the snapshots that failed. A snapshot goes with the one that
it is compared with.
"""

from dataclasses import replace
from typing import Final

from tidegauge.runs.errors import OwnError
from tidegauge.runs.failures import KINDS
from tidegauge.runs.run import AuditedSnapshot, Run
from tidegauge.snapshots.errors import AuditError

_NAMED: Final = 5
"""Parts that an error names."""


def going_on(run: Run) -> Run:
    """The run without the snapshots that failed. Raises what they failed of where none is left."""
    left = surviving(run)
    if run.snapshots and not left.snapshots:
        raise failed_error(run)
    return left


def surviving(run: Run) -> Run:
    """The run without the snapshots that failed, if any is left or not."""
    failed = failed_snapshots(run)
    return replace(run, snapshots=tuple(s for s in run.snapshots if s not in failed))


def failed_snapshots(run: Run) -> tuple[AuditedSnapshot, ...]:
    """The audited snapshots that failed themselves, or with the one that they are compared with."""
    # What was not even opened is not in the run; it is noted by what it was called there, which may be another's key.
    failed = {failure.snapshot for failure in run.failures.all() if failure.step != "snapshot"}
    return tuple(s for s in run.snapshots if any(read.key in failed for read in s.reads))


def failed_error(run: Run) -> AuditError:
    """The failures of a run as one error: a paragraph that names each snapshot, of the worst one's kind."""
    found = run.failures.all()
    kind = next(kind for kind in KINDS if any(f.kind == kind for f in found))
    unopened = sum(f.step == "snapshot" for f in found)
    audited, failed = len(run.snapshots) + unopened, len(failed_snapshots(run)) + unopened
    text = found[0].text
    if audited > 1:
        left = audited - failed
        others = f"the other {left} {'was' if left == 1 else 'were'}" if left else "and none is left"
        each = " ".join(f"{f.snapshot}: {f.text.rstrip('.')}." for f in found)
        text = f"{failed} of {audited} snapshots could not be audited, {others}. {each}"
    error = KINDS[kind](text)
    error.add_note("\n".join(f.trace for f in found))
    return error


def partly_failed_error(run: Run) -> AuditError:
    """Parts of snapshots that could not be judged, as one error; what is left of these snapshots was."""
    found = run.failures.parts()
    each = " ".join(f"{f.part} of {f.snapshot}: {f.text.rstrip('.')}." for f in found[:_NAMED])
    more = f" And {len(found) - _NAMED} more." if len(found) > _NAMED else ""
    error = OwnError(
        f"{len(found)} {'part' if len(found) == 1 else 'parts'} could not be judged: what hangs on it is told as not "
        f"known, all else was judged. {each}{more}"
    )
    error.add_note("\n".join(f.trace for f in found))
    return error
