from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.derived_files import EPOCH_CHECKPOINT_NOT_COPIED, LOG_START_MAY_LAG
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_UNLISTED: Final = "checkpoint_start_offset IS NULL AND later_checkpoint_start_offset IS NULL"
"""A live capture reads leader-epoch-checkpoint before the log and again behind it: an epoch may begin in between."""

INVARIANT = Invariant(
    code="B15",
    key="EPOCH_CACHE_NO_MISSING",
    name="LeaderEpochCheckpointNoMissing",
    severity=Severity.CRITICAL,
    relation="epoch_spans",
    statement="Every leader epoch of a batch at or above the log start is listed in leader-epoch-checkpoint.",
    because=line("""
        The broker writes the entry, and forces it to disk, before it appends the epoch's first batch. Without it the
        replica cannot say where the epoch ends, and truncates to its high watermark instead.
    """),
    applies_when="start_offset IS NOT NULL AND end_offset > log_start_offset",
    unknown=(
        EPOCH_CHECKPOINT_NOT_COPIED,
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=line(f"""
                {_UNLISTED} AND NOT epoch_checkpoint_missing AND NOT broker_quiet
                AND leader_epoch > coalesce(checkpoint_last_leader_epoch, -1)
                AND (NOT coalesce(epoch_checkpoint_read_again, false)
                OR later_checkpoint_last_leader_epoch > leader_epoch)
            """),
        ),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=line(f"""
                log_starts_copied IS FALSE AND {_UNLISTED} AND NOT epoch_checkpoint_missing
                AND end_offset <= coalesce(checkpoint_first_start_offset, log_end_offset)
            """),
        ),
        Unknown(
            reason="log start not yet checkpointed",
            evidence=None,
            when=f"{_UNLISTED} AND NOT epoch_checkpoint_missing AND {LOG_START_MAY_LAG} "
            # An empty file: all records were deleted before the broker died, and its high watermark on disk is old.
            "AND end_offset <= coalesce(checkpoint_first_start_offset, log_end_offset)",
        ),
    ),
    breach_when=_UNLISTED,
    derived=(
        ("no_file", "CASE WHEN epoch_checkpoint_missing THEN 'leader-epoch-checkpoint' END"),
        ("unlisted_epoch", "CASE WHEN NOT epoch_checkpoint_missing THEN leader_epoch END"),
    ),
    evidence=(
        "start_offset",
        "end_offset",
        "batch_count",
        "checkpoint_last_leader_epoch",
        "epoch_checkpoint_missing",
        "log_start_offset",
    ),
    explanation=lines("""
        Broker {broker_id}'s log of {topic}-{partition} holds {batch_count} batches of leader epoch {leader_epoch}, from
          offset {start_offset} up to {end_offset}.
        Its leader-epoch-checkpoint does not list epoch {unlisted_epoch}.
        The file's last epoch is {checkpoint_last_leader_epoch}.
        There is no {no_file} in the replica's directory.
        The log start is {log_start_offset}, so these batches are in use and the epoch should be listed.
    """),
    start_offset="CASE WHEN start_offset < log_start_offset THEN log_start_offset ELSE start_offset END",
    end_offset="end_offset",
    next="find . -path \\*/{topic}-{partition}/leader-epoch-checkpoint | xargs head -n 100",
    implies=("D04", "D05"),
    points_to="derived_file",
    reference="UnifiedLog#append, LeaderEpochFileCache#assign; KIP-101, KAFKA-15608",
)
