from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.derived_files import LOG_START_MAY_LAG
from tidegauge.expectations.invariants.shared.diagnoses import HEADER_ROTTED_ALONE, WRONG_AT_THE_LEADER
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_ENTRY_WITHOUT_BATCHES: Final = line("""
    start_offset IS NULL AND NOT ever_compacted AND checkpoint_start_offset >= log_start_offset
    AND checkpoint_start_offset >= coalesce(first_batch_offset, log_end_offset)
    AND checkpoint_start_offset < log_end_offset
""")
"""An epoch that should have batches here: not at the log end (a leader that wrote nothing), not below what is kept."""
_FIRST_ENTRY_ABOVE_LOG_START: Final = line("""
    is_first_entry AND checkpoint_start_offset > start_offset AND checkpoint_start_offset > log_start_offset
""")

INVARIANT = Invariant(
    code="B14",
    key="EPOCH_CACHE_VS_LOG",
    name="LeaderEpochCheckpointAgreesWithLog",
    severity=Severity.CRITICAL,
    relation="epoch_spans",
    statement=line("""
        An epoch in leader-epoch-checkpoint starts where the log's first batch of that epoch does; only the first entry
        may be moved up to the log start, and one at the log end may have no batch.
    """),
    because=line("""
        Replicas ask one another where an epoch ends and truncate to the answer, which comes from this file. A start
        that is off makes them cut too much, or keep what the leader does not have.
    """),
    applies_when="checkpoint_start_offset IS NOT NULL",
    unknown=(
        Unknown(
            reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_ENTRY_WITHOUT_BATCHES}"
        ),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when=line(f"""
                log_starts_copied IS FALSE AND {_FIRST_ENTRY_ABOVE_LOG_START}
                AND checkpoint_start_offset <= log_end_offset
            """),
        ),
        Unknown(
            reason="log start not yet checkpointed",
            evidence=None,
            # A broker that died before it was has its deleted records back, for good; and who led, a newer epoch.
            when=line(f"""
                ({LOG_START_MAY_LAG} OR NOT is_last_entry) AND {_FIRST_ENTRY_ABOVE_LOG_START}
                AND checkpoint_start_offset <= log_end_offset
            """),
        ),
    ),
    breach_when=line(f"""
        CASE WHEN start_offset IS NULL THEN {_ENTRY_WITHOUT_BATCHES}
        WHEN checkpoint_start_offset > start_offset THEN NOT is_first_entry
        OR checkpoint_start_offset > log_start_offset
        WHEN checkpoint_start_offset < start_offset THEN NOT ever_compacted AND start_offset <> first_batch_offset
        ELSE false END
    """),
    derived=(
        ("late_by", "CASE WHEN checkpoint_start_offset > start_offset THEN checkpoint_start_offset - start_offset END"),
        (
            "early_by",
            "CASE WHEN checkpoint_start_offset < start_offset THEN start_offset - checkpoint_start_offset END",
        ),
        ("no_batch_from", "CASE WHEN start_offset IS NULL THEN checkpoint_start_offset END"),
    ),
    evidence=("checkpoint_start_offset", "start_offset", "end_offset", "log_start_offset", "log_end_offset"),
    explanation=lines("""
        Broker {broker_id}'s leader-epoch-checkpoint says that epoch {leader_epoch} of {topic}-{partition} starts at
          offset {checkpoint_start_offset}.
        In its log the first batch of epoch {leader_epoch} is at {start_offset}.
        The entry is {late_by} offsets too high: batches of this epoch count as the one before's.
        The entry is {early_by} offsets too low: batches of an earlier epoch count as this one's.
        No batch is of that epoch, though the log goes on behind offset {no_batch_from} with other epochs: an epoch
          without records is dropped when the next one starts.
        The log runs from {log_start_offset} to {log_end_offset}; neither its start nor its end accounts for that.
    """),
    start_offset=line("""
        CASE WHEN start_offset < checkpoint_start_offset THEN start_offset ELSE checkpoint_start_offset END
    """),
    end_offset=line("""
        CASE WHEN start_offset IS NULL THEN end_offset
        WHEN start_offset < checkpoint_start_offset THEN checkpoint_start_offset ELSE start_offset END
    """),
    next="find . -path \\*/{topic}-{partition}/leader-epoch-checkpoint | xargs head -n 100",
    implies=("D04", "D05"),
    points_to="header_rot",
    diagnosis=(WRONG_AT_THE_LEADER, HEADER_ROTTED_ALONE),
    reference=line("""
        UnifiedLog#append (assigns the epoch before the write), LeaderEpochFileCache#assign; KIP-101, KIP-279
    """),
)
