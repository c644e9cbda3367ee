"""Invariants about how many disks the committed records are truly on (family D).

In: rows of `divergences`, `partitions`. The rule that must hold here: an ISR is a promise about logs, and what the logs
hold is what counts.
"""

from typing import Final

from expectations.catalogue.diagnoses import CUT_OR_LOST, DISK_OF_ANOTHER_MOMENT, LOST_ITS_TAIL, UNCLEAN_ELECTION_BESIDE
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_REPLICATION: Final = "bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}"
_NEEDED: Final = (
    "CASE WHEN min_insync_replicas > cardinality(replicas) THEN cardinality(replicas) ELSE min_insync_replicas END"
)

ISR_EXPANSION_EPOCH = Invariant(
    code="D12",
    key="ISR_EXPANSION_EPOCH",
    name="JoinedInSyncAfterEpochStart",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement="A follower that joined the ISR under the current leader has everything from before that leader's epoch.",
    because="A leader takes a follower into the ISR once it has caught up to where the leader's own epoch began: below "
    "that lie records which earlier leaders may have committed. A member without them can be elected cleanly, and cuts "
    "them off.",
    # A member that was in the ISR at the election may lag behind the start of the new epoch for a while.
    applies_when="leader_is_elected AND follower_in_isr AND joined_isr_in_current_epoch IS NOT FALSE",
    unknown=(
        Unknown(
            reason="the election is not on record",
            evidence=Evidence.METADATA_LOG_START,
            when="joined_isr_in_current_epoch IS NULL AND (current_epoch_start_offset IS NULL "
            "OR follower_log_end_offset < current_epoch_start_offset)",
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT snapshot_quiet AND follower_copied_after_leader IS NOT TRUE "
            "AND follower_log_end_offset < current_epoch_start_offset",
        ),
    ),
    breach_when="follower_log_end_offset < current_epoch_start_offset",
    evidence=(
        "current_epoch_start_offset",
        "follower_log_end_offset",
        "leader_log_end_offset",
        "leader_last_leader_epoch",
        "follower_last_leader_epoch",
        "follower_high_watermark",
        "leader_high_watermark",
        "follower_clean_shutdown",
        "elections_on_record",
    ),
    explanation=(
        "Broker {leader_id}, leader of {topic}-{partition}, began its leader epoch at offset "
        "{current_epoch_start_offset}.",
        "Broker {follower_id} joined the ISR in that epoch, and its log ends at {follower_log_end_offset}.",
        "It was let in before it had caught up, or lost its tail since: a clean election of broker {follower_id} loses "
        "what lies between.",
    ),
    start_offset="follower_log_end_offset",
    end_offset="current_epoch_start_offset",
    records="current_epoch_start_offset - follower_log_end_offset",
    implies=("D19", "D20"),
    points_to="lost_flush",
    diagnosis=(
        UNCLEAN_ELECTION_BESIDE,
        DISK_OF_ANOTHER_MOMENT,
        LOST_ITS_TAIL,
        CUT_OR_LOST,
    ),
    next=_REPLICATION,
    reference="Partition#isFollowerInSync, KAFKA-7128",
)

ACKED_PRESENT = Invariant(
    code="D19",
    key="ACKED_PRESENT",
    name="AcknowledgedRecordsPresent",
    severity=Severity.CRITICAL,
    relation="partitions",
    statement="What a producer with acks=all was told is written, the leader and every member of the ISR have.",
    because="That is the promise of an acknowledgement. No file of a cluster tells what producers were told; a "
    "simulated cluster's ledger does, and this is judged beside it alone, to put the other verdicts to the test.",
    applies_when="acknowledged_records > 0",
    unknown=(
        Unknown(
            reason="copy skew", evidence=Evidence.ONE_MOMENT, when="NOT snapshot_quiet AND acknowledged_missing > 0"
        ),
    ),
    breach_when="acknowledged_missing > 0",
    evidence=(
        "acknowledged_records",
        "acknowledged_missing",
        "acknowledged_missing_on",
        "leader_id",
        "isr",
        "log_end_offset",
        "high_watermark_lower",
    ),
    explanation=(
        "By the simulated cluster's ledger {acknowledged_records} records of {topic}-{partition} were acknowledged "
        "under acks=all.",
        "{acknowledged_missing} of them, from offset {first_acknowledged_missing_offset} on, are not in the logs of "
        "brokers {acknowledged_missing_on}, which lead the partition or are in its ISR {isr}.",
        "They are above the log start, so retention did not take them.",
    ),
    start_offset="first_acknowledged_missing_offset",
    end_offset="acknowledged_missing_end_offset",
    records="acknowledged_missing",
    next="tidegauge salvage <snapshot> --topic {topic} --partition {partition} --out salvaged",
    points_to="cut_or_lost",
    diagnosis=(UNCLEAN_ELECTION_BESIDE,),
    reference="ReplicaManager#appendRecords, DelayedProduce; Vanlightly's TLA+ NoCommittedRecordLostGlobally",
)

MATERIAL_LOSS_RISK = Invariant(
    code="D20",
    key="MATERIAL_LOSS_RISK",
    name="CommittedOnEnoughDisks",
    severity=Severity.WARNING,
    relation="partitions",
    statement="At least as many replicas as min.insync.replicas asks for hold everything that is committed, undamaged.",
    because="An acknowledgement promised that many copies. Where logs were damaged, cut short or lost, the metadata "
    "log still counts their replicas as in sync: one more disk, and acknowledged records are gone.",
    # Without enough members in the ISR (K10) nobody believes the copies to be there; and retention may leave nothing.
    applies_when="topic <> '__cluster_metadata' AND (cluster_stopped OR min_insync_replicas IS NULL OR "
    f"cardinality(isr) >= {_NEEDED}) AND coalesce(high_watermark_lower > log_start_offset, true)",
    unknown=(
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"NOT snapshot_quiet AND coalesce(cardinality(complete_replicas), 0) < {_NEEDED}",
        ),
        Unknown(
            reason="not every replica was captured",
            evidence=Evidence.BROKER,
            when="cardinality(captured_replicas) < cardinality(replicas) "
            f"AND cardinality(complete_replicas) < {_NEEDED}",
        ),
        Unknown(reason="min.insync.replicas not known", evidence=Evidence.SETTINGS, when="min_insync_replicas IS NULL"),
        Unknown(reason="high watermark not known", evidence=Evidence.CHECKPOINT, when="complete_replicas IS NULL"),
        Unknown(
            # Brokers stop one after the other. Without an ELR the last of them goes on to commit what only it has.
            reason="the ISR had shrunk below the minimum before the cluster stopped, and no ELR was kept",
            evidence=None,
            when=f"cluster_stopped AND cardinality(isr) BETWEEN 1 AND {_NEEDED} - 1 "
            f"AND coalesce(cardinality(elr), 0) = 0 AND cardinality(complete_replicas) < {_NEEDED}",
        ),
    ),
    breach_when=f"cardinality(complete_replicas) < {_NEEDED}",
    derived=(("needed", _NEEDED), ("held_by", "cardinality(complete_replicas)")),
    evidence=(
        "replicas",
        "isr",
        "elr",
        "complete_replicas",
        "captured_replicas",
        "min_insync_replicas",
        "log_start_offset",
        "high_watermark_lower",
    ),
    explanation=(
        "Offsets {log_start_offset} to {high_watermark_lower} of {topic}-{partition} are committed, and "
        "min.insync.replicas asks for {needed} copies.",
        "Of the captured replicas {captured_replicas}, {held_by} hold all of it undamaged: {complete_replicas}.",
        "The ISR is {isr}, so the controller counts more copies than there are.",
    ),
    start_offset="log_start_offset",
    end_offset="high_watermark_lower",
    next=_REPLICATION,
    points_to="cut_or_lost",
    reference="KIP-966; Partition#maybeIncrementLeaderHW waits for the ISR, and reads no log again",
)
