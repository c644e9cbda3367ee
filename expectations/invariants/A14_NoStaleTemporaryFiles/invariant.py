from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_SLACK_MS: Final = 60_000
"""A deletion is due file.delete.delay.ms after the renaming, and done by a thread that may have much to do."""
_LATE_DELETED: Final = f"coalesce(oldest_deleted_age_ms, 0) > file_delete_delay_ms + {_SLACK_MS}"
_LATE_HALF_DONE: Final = f"coalesce(oldest_half_done_age_ms, 0) > file_delete_delay_ms + {_SLACK_MS}"

INVARIANT = Invariant(
    code="A14",
    key="NO_STALE_TEMP_FILES",
    name="NoStaleTemporaryFiles",
    severity=Severity.INFO,
    relation="partition_directories",
    statement=line("""
        Files that wait to be deleted or belong to a swap are gone a little after file.delete.delay.ms, and a broker
        that stopped cleanly left no swap half done.
    """),
    because=line("""
        They are what a crash in a swap, or a scheduler that is stuck, leaves behind: disk space that no one frees, and
        a sign that the broker's housekeeping does not run.
    """),
    unknown=(
        Unknown(
            reason="age of the files not known",
            evidence=Evidence.INSTANTS,
            when=line("""
                NOT clean_shutdown AND ((deleted_files > 0 AND oldest_deleted_age_ms IS NULL) OR (half_done_files > 0
                AND oldest_half_done_age_ms IS NULL))
            """),
        ),
    ),
    breach_when=f"CASE WHEN clean_shutdown THEN half_done_files > 0 ELSE {_LATE_DELETED} OR {_LATE_HALF_DONE} END",
    derived=(
        ("after_stop", "CASE WHEN clean_shutdown THEN half_done_files END"),
        ("deleted_for", f"CASE WHEN NOT clean_shutdown AND {_LATE_DELETED} THEN oldest_deleted_age_ms END"),
        ("half_done_for", f"CASE WHEN NOT clean_shutdown AND {_LATE_HALF_DONE} THEN oldest_half_done_age_ms END"),
    ),
    evidence=(
        "deleted_files",
        "half_done_files",
        "oldest_deleted_age_ms",
        "oldest_half_done_age_ms",
        "file_delete_delay_ms",
        "clean_shutdown",
    ),
    explanation=lines("""
        In {directory} broker {broker_id} has {deleted_files} files that wait to be deleted, and {half_done_files} of a
          swap or a write that did not end.
        It stopped cleanly, which ends every swap; {after_stop} files tell of one that did not.
        The oldest file that waits to be deleted has done so for {deleted_for} ms; it should go after
          {file_delete_delay_ms}.
        The oldest file of a swap or a write has been there for {half_done_for} ms.
    """),
    details=("half_done", "deleted"),
    next="ls -lac {directory}",
    points_to="interrupted_cleanup",
    reference="LogLoader#removeTempFilesAndCollectSwapFiles, LocalLog#deleteSegmentFiles",
)
