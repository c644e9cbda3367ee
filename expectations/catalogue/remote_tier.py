"""Family H, the remote tier: what its metadata tell, whose history it is, what it leaves open, what is in the store.

In: the columns of `remote_segments` and `upkeep`. Out: invariants H01 to H07. The rule that must hold here: segments
may overlap and wait for their deletion; a hole is one only if neither the tier nor the local log has the offsets.
"""

from typing import Final

from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_ITS_RECORDS: Final = (
    "bin/kafka-console-consumer.sh --bootstrap-server <host:port> --topic __remote_log_metadata --from-beginning "
    "--formatter org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde"
    "$RemoteLogMetadataFormatter | grep {segment_id}"
)
_COPIED: Final = "state = 'COPY_SEGMENT_FINISHED'"
_FIRST_RECORD_GONE: Final = Unknown(reason="its first record is gone", evidence=None, when="start_offset IS NULL")

REMOTE_RANGE = Invariant(
    code="H01",
    key="REMOTE_RANGE",
    name="RemoteRange",
    severity=Severity.WARNING,
    relation="remote_segments",
    statement="A remote segment begins at 0 or above, ends no lower, and names the leader epochs of its records.",
    because="Whoever fetches from the tier looks a segment up by leader epoch and offset; one that names none, or an "
    "empty range, is never found, and its records are as good as gone.",
    unknown=(_FIRST_RECORD_GONE,),
    breach_when="start_offset < 0 OR end_offset <= start_offset OR cardinality(leader_epochs) = 0",
    derived=(
        ("last_offset", "end_offset - 1"),
        ("no_epoch", "CASE WHEN cardinality(leader_epochs) = 0 THEN 'no leader epoch' END"),
    ),
    evidence=("start_offset", "end_offset", "leader_epochs", "state", "broker_id"),
    start_offset="start_offset",
    end_offset="end_offset",
    explanation=(
        "Remote segment {segment_id} of {topic}-{partition} says that it holds offsets {start_offset} to "
        "{last_offset}.",
        "It names {no_epoch}.",
        "Broker {broker_id} copied it.",
    ),
    next=_ITS_RECORDS,
    implies=("H03", "H04"),
    points_to="remote_tier",
    reference="RemoteLogSegmentMetadata (its constructor refuses them); KIP-405",
)

REMOTE_STATE = Invariant(
    code="H02",
    key="REMOTE_STATE",
    name="RemoteStateMachine",
    severity=Severity.WARNING,
    relation="remote_segments",
    statement="A remote segment's copy starts, finishes, and its deletion starts and finishes, in this order.",
    because="A record out of order is not applied by the brokers: objects stay in the store that no one knows, or a "
    "segment is read that is being deleted.",
    unknown=(
        Unknown(reason="its first record is gone", evidence=None, when="start_offset IS NULL AND NOT history_whole"),
    ),
    breach_when="invalid_transitions > 0",
    evidence=("states", "invalid_transitions", "history_whole", "start_offset", "end_offset"),
    start_offset="start_offset",
    end_offset="end_offset",
    explanation=(
        "Remote segment {segment_id} of {topic}-{partition} went through {states}.",
        "{invalid_transitions} of these steps are none that a segment may take.",
        "The same state twice is a retry, and allowed for.",
    ),
    next=_ITS_RECORDS,
    points_to="remote_tier",
    reference="RemoteLogSegmentState#isValidTransition; KIP-405",
)

_HOLE: Final = "remote_gap_start_offset IS NOT NULL"
_NOT_LISTED: Final = Unknown(
    reason="log start not checkpointed",
    evidence=Evidence.CHECKPOINT,
    when=f"checkpoint_log_start_offset IS NULL AND {_HOLE}",
)
_NO_METADATA: Final = Unknown(
    reason="remote metadata not captured", evidence=Evidence.REMOTE_STORE, when="NOT remote_known"
)

REMOTE_COVERAGE = Invariant(
    code="H03",
    key="REMOTE_COVERAGE",
    name="RemoteCoverage",
    severity=Severity.CRITICAL,
    relation="upkeep",
    statement="From the log start to the first local segment, the remote tier holds every offset.",
    because="What is in neither place is lost, and a consumer that comes to the hole gets stuck there.",
    applies_when="remote_storage_enable AND first_base_offset IS NOT NULL",
    unknown=(
        _NO_METADATA,
        _NOT_LISTED,
        # The tier's metadata were read before a segment was copied, the local log after it was deleted.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"NOT snapshot_quiet AND {_HOLE} AND remote_gap_end_offset = first_base_offset",
        ),
    ),
    breach_when=_HOLE,
    derived=(("last_missing_offset", "remote_gap_end_offset - 1"),),
    evidence=(
        "log_start_offset",
        "first_base_offset",
        "remote_end_offset",
        "remote_gap_start_offset",
        "remote_gap_end_offset",
    ),
    start_offset="remote_gap_start_offset",
    end_offset="remote_gap_end_offset",
    records="remote_gap_end_offset - remote_gap_start_offset",
    explanation=(
        "Broker {broker_id}'s log of {topic}-{partition} starts at {log_start_offset}; its first local segment begins "
        "at {first_base_offset}.",
        "Of what lies between, the remote tier has no segment with offsets {remote_gap_start_offset}.."
        "{last_missing_offset}: they are nowhere.",
        "Segments that overlap, and those that the tier has deleted from the head on, are allowed for.",
    ),
    next="bin/kafka-get-offsets.sh --bootstrap-server <host:port> --topic-partitions {topic}:{partition} --time "
    "earliest-local",
    points_to="remote_tier",
    one_event_on_all_replicas=True,
    reference="UnifiedLog#isSegmentEligibleForDeletion, RemoteLogManager#read; KIP-405",
)

_NOT_WITHIN: Final = "NOT within_lineage"

REMOTE_LINEAGE = Invariant(
    code="H04",
    key="REMOTE_LINEAGE",
    name="RemoteLineage",
    severity=Severity.CRITICAL,
    relation="remote_segments",
    statement="A copied remote segment's leader epochs are those of the leader's history, up to its log end.",
    because="A segment of another history holds other records at the same offsets: who reads from the tier gets what "
    "the partition never had, or no longer has.",
    applies_when=f"{_COPIED} AND end_offset > log_start_offset",
    unknown=(
        Unknown(
            reason="leader-epoch-checkpoint not copied",
            evidence=Evidence.CHECKPOINT,
            when="within_lineage IS NULL AND lineage_reason IS NOT NULL",
        ),
        Unknown(
            reason="not in the metadata log",
            evidence=Evidence.METADATA_LOG,
            when=f"lineage_cut IS NULL AND {_NOT_WITHIN}",
        ),
        Unknown(reason="unclean election", evidence=None, when=f"lineage_cut AND {_NOT_WITHIN}"),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"NOT snapshot_quiet AND {_NOT_WITHIN} AND end_offset > log_end_offset",
        ),
    ),
    breach_when=_NOT_WITHIN,
    evidence=("leader_epochs", "lineage_reason", "start_offset", "end_offset", "log_start_offset", "log_end_offset"),
    start_offset="start_offset",
    end_offset="end_offset",
    records="end_offset - start_offset",
    explanation=(
        "Remote segment {segment_id} of {topic}-{partition} holds [{start_offset}, {end_offset}) of leader epochs "
        "{leader_epochs}.",
        "It is not of the leader's history: {lineage_reason}.",
        "After an unclean election such a segment waits for its deletion; none explains this one.",
    ),
    next=_ITS_RECORDS,
    implies=("H03", "H06"),
    points_to="remote_tier",
    reference="RemoteLogManager#isRemoteSegmentWithinLeaderEpochs; KIP-405",
)

_UNSTABLE: Final = "(end_offset > high_watermark_upper OR coalesce(end_offset > first_unstable_offset, FALSE))"

REMOTE_BELOW_LAST_STABLE_OFFSET = Invariant(
    code="H05",
    key="REMOTE_BELOW_LSO",
    name="RemoteBelowLastStableOffset",
    severity=Severity.CRITICAL,
    relation="remote_segments",
    statement="A remote segment was copied only when all of it lay below the last stable offset.",
    because="What is not committed may be truncated, and what is in an open transaction may be aborted; in the tier it "
    "stays, and has no entry in the transaction index that was copied with it.",
    applies_when=f"{_COPIED} AND within_lineage AND end_offset > log_start_offset",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND {_UNSTABLE}"),),
    breach_when=_UNSTABLE,
    derived=(
        ("mark", "CASE WHEN end_offset > high_watermark_upper THEN high_watermark_upper END"),
        ("held_since", "CASE WHEN end_offset > first_unstable_offset THEN first_unstable_offset END"),
    ),
    evidence=("start_offset", "end_offset", "high_watermark_upper", "first_unstable_offset", "state"),
    start_offset="start_offset",
    end_offset="end_offset",
    explanation=(
        "Remote segment {segment_id} of {topic}-{partition} holds [{start_offset}, {end_offset}).",
        "The high watermark is not above {mark}.",
        "A transaction that began at {held_since} is still open, so it was when the segment was copied.",
    ),
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition "
    "{partition}",
    points_to="remote_tier",
    reference="RemoteLogManager.RLMCopyTask#candidateLogSegments; KIP-405",
)

_DELETED_TOO_FAR: Final = "first_base_offset > log_start_offset AND first_base_offset > coalesce(remote_end_offset, 0)"

LOCAL_START_ORDER = Invariant(
    code="H06",
    key="LOCAL_START_ORDER",
    name="LocalStartOrder",
    severity=Severity.CRITICAL,
    relation="upkeep",
    statement="The first local segment begins no higher than where the remote tier ends.",
    because="Local segments go only when the tier has them. One that went before leaves offsets that are nowhere.",
    applies_when="remote_storage_enable AND first_base_offset IS NOT NULL",
    unknown=(
        _NO_METADATA,
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=f"checkpoint_log_start_offset IS NULL AND {_DELETED_TOO_FAR}",
        ),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND {_DELETED_TOO_FAR}"),
    ),
    breach_when=_DELETED_TOO_FAR,
    derived=(("tier_end_offset", "coalesce(remote_end_offset, log_start_offset)"),),
    evidence=("log_start_offset", "first_base_offset", "remote_end_offset", "checkpoint_log_start_offset"),
    start_offset="greatest(coalesce(remote_end_offset, 0), log_start_offset)",
    end_offset="first_base_offset",
    records="first_base_offset - greatest(coalesce(remote_end_offset, 0), log_start_offset)",
    explanation=(
        "Broker {broker_id}'s log of {topic}-{partition} starts at {log_start_offset}; its first local segment begins "
        "at {first_base_offset}.",
        "The remote tier holds this history up to {tier_end_offset} only.",
        "So local segments were deleted that had not been copied.",
    ),
    next="bin/kafka-get-offsets.sh --bootstrap-server <host:port> --topic-partitions {topic}:{partition} --time "
    "earliest-local",
    implies=("H03",),
    points_to="remote_tier",
    one_event_on_all_replicas=True,
    reference="UnifiedLog#deletableSegments, UnifiedLog#isSegmentEligibleForDeletion; KIP-405",
)

REMOTE_AUX_FILES = Invariant(
    code="H07",
    key="REMOTE_AUX_FILES",
    name="RemoteAuxiliaryFiles",
    severity=Severity.WARNING,
    relation="remote_segments",
    statement="A copied remote segment has its log, indexes, producer snapshot and epochs in the store, all sound.",
    because="A broker that reads from the tier fetches the indexes first; one that becomes leader takes producers and "
    "epochs from there. Without them, or with broken ones, the segment cannot be read or the leader starts wrong.",
    applies_when=_COPIED,
    unknown=(
        Unknown(reason="remote store not captured", evidence=Evidence.REMOTE_STORE, when="NOT store_captured"),
        # Deleted while the rest was copied: nothing of it is left.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT snapshot_quiet AND cardinality(missing_files) = 5",
        ),
    ),
    breach_when="cardinality(missing_files) > 0 OR damaged_files > 0",
    derived=(
        ("absent", "CASE WHEN cardinality(missing_files) > 0 THEN missing_files END"),
        ("broken", "CASE WHEN damaged_files > 0 THEN damaged_files END"),
    ),
    evidence=("missing_files", "damaged_files", "start_offset", "end_offset", "size_bytes"),
    details=("log", "index", "timeindex", "txnindex", "snapshot", "leader_epoch_checkpoint"),
    start_offset="start_offset",
    end_offset="end_offset",
    explanation=(
        "Remote segment {segment_id} of {topic}-{partition}, [{start_offset}, {end_offset}), was looked up in the "
        "remote store.",
        "It has no {absent} there.",
        "{broken} of its files are damaged.",
        "A transaction index is there only where a transaction was aborted, and is not asked for.",
    ),
    next=_ITS_RECORDS,
    points_to="remote_tier",
    reference="RemoteLogManager.RLMCopyTask#copyLogSegment; KAFKA-15401",
)
