"""What a verdict rests on: the kinds of evidence, and which of them is lacking where something is not known.

In: nothing. Out: `Evidence`, the pieces that a snapshot may hold or lack; `ROWS_COME_FROM`, relation -> the pieces
without which it lacks rows; `TELLS`, column -> the piece that it is null without. Which piece would settle a reason for
not knowing, the reason says itself (`model.Unknown.evidence`), so that nobody is left to guess what to bring.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Evidence(StrEnum):
    """A piece of evidence: its name in `coverage.missing_evidence`."""

    METADATA_LOG = "metadata_log"
    METADATA_LOG_START = "metadata_log_start"
    BROKER = "broker"
    LOG_DIR = "log_dir"
    REPLICA = "replica"
    SEGMENT = "segment"
    CHECKPOINT = "checkpoint"
    PRODUCER_SNAPSHOT = "producer_snapshot"
    INDEX = "index"
    META_PROPERTIES = "meta_properties"
    SETTINGS = "settings"
    ANSWERS = "answers"
    EARLIER_SNAPSHOT = "earlier_snapshot"
    COORDINATOR_LOG = "coordinator_log"
    REMOTE_STORE = "remote_store"
    RECORDS = "records"
    ONE_MOMENT = "one_moment"
    INSTANTS = "instants"
    LEDGER = "ledger"

    @property
    def words(self) -> str:
        """The piece as a person says it."""
        return self.value.replace("_", " ")

    @property
    def not_known(self) -> str:
        """The reason of a verdict that the piece would decide."""
        return f"not known: {self.words}"


_LOGS: Final = (Evidence.BROKER, Evidence.LOG_DIR, Evidence.REPLICA, Evidence.SEGMENT)
_DIRECTORIES: Final = (Evidence.BROKER, Evidence.LOG_DIR)
_COORDINATORS: Final = (Evidence.COORDINATOR_LOG,)
_METADATA: Final = (Evidence.METADATA_LOG,)
_METADATA_HISTORY: Final = (Evidence.METADATA_LOG, Evidence.METADATA_LOG_START)

ROWS_COME_FROM: Final[Mapping[str, tuple[Evidence, ...]]] = MappingProxyType({
    "segments": _LOGS,
    "replicas": _LOGS,
    "epoch_spans": _LOGS,
    "divergences": (Evidence.METADATA_LOG, *_LOGS),  # It tells who else has a replica, of which nothing may be here.
    "isr_members": (Evidence.METADATA_LOG,),
    "producers": _LOGS,
    "sequence_gaps": _LOGS,
    "index_files": _LOGS,
    "upkeep": _LOGS,
    "key_comparisons": (Evidence.METADATA_LOG, *_LOGS),
    "changes": (Evidence.EARLIER_SNAPSHOT, *_LOGS),
    "upkeep_changes": (Evidence.EARLIER_SNAPSHOT, *_LOGS),
    "checkpoint_files": (*_DIRECTORIES, Evidence.CHECKPOINT),
    "partition_directories": _DIRECTORIES,
    "brokers": _DIRECTORIES,
    "transactions": (),
    "partitions": _METADATA,
    "topics": _METADATA,
    "postures": _METADATA,
    "risks": _METADATA,
    "metadata_logs": _METADATA,
    "metadata_snapshots": (*_METADATA, Evidence.BROKER),
    "metadata_entries": _METADATA,
    "partition_changes": _METADATA_HISTORY,
    "broker_changes": _METADATA_HISTORY,
    "broker_registrations": _METADATA_HISTORY,
    "fencing_epochs": _METADATA_HISTORY,
    "transactional_ids": _COORDINATORS,
    "groups": _COORDINATORS,
    "share_states": _COORDINATORS,
    "transaction_ends": _COORDINATORS,
    "transaction_outcomes": _COORDINATORS,
    "committed_offsets": _COORDINATORS,
    "remote_segments": _COORDINATORS,
    "cluster_answers": (Evidence.ANSWERS,),
})  # fmt: skip
"""Relation -> the pieces whose absence takes rows away: where one is missing, what is left may not stand for all."""

METADATA_LOG_AMONG: Final = frozenset({
    "segments", "replicas", "epoch_spans", "divergences", "index_files", "upkeep",
})  # fmt: skip
"""Relations of which rows are the metadata log's own replicas, or are subjects by what it tells of their topic: where
nothing at all is left to check, it is what is missing.
"""

SUBJECTS_ARE: Final[Mapping[str, Evidence]] = MappingProxyType(
    {
        "kind = 'snapshot'": Evidence.PRODUCER_SNAPSHOT,
        "kind = 'index'": Evidence.INDEX,
        "kind = 'timeindex'": Evidence.INDEX,
        "topic = '__cluster_metadata'": Evidence.METADATA_LOG,
    }
)
"""A condition in `applies_when` -> the piece that such subjects are themselves: where it is missing, so are they."""

_COLUMNS: Final[Mapping[Evidence, str]] = {
    Evidence.METADATA_LOG: """
        broker_alive broker_epoch elected_leader_id expected_partition follower_in_elr follower_in_isr isr leader_id
        leader_is_elected metadata_known metadata_leader_epoch metadata_topic_id next_producer_id partition_exists
        quorum_leader_epoch quorum_leader_id registered joined_isr_in_current_epoch replicas elr in_isr in_elr
        missing_replicas misplaced_replicas stray_replicas cleanup_policy aborted_unlisted
    """,
    Evidence.SEGMENT: """
        batch_count first_base_offset follower_log_end_offset leader_log_end_offset log_end_offset log_start_offset
        readable_end_offset
    """,
    Evidence.CHECKPOINT: """
        checkpoint_last_leader_epoch checkpoint_log_start_offset checkpoint_start_offset cleaner_offset
        complete_replicas epoch_checkpoint_disorder epoch_checkpoint_entries follower_high_watermark high_watermark
        high_watermark_lower high_watermark_upper known_high_watermark leader_high_watermark max_ever_high_watermark
        previous_high_watermark recovery_point_offset reference_high_watermark current_epoch_start_offset
    """,
    Evidence.PRODUCER_SNAPSHOT: "compared_producer_snapshots producers_without_batch snapshot_replay_possible",
    Evidence.META_PROPERTIES: "cluster_ids expected_cluster_id node_ids",
    Evidence.SETTINGS: """
        file_delete_delay_ms index_interval_bytes max_transaction_timeout_ms min_insync_replicas preallocate
        remote_storage_enable retention_bytes retention_check_interval_ms retention_ms segment_limit_bytes
    """,
    Evidence.INSTANTS: "captured_at_ms new_producer_ids",
    Evidence.LEDGER: "acknowledged_missing acknowledged_records",
    Evidence.RECORDS: "record_form_errors record_offset_errors record_timestamp_errors",
}


def _tells() -> Mapping[str, Evidence]:
    found: dict[str, Evidence] = {}
    for evidence, columns in _COLUMNS.items():
        for column in columns.split():
            assert column not in found, f"{column} stands twice"
            found[column] = evidence
    return MappingProxyType(found)


TELLS: Final = _tells()
"""Column -> the piece of evidence that tells it. A column that damage or nothing at all may leave null is not here."""


WHY: Final[Mapping[Evidence, str]] = MappingProxyType({
    Evidence.METADATA_LOG: "no copy of the metadata log says it",
    Evidence.METADATA_LOG_START: "the metadata log begins later",
    Evidence.BROKER: "a broker is not in the copy",
    Evidence.LOG_DIR: "a log directory is not in the copy",
    Evidence.REPLICA: "a replica's directory, or a file that each has, is not in the copy",
    Evidence.SEGMENT: "a segment could not be read",
    Evidence.CHECKPOINT: "no checkpoint says it, or none is in the copy",
    Evidence.PRODUCER_SNAPSHOT: "producer snapshots are not in the copy",
    Evidence.INDEX: "indexes are not in the copy",
    Evidence.META_PROPERTIES: "meta.properties is not in the copy, or says less",
    Evidence.SETTINGS: "no file of a log directory says what a broker's properties set",
    Evidence.ANSWERS: "the cluster was not asked, or did not answer",
    Evidence.EARLIER_SNAPSHOT: "there is no earlier snapshot to compare with",
    Evidence.COORDINATOR_LOG: "a coordinator's log is not in the copy, or reaches back less far",
    Evidence.REMOTE_STORE: "the remote tier's metadata or objects are not in the copy",
    Evidence.RECORDS: "the copy holds no records of users' topics, or hashed names",
    Evidence.ONE_MOMENT: "files were copied at different moments, while brokers ran",
    Evidence.INSTANTS: "nothing tells when the copy was made, or how old a file is",
    Evidence.LEDGER: "only producers know what they were told",
})  # fmt: skip
"""What keeps a verdict open, where the snapshot itself says nothing closer."""

REMEDIES: Final[Mapping[Evidence, str]] = MappingProxyType({
    Evidence.METADATA_LOG: "copy __cluster_metadata-0 too (metadata.log.dir, else the first of log.dirs), of a "
    "controller and of each broker; a cluster with a ZooKeeper has none: ask it (tidegauge capture --bootstrap "
    "HOST:PORT)",
    Evidence.METADATA_LOG_START: "copy the metadata logs of all nodes, some may reach back further; keep more of it "
    "(metadata.max.retention.ms); audit daily, so that an earlier audit saw it",
    Evidence.BROKER: "copy that broker's log directories too",
    Evidence.LOG_DIR: "copy every directory of log.dirs",
    Evidence.REPLICA: "copy the log directories whole",
    Evidence.SEGMENT: "make the file readable for who audits, on every machine that works on it, or copy it again",
    Evidence.CHECKPOINT: "copy the *-checkpoint files of each log directory and each replica",
    Evidence.PRODUCER_SNAPSHOT: "copy the *.snapshot files too",
    Evidence.INDEX: "copy the *.index, *.timeindex and *.txnindex files too",
    Evidence.META_PROPERTIES: "copy meta.properties of each log directory",
    Evidence.SETTINGS: "ask the cluster: tidegauge capture --bootstrap HOST:PORT",
    Evidence.ANSWERS: "ask the cluster: tidegauge capture --bootstrap HOST:PORT",
    Evidence.EARLIER_SNAPSHOT: "compare with one: tidegauge audit --previous SNAPSHOT",
    Evidence.COORDINATOR_LOG: "copy __consumer_offsets, __transaction_state, __share_group_state and "
    "__remote_log_metadata whole",
    Evidence.REMOTE_STORE: "copy __remote_log_metadata, and the remote store's objects",
    Evidence.RECORDS: "capture with --mode full, without --hash-topics",
    Evidence.ONE_MOMENT: "copy while the brokers are stopped, or a volume snapshot of one instant (--consistency)",
    Evidence.INSTANTS: "capture with tidegauge capture, which notes when it read each file",
    Evidence.LEDGER: "compare with the producers' own record of what was acknowledged",
})  # fmt: skip
"""What would bring a piece of evidence back."""
