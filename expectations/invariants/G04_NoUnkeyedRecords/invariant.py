from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.compaction import NO_PAYLOAD, UNREADABLE
from tidegauge.expectations.invariants.shared.lacking import POLICY_UNTOLD
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_BEFORE_THE_POLICY: Final = "coalesce(policy_changed_at_ms + 60000 >= first_unkeyed_at_ms, FALSE)"
"""By the controller's clock and the record's, which are not the same."""

INVARIANT = Invariant(
    code="G04",
    key="NO_UNKEYED",
    name="NoUnkeyedRecords",
    severity=Severity.WARNING,
    relation="upkeep",
    statement="A compacted topic has no record without a key.",
    because=line("""
        A broker refuses such a record from a producer, and the cleaner drops it without a word. Records that are there
        from before the topic was made compact will be gone after the next cleaning.
    """),
    applies_when=line(f"""
        unkeyed_records IS NOT NULL OR coalesce(key_incomparable_reason, 'not compacted') <> 'not compacted'
        OR {POLICY_UNTOLD}
    """),
    unknown=(
        Unknown(reason="policy not known", evidence=Evidence.METADATA_LOG, when=POLICY_UNTOLD),
        NO_PAYLOAD,
        UNREADABLE,
        Unknown(
            reason="history of the policy not known",
            evidence=Evidence.METADATA_LOG_START,
            when="unkeyed_records > 0 AND policy_changed_at_ms IS NULL AND NOT policy_history_known",
        ),
    ),
    breach_when="unkeyed_records > 0",
    severity_when=((Severity.INFO, _BEFORE_THE_POLICY),),
    derived=(
        ("flipped_at_ms", f"CASE WHEN {_BEFORE_THE_POLICY} THEN policy_changed_at_ms END"),
        ("while_compact", f"CASE WHEN NOT {_BEFORE_THE_POLICY} THEN 'already compacted' END"),
    ),
    evidence=(
        "unkeyed_records",
        "first_unkeyed_offset",
        "first_unkeyed_at_ms",
        "cleanup_policy",
        "policy_changed_at_ms",
    ),
    explanation=lines("""
        Broker {broker_id}'s log of {topic}-{partition}, whose cleanup.policy is {cleanup_policy}, holds
          {unkeyed_records} records without a key, the first at offset {first_unkeyed_offset}.
        They were there before the policy was set, at {flipped_at_ms}: the cleaner will drop them without a warning.
        The topic was {while_compact} when they came: a leader must have refused them.
    """),
    start_offset="first_unkeyed_offset",
    records="unkeyed_records",
    next=line("""
        bin/kafka-configs.sh --bootstrap-server <host:port> --describe --entity-type topics --entity-name {topic}
    """),
    one_event_on_all_replicas=True,
    points_to="configuration",
    reference="LogValidator#validateKey, Cleaner#shouldRetainRecord",
)
