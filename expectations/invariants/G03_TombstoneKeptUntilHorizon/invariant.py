from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.compaction import KEYS_COMPARED, NO_PAYLOAD, NO_TIME, UNREADABLE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="G03",
    key="TOMBSTONE_HORIZON",
    name="TombstoneKeptUntilHorizon",
    severity=Severity.WARNING,
    relation="upkeep_changes",
    statement="A tombstone stays until its batch's delete horizon, or delete.retention.ms at least.",
    because=line("""
        A consumer that began to read before the deletion must meet the tombstone before it is done. One that does not
        keeps the deleted key forever.
    """),
    applies_when=KEYS_COMPARED,
    unknown=(
        NO_PAYLOAD,
        UNREADABLE,
        NO_TIME,
        Unknown(reason="log damaged", evidence=None, when="damaged AND early_tombstones > 0"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="NOT broker_quiet AND early_tombstones > 0"),
    ),
    breach_when="early_tombstones > 0",
    evidence=(
        "previous_snapshot_id",
        "early_tombstones",
        "first_early_tombstone_offset",
        "early_tombstone_due_at_ms",
        "captured_at_ms",
        "delete_retention_ms",
    ),
    explanation=lines("""
        In snapshot {previous_snapshot_id} broker {broker_id}'s log of {topic}-{partition} held {early_tombstones}
          tombstones that are gone now, with nothing newer of their keys.
        The first stood at offset {first_early_tombstone_offset} and was to stay until {early_tombstone_due_at_ms}; this
          snapshot is of {captured_at_ms}.
    """),
    start_offset="first_early_tombstone_offset",
    records="early_tombstones",
    next=line("""
        bin/kafka-configs.sh --bootstrap-server <host:port> --describe --entity-type topics --entity-name {topic} --all
        | grep delete.retention.ms
    """),
    points_to="cleaner_bug",
    reference="MemoryRecords#filterTo, Cleaner#checkBatchRetention; KIP-534",
)
