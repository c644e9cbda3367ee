"""Invariants about committed offsets beside the log they are of: epochs, topic ids, an earlier snapshot (family J).

In: rows of `committed_offsets`. The rule that must hold here: what an administrator may do (reset offsets, delete a
topic and create it again) is not a breach, or is information.
"""

from typing import Final

from expectations.catalogue.diagnoses import CUT_OR_LOST, LOST_ITS_TAIL, UNCLEAN_ELECTION_BESIDE
from expectations.catalogue.lacking import OLD_LINEAGE, UNTOLD_LINEAGE
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_NEVER_GIVEN_OUT: Final = "coalesce(epoch_never_given_out, FALSE)"

COMMITTED_EPOCH_VALID = Invariant(
    code="J02",
    key="COMMITTED_EPOCH_VALID",
    name="CommittedEpochInLog",
    severity=Severity.CRITICAL,
    relation="committed_offsets",
    statement="Under a leader epoch that a group committed with an offset, the log reaches at least to that offset, "
    "and the epoch is one that the controller has given out.",
    because="A commit carries the leader epoch of the last record that was read. If that epoch ends below the "
    "offset, the "
    "group has read records that were cut off afterwards: what it did with them cannot be repeated by anybody who "
    "reads "
    "the topic now. An epoch above the metadata log's newest was read from a leader that the cluster does not know any "
    "more.",
    applies_when="leader_epoch IS NOT NULL OR read_leader_epoch IS NOT NULL OR highest_leader_epoch IS NOT NULL",
    unknown=(
        Unknown(
            reason="the commit is of an earlier topic of that name",
            evidence=None,
            when="topic_id <> metadata_topic_id AND read_end_offset > epoch_end_offset OR "
            # Before version 4 a commit does not say which topic of the name it is of.
            # And its earlier commits may be, whatever the newest one is of.
            "(topic_id <> metadata_topic_id OR name_reused AND (topic_id IS NULL OR leader_epoch IS NULL "
            f"OR highest_leader_epoch > leader_epoch)) AND {_NEVER_GIVEN_OUT}",
        ),
        Unknown(reason="metadata log damaged", evidence=None, when=f"metadata_damaged AND {_NEVER_GIVEN_OUT}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT snapshot_quiet AND {_NEVER_GIVEN_OUT}"),
        Unknown(
            reason="the partition's log was not captured",
            evidence=Evidence.BROKER,
            when=f"log_end_offset IS NULL AND NOT {_NEVER_GIVEN_OUT}",
        ),
        Unknown(
            reason=OLD_LINEAGE.reason,
            evidence=Evidence.BROKER,
            when=f"{OLD_LINEAGE.when} AND NOT {_NEVER_GIVEN_OUT} "
            "AND coalesce(read_end_offset <= epoch_end_offset, TRUE)",
        ),
        Unknown(
            reason=UNTOLD_LINEAGE.reason,
            evidence=Evidence.METADATA_LOG,
            # Where a newer epoch begins below what was read, that log has given it up, whoever leads.
            when=f"{UNTOLD_LINEAGE.when} AND NOT coalesce(epoch_end_settled AND read_end_offset > epoch_end_offset, "
            "FALSE)",
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            # Where the epoch is still the newest, its end in an older copy of the log proves nothing.
            when="NOT snapshot_quiet AND NOT epoch_end_settled AND read_end_offset > epoch_end_offset",
        ),
    ),
    breach_when=f"CASE WHEN {_NEVER_GIVEN_OUT} THEN TRUE WHEN epoch_end_offset IS NULL THEN NULL "
    "ELSE coalesce(read_end_offset > epoch_end_offset, FALSE) END",
    derived=(
        ("cut_off", "read_end_offset - epoch_end_offset"),
        ("moved_on", "CASE WHEN committed_offset <> read_end_offset THEN committed_offset END"),
        ("unknown_epoch", f"CASE WHEN {_NEVER_GIVEN_OUT} THEN highest_leader_epoch END"),
    ),
    evidence=(
        "committed_offset",
        "leader_epoch",
        "highest_leader_epoch",
        "read_leader_epoch",
        "read_end_offset",
        "epoch_end_offset",
        "lost_from_offset",
        "metadata_leader_epoch",
        "committed_at_ms",
        "elections_on_record",
    ),
    explanation=(
        "Group {group} stands at offset {committed_offset} of {topic}-{partition}, and its commits name leader epoch "
        "{unknown_epoch}. By the metadata log the partition has come to leader epoch {metadata_leader_epoch} only.",
        "Group {group} had committed {topic}-{partition} up to offset {read_end_offset} while it read records of "
        "leader "
        "epoch {read_leader_epoch}.",
        "In the log as it is now, leader epoch {read_leader_epoch} ends at {epoch_end_offset}.",
        "So the group read {cut_off} offsets, [{epoch_end_offset}, {read_end_offset}), that were cut off afterwards.",
        "It has gone on since, and stands at {moved_on} now.",
    ),
    start_offset="epoch_end_offset",
    end_offset="read_end_offset",
    next="bin/kafka-consumer-groups.sh --bootstrap-server <host:port> --describe --group {group}",
    implies=("J01",),
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_BESIDE,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    reference="KIP-320; LeaderEpochFileCache#endOffsetFor, OffsetsForLeaderEpochClient (checked by clients only); "
    "PartitionRegistration#merge",
)

COMMITTED_TOPIC_ID = Invariant(
    code="J03",
    key="COMMITTED_TOPIC_ID",
    name="CommittedTopicId",
    severity=Severity.WARNING,
    relation="committed_offsets",
    statement="A committed offset is of the topic that has its name now.",
    because="Offsets of a deleted topic mean nothing in another one that was created under its name. A group that "
    "goes on "
    "from them skips records of the new topic, or is out of range at once.",
    applies_when="topic_id IS NOT NULL AND partition_exists",
    unknown=(
        # The offsets are removed when the group's coordinator learns of the deletion.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="topic_id <> metadata_topic_id AND NOT snapshot_quiet",
        ),
    ),
    breach_when="topic_id <> metadata_topic_id",
    evidence=(
        "topic_id",
        "metadata_topic_id",
        "committed_offset",
        "log_start_offset",
        "log_end_offset",
        "committed_at_ms",
    ),
    explanation=(
        "Group {group} committed offset {committed_offset} of {topic}-{partition} at {committed_at_ms}, for topic id "
        "{topic_id}.",
        "The topic of that name has id {metadata_topic_id} now: it was deleted and created again.",
        "The group's coordinator should have dropped the offset with the old topic.",
    ),
    next="bin/kafka-consumer-groups.sh --bootstrap-server <host:port> --describe --group {group}",
    points_to="client_behaviour",
    reference="OffsetMetadataManager#onPartitionsDeleted; KIP-848, KAFKA-12257",
)

_FELL: Final = "coalesce(falls > 0, FALSE)"
_BELOW_EARLIER: Final = "coalesce(committed_offset < previous_committed_offset, FALSE)"

COMMITTED_MONOTONIC = Invariant(
    code="J04",
    key="COMMITTED_MONOTONIC",
    name="CommittedOffsetNeverFalls",
    severity=Severity.INFO,
    relation="committed_offsets",
    statement="A group's committed offset does not fall: not from commit to commit in its coordinator's log, nor below "
    "what it was in the earlier snapshot.",
    because="Kafka takes any commit. One that goes back makes the group read again what it had read: somebody reset "
    "its "
    "offsets, a consumer went back, or an old member committed late.",
    applies_when="previous_committed_offset IS NOT NULL OR commit_steps > 0",
    unknown=(
        Unknown(
            reason="the topic was created again",
            evidence=None,
            when=f"{_BELOW_EARLIER} AND NOT {_FELL} AND coalesce(topic_id <> previous_topic_id, FALSE)",
        ),
    ),
    breach_when=f"{_BELOW_EARLIER} OR {_FELL}",
    derived=(
        ("fallen", f"CASE WHEN {_BELOW_EARLIER} THEN previous_committed_offset - committed_offset END"),
        ("fell_from", f"CASE WHEN {_FELL} THEN step_from_offset END"),
        ("fell_by", f"CASE WHEN {_FELL} THEN step_from_offset - step_to_offset END"),
        ("times", "CASE WHEN falls > 1 THEN falls END"),
    ),
    evidence=(
        "falls",
        "step_from_offset",
        "step_to_offset",
        "step_to_at_ms",
        "step_record_offset",
        "previous_committed_offset",
        "committed_offset",
        "previous_committed_at_ms",
        "committed_at_ms",
        "log_end_offset",
    ),
    explanation=(
        "Group {group} committed offset {fell_from} of {topic}-{partition} at {step_from_at_ms}, and after that "
        "{step_to_offset} at {step_to_at_ms} (its coordinator's log, offset {step_record_offset}): from there it read "
        "{fell_by} offsets again.",
        "Its coordinator's log holds {times} such falls; this is the deepest.",
        "In the earlier snapshot group {group} had committed offset {previous_committed_offset} of "
        "{topic}-{partition}, at {previous_committed_at_ms}.",
        "At {committed_at_ms} it committed {committed_offset}: it will read {fallen} offsets again.",
    ),
    start_offset=f"CASE WHEN {_BELOW_EARLIER} THEN committed_offset ELSE step_to_offset END",
    end_offset=f"CASE WHEN {_BELOW_EARLIER} THEN previous_committed_offset ELSE step_from_offset END",
    next="bin/kafka-consumer-groups.sh --bootstrap-server <host:port> --describe --group {group}",
    points_to="client_behaviour",
    reference="OffsetMetadataManager#commitOffset checks no offset",
)
