from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DUMP_METADATA_RECORD
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_BEYOND_EPOCHS: Final = "differing_entries - differing_epochs"

INVARIANT = Invariant(
    code="K03",
    key="SNAPSHOT_EQUALS_LOG",
    name="MetadataSnapshotEqualsLog",
    severity=Severity.CRITICAL,
    relation="metadata_snapshots",
    statement="A metadata snapshot says what the replay of the log below its end says.",
    because=line("""
        A node that starts, or falls behind, takes the snapshot for the log. If they differ, it goes on with other
        metadata than its controllers: other leaders, other settings, other rights.
    """),
    unknown=(
        Unknown(
            reason="log prefix deleted",
            evidence=Evidence.METADATA_LOG_START,
            when="incomparable_reason = 'the log that it stands for is gone'",
        ),
        Unknown(
            reason="the replay begins with it",
            evidence=Evidence.METADATA_LOG_START,
            when="incomparable_reason = 'the replay begins with it'",
        ),
        Unknown(
            reason="log too short",
            evidence=Evidence.METADATA_LOG,
            when="incomparable_reason = 'the log in the copy ends before it'",
        ),
        Unknown(reason="file cannot be read", evidence=Evidence.SEGMENT, when="incomparable_reason IS NOT NULL"),
        Unknown(reason="metadata log damaged", evidence=None, when=f"after_damage AND whole AND {_BEYOND_EPOCHS} > 0"),
    ),
    breach_when=f"NOT whole OR {_BEYOND_EPOCHS} > 0",
    derived=(
        ("otherwise", f"CASE WHEN whole AND {_BEYOND_EPOCHS} > 0 THEN {_BEYOND_EPOCHS} END"),
        ("cut", "CASE WHEN NOT whole THEN 'to its end' END"),
    ),
    evidence=("path", "end_offset", "leader_epoch", "entries", "differing_entries", "newest"),
    explanation=lines("""
        {path} on node {broker_id} stands for everything below offset {end_offset} of the metadata log.
        It cannot be read {cut}: the footer is missing, or a record is damaged.
        {otherwise} of its {entries} entries are not what the log below that offset makes of them.
    """),
    details=("differences",),
    next=DUMP_METADATA_RECORD,
    points_to="controller_bug",
    reference="SnapshotGenerator, MetadataLoader, RecordsSnapshotWriter, KIP-630",
)
