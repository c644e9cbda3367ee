from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import OFFSETS_LOST_ALONE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A13",
    key="NO_OFFSET_GAP",
    name="NoOffsetGap",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="In a log that was never cleaned, each batch begins right behind the last offset of the one before.",
    because=line("""
        A leader gives out every offset once. Only cleaning leaves holes, and a remote tier takes away only a log's
        head; any other hole is records that are no longer there. No broker looks: a follower copies the hole from its
        leader.
    """),
    applies_when="batch_count > 0 AND NOT ever_compacted",
    unknown=(
        # The segment before was the active one when it was copied, and grew on before it was rolled.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=line("""
                NOT broker_quiet AND is_active AND offset_gaps = 1 AND first_offset = base_offset
                AND previous_last_offset + 1 < base_offset
            """),
        ),
        # A follower whose leader has no longer what it lacks begins anew behind what is in the tier.
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT broker_quiet AND remote_storage_enable AND offset_gaps > 0",
        ),
        # It may have been compacted once, and moved here since: the holes came along, the cleaner's checkpoint did not.
        Unknown(
            reason="history of the policy not known",
            evidence=Evidence.METADATA_LOG_START,
            when="NOT policy_history_known AND offset_gaps > 0 AND coalesce(gaps_held_elsewhere, 0) = 0",
        ),
    ),
    breach_when="offset_gaps > 0",
    derived=(
        (
            "hole_start_offset",
            "CASE WHEN offset_gaps = 1 AND previous_last_offset + 1 < first_offset THEN previous_last_offset + 1 END",
        ),
        ("never", "CASE WHEN coalesce(policy_history_known, TRUE) THEN 'never' END"),
        ("proven", "CASE WHEN gaps_held_elsewhere > 0 THEN gaps_held_elsewhere END"),
    ),
    evidence=("offset_gaps", "missing_offsets", "previous_last_offset", "first_offset"),
    explanation=lines("""
        In {path} {missing_offsets} offsets are missing, in {offset_gaps} gaps.
        The segments before it end at {previous_last_offset}, its first batch begins at {first_offset}: nothing holds
          the offsets from {hole_start_offset} on.
        The topic was {never} compacted, so nothing that Kafka does took them away.
        In {proven} of the gaps another replica holds batches: no cleaner took them away.
    """),
    details=("offset_gap",),
    start_offset=line("""
        CASE WHEN offset_gaps = 1 AND previous_last_offset + 1 < first_offset THEN previous_last_offset + 1 END
    """),
    end_offset="CASE WHEN offset_gaps = 1 AND previous_last_offset + 1 < first_offset THEN first_offset END",
    records="missing_offsets",
    next="kafka-dump-log.sh --files {path} | grep baseOffset",
    implies=("A15", "B02", "B11", "B14", "D02", "D07", "D20", "E01"),
    points_to="lost_batch",
    diagnosis=(OFFSETS_LOST_ALONE,),
    reference="UnifiedLog#append assigns offsets without holes; followers accept any offset at or above their end",
)
