from tidegauge.expectations.invariants.shared.commands import DUMP_METADATA_RECORD
from tidegauge.expectations.invariants.shared.diagnoses import WORD_OF_ITS_BROKER_IS_OLDER
from tidegauge.expectations.invariants.shared.metadata import RECORD_STANDS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K11",
    key="BROKER_EPOCH",
    name="BrokerEpochIsRegistrationOffset",
    severity=Severity.CRITICAL,
    relation="broker_registrations",
    statement=line("""
        A broker's epoch is the offset of its registration and only rises, and records about a registration carry its
        epoch.
    """),
    because=line("""
        The broker epoch tells a broker from what it was before it restarted, perhaps with an empty disk. One that does
        not rise lets a request of the old process put the new one into an ISR.
    """),
    applies_when="NOT from_snapshot OR previous_broker_epoch IS NOT NULL OR stale_records > 0",
    unknown=(
        Unknown(
            reason="metadata log damaged",
            evidence=None,
            when=line("""
                after_damage AND (stale_records > 0 OR broker_epoch < batch_offset OR broker_epoch > metadata_offset)
            """),
        ),
    ),
    breach_when=line("""
        stale_records > 0 OR coalesce(broker_epoch < previous_broker_epoch, false) OR (NOT from_snapshot
        AND (broker_epoch < batch_offset OR broker_epoch > metadata_offset) AND NOT (same_incarnation
        AND coalesce(broker_epoch = previous_broker_epoch, false)))
    """),
    derived=(
        (
            "no_offset",
            line("""
                CASE WHEN NOT from_snapshot AND (broker_epoch < batch_offset
                OR broker_epoch > metadata_offset) THEN metadata_offset END
            """),
        ),
        ("fell_from", "CASE WHEN broker_epoch < previous_broker_epoch THEN previous_broker_epoch END"),
        ("stale", "CASE WHEN stale_records > 0 THEN stale_records END"),
    ),
    evidence=(
        "metadata_offset",
        "broker_epoch",
        "previous_broker_epoch",
        "stale_records",
        "release",
        "at_ms",
        "node_id",
        "path",
    ),
    explanation=(
        *lines("""
            Broker {broker_id} registered by record {metadata_offset} of the metadata log, with broker epoch
              {broker_epoch}.
            That is not the offset of its registration, {no_offset}.
            Its epoch before was {fell_from}, higher than this one.
            {stale} later records about this registration carry another epoch, the first at offset
              {stale_record_offset}.
        """),
        RECORD_STANDS,
    ),
    next=DUMP_METADATA_RECORD,
    implies=("K19",),
    points_to="stale_disk",
    diagnosis=(WORD_OF_ITS_BROKER_IS_OLDER,),
    reference="ClusterControlManager#registerBroker, #replay, KIP-903",
)
