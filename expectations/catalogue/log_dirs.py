"""Families A and B, log dirs: what lies in a partition's directory and in the files beside it, by name.

In: the columns of `partition_directories`, `checkpoint_files` and `brokers`. Out: invariants A14, A15, A17, B20 and
B21. The rule that must hold here: what waits for its deletion is no debris, and a clean stop leaves it as it is.
"""

from typing import Final

from expectations.catalogue.diagnoses import WORD_OF_ITS_BROKER_IS_OLDER
from expectations.catalogue.lacking import NO_METADATA_LOG
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_SLACK_MS: Final = 60_000
"""A deletion is due file.delete.delay.ms after the renaming, and done by a thread that may have much to do."""
_LATE_DELETED: Final = f"coalesce(oldest_deleted_age_ms, 0) > file_delete_delay_ms + {_SLACK_MS}"
_LATE_HALF_DONE: Final = f"coalesce(oldest_half_done_age_ms, 0) > file_delete_delay_ms + {_SLACK_MS}"

NO_STALE_TEMP_FILES = Invariant(
    code="A14",
    key="NO_STALE_TEMP_FILES",
    name="NoStaleTemporaryFiles",
    severity=Severity.INFO,
    relation="partition_directories",
    statement="Files that wait to be deleted or belong to a swap are gone a little after file.delete.delay.ms, and a "
    "broker that stopped cleanly left no swap half done.",
    because="They are what a crash in a swap, or a scheduler that is stuck, leaves behind: disk space that no one "
    "frees, and a sign that the broker's housekeeping does not run.",
    unknown=(
        Unknown(
            reason="age of the files not known",
            evidence=Evidence.INSTANTS,
            when="NOT clean_shutdown AND ((deleted_files > 0 AND oldest_deleted_age_ms IS NULL) "
            "OR (half_done_files > 0 AND oldest_half_done_age_ms IS NULL))",
        ),
    ),
    breach_when=(f"CASE WHEN clean_shutdown THEN half_done_files > 0 ELSE {_LATE_DELETED} OR {_LATE_HALF_DONE} END"),
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
    details=("half_done", "deleted"),
    explanation=(
        "In {directory} broker {broker_id} has {deleted_files} files that wait to be deleted, and {half_done_files} of "
        "a swap or a write that did not end.",
        "It stopped cleanly, which ends every swap; {after_stop} files tell of one that did not.",
        "The oldest file that waits to be deleted has done so for {deleted_for} ms; it should go after "
        "{file_delete_delay_ms}.",
        "The oldest file of a swap or a write has been there for {half_done_for} ms.",
    ),
    next="ls -lac {directory}",
    points_to="interrupted_cleanup",
    reference="LogLoader#removeTempFilesAndCollectSwapFiles, LocalLog#deleteSegmentFiles",
)

INDEX_HAS_LOG = Invariant(
    code="A15",
    key="INDEX_HAS_LOG",
    name="IndexHasLog",
    severity=Severity.WARNING,
    relation="partition_directories",
    statement="Every index file in a partition's directory has a log of its base offset.",
    because="An index is made with its log and goes with it. One that stands alone tells that a log was removed by "
    "hand, lost by the file system, or left out of a backup.",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="NOT broker_quiet AND orphans > 0"),),
    breach_when="orphans > 0",
    evidence=("orphans", "directory"),
    details=("orphan",),
    explanation=(
        "In {directory} broker {broker_id} has {orphans} index files of segments of which there is no log.",
        "The broker deletes them when it loads the log, and says no more than a line about it.",
    ),
    next="ls -la {directory}",
    points_to="interrupted_cleanup",
    reference="LogLoader#loadSegmentFiles",
)

_TWICE: Final = "(live_directories > 1 OR future_directories > 1)"

PARTITION_DIR_UNIQUE = Invariant(
    code="A17",
    key="PARTITION_DIR_UNIQUE",
    name="PartitionDirectoryUnique",
    severity=Severity.WARNING,
    relation="partition_directories",
    statement="A broker has one live directory of a partition over all its log dirs, and at most one that it is moving "
    "it to.",
    because="With two the broker does not start, or serves one and leaves the other to go stale. Which of them holds "
    "the partition's log only their content tells.",
    applies_when="state = 'live' AND (log_dir = log_dirs[1] OR log_dirs IS NULL)",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_TWICE}"),),
    breach_when=_TWICE,
    derived=(
        ("live", "CASE WHEN live_directories > 1 THEN live_directories END"),
        ("moving", "CASE WHEN future_directories > 1 THEN future_directories END"),
    ),
    evidence=("log_dirs", "live_directories", "future_directories"),
    explanation=(
        "Broker {broker_id} has {live} live directories of {topic}-{partition}, in log dirs {log_dirs}.",
        "Broker {broker_id} has {moving} directories that it is moving {topic}-{partition} to.",
        "Directories that wait to be deleted, or were set aside as stray, are not counted.",
    ),
    next="bin/kafka-log-dirs.sh --bootstrap-server <host:port> --describe --broker-list {broker_id} --topic-list "
    "{topic}",
    implies=("A12", "B16", "B17", "D02", "D05", "D07"),
    points_to="interrupted_cleanup",
    reference="LogManager#loadLogs, LogManager#replaceCurrentWithFutureLog",
)

_OFFSET_FILES: Final = (
    "kind IN ('replication-offset-checkpoint', 'recovery-point-offset-checkpoint', 'log-start-offset-checkpoint', "
    "'cleaner-offset-checkpoint')"
)
_LINES_WRONG: Final = (
    "(entries_without_directory > 0 OR duplicate_entries > 0 OR coalesce(declared_entries <> entries, FALSE))"
)

CHECKPOINT_DIRS_EXIST = Invariant(
    code="B20",
    key="CHECKPOINT_DIRS_EXIST",
    name="CheckpointNamesDirectories",
    severity=Severity.INFO,
    relation="checkpoint_files",
    statement="Each line of an offset checkpoint names a partition directory of its log dir, once, and the count is "
    "right.",
    because="A broker writes lines of its own logs only. Others come with a disk that was restored by half, or "
    "partitions that were removed by hand.",
    applies_when=f"present AND {_OFFSET_FILES}",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_LINES_WRONG}"),),
    breach_when=_LINES_WRONG,
    derived=(
        ("homeless", "CASE WHEN entries_without_directory > 0 THEN entries_without_directory END"),
        ("twice", "CASE WHEN duplicate_entries > 0 THEN duplicate_entries END"),
        ("miscounted", "CASE WHEN declared_entries <> entries THEN declared_entries END"),
    ),
    evidence=("entries", "declared_entries", "entries_without_directory", "duplicate_entries"),
    explanation=(
        "{path} has {entries} lines about partitions.",
        "{homeless} of them name partitions of which the log dir has no directory.",
        "{twice} name a partition again that another line names already.",
        "Its second line says that there are {miscounted}.",
    ),
    next="diff <(tail -n +3 {path} | cut -d' ' -f1,2 | tr ' ' -) <(ls {log_dir})",
    points_to="restored_files",
    reference="CheckpointFile, LogManager#checkpointLogRecoveryOffsets, ReplicaManager#checkpointHighWatermarks",
)

_OTHER_EPOCH: Final = "clean_shutdown_broker_epoch <> broker_epoch"

CLEAN_SHUTDOWN_EPOCH = Invariant(
    code="B21",
    key="CLEAN_SHUTDOWN_EPOCH",
    name="CleanShutdownEpoch",
    severity=Severity.WARNING,
    relation="brokers",
    statement="The broker epoch in .kafka_cleanshutdown is that of the broker's last registration.",
    because=(
        "It is the proof that the disk is as the broker left it when it was last registered. With another epoch it is "
        "an older image of the disk, passed off as clean: what was written since is not on it."
    ),
    applies_when="captured AND clean_shutdown_broker_epoch IS NOT NULL",
    unknown=(
        NO_METADATA_LOG,
        Unknown(reason="not in the metadata log", evidence=Evidence.METADATA_LOG, when="broker_epoch IS NULL"),
        Unknown(
            reason="restarted while it was copied", evidence=Evidence.ONE_MOMENT, when=f"NOT fenced AND {_OTHER_EPOCH}"
        ),
    ),
    breach_when=_OTHER_EPOCH,
    derived=(
        ("older", "CASE WHEN clean_shutdown_broker_epoch < broker_epoch THEN broker_epoch END"),
        ("newer", "CASE WHEN clean_shutdown_broker_epoch > broker_epoch THEN broker_epoch END"),
    ),
    evidence=("clean_shutdown_broker_epoch", "broker_epoch", "fenced", "clean_shutdown"),
    explanation=(
        "Broker {broker_id} left .kafka_cleanshutdown under broker epoch {clean_shutdown_broker_epoch}.",
        "It has registered since, under epoch {older}: this disk is an image of before.",
        "The metadata log knows no later registration than {newer}: it is older than this disk, or of another cluster.",
        "When it comes back, the controller takes it out of ISR and ELR because of this (KIP-966), if the two differ.",
    ),
    next="grep brokerEpoch <log.dir of broker {broker_id}>/.kafka_cleanshutdown",
    points_to="stale_disk",
    diagnosis=(WORD_OF_ITS_BROKER_IS_OLDER,),
    reference="CleanShutdownFileHandler, ReplicationControlManager#handleUncleanBrokerShutdown; KIP-966",
)
