from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_OFFSET_FILES: Final = line("""
    kind IN ('replication-offset-checkpoint', 'recovery-point-offset-checkpoint', 'log-start-offset-checkpoint',
    'cleaner-offset-checkpoint')
""")
_LINES_WRONG: Final = line("""
    (entries_without_directory > 0 OR duplicate_entries > 0 OR coalesce(declared_entries <> entries, FALSE))
""")

INVARIANT = Invariant(
    code="B20",
    key="CHECKPOINT_DIRS_EXIST",
    name="CheckpointNamesDirectories",
    severity=Severity.INFO,
    relation="checkpoint_files",
    statement=line("""
        Each line of an offset checkpoint names a partition directory of its log dir, once, and the count is right.
    """),
    because=line("""
        A broker writes lines of its own logs only. Others come with a disk that was restored by half, or partitions
        that were removed by hand.
    """),
    applies_when=f"present AND {_OFFSET_FILES}",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_LINES_WRONG}"),),
    breach_when=_LINES_WRONG,
    derived=(
        ("homeless", "CASE WHEN entries_without_directory > 0 THEN entries_without_directory END"),
        ("twice", "CASE WHEN duplicate_entries > 0 THEN duplicate_entries END"),
        ("miscounted", "CASE WHEN declared_entries <> entries THEN declared_entries END"),
    ),
    evidence=("entries", "declared_entries", "entries_without_directory", "duplicate_entries"),
    explanation=lines("""
        {path} has {entries} lines about partitions.
        {homeless} of them name partitions of which the log dir has no directory.
        {twice} name a partition again that another line names already.
        Its second line says that there are {miscounted}.
    """),
    next="diff <(tail -n +3 {path} | cut -d' ' -f1,2 | tr ' ' -) <(ls {log_dir})",
    points_to="restored_files",
    reference="CheckpointFile, LogManager#checkpointLogRecoveryOffsets, ReplicaManager#checkpointHighWatermarks",
)
