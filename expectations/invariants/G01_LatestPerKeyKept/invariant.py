from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.compaction import KEYS_COMPARED, NO_PAYLOAD, NO_TIME, UNREADABLE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="G01",
    key="LATEST_PER_KEY_KEPT",
    name="LatestPerKeyKept",
    severity=Severity.CRITICAL,
    relation="upkeep_changes",
    statement=line("""
        Each key's last committed record of the earlier snapshot is there as it was, unless a newer one replaces it or
        it is deleted.
    """),
    because=line("""
        That is all that a compacted topic promises. A key that is gone without a tombstone is a row that is missing
        from every table that is built from the topic from now on.
    """),
    applies_when=KEYS_COMPARED,
    unknown=(
        NO_PAYLOAD,
        UNREADABLE,
        NO_TIME,
        Unknown(reason="log damaged", evidence=None, when="damaged AND (keys_lost > 0 OR keys_changed > 0)"),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when="NOT broker_quiet AND keys_lost > 0 AND keys_changed = 0",
        ),
        Unknown(
            reason="a deletion may have come and gone",
            evidence=None,
            when="tombstone_may_have_passed AND keys_lost > 0 AND keys_changed = 0",
        ),
    ),
    breach_when="keys_lost > 0 OR keys_changed > 0",
    derived=(
        ("lost", "CASE WHEN keys_lost > 0 THEN keys_lost END"),
        ("changed", "CASE WHEN keys_changed > 0 THEN keys_changed END"),
    ),
    evidence=(
        "previous_snapshot_id",
        "keys_compared",
        "keys_lost",
        "first_lost_key_offset",
        "keys_changed",
        "first_changed_key_offset",
        "previous_cleaner_offset",
        "cleaner_offset",
        "elapsed_ms",
        "delete_retention_ms",
    ),
    explanation=lines("""
        Broker {broker_id}'s log of {topic}-{partition} was compared with itself in snapshot {previous_snapshot_id}, by
          the last committed record of each of {keys_compared} keys.
        {lost} of them have no record any more, neither that one nor a newer one; the first stood at offset
          {first_lost_key_offset}.
        {changed} are at their offset with another value, the first at {first_changed_key_offset}.
        No deletion can have passed meanwhile: its tombstone would stay for {delete_retention_ms} ms, and only
          {elapsed_ms} ms lie between the two.
        The cleaner had come to {previous_cleaner_offset} then, and is at {cleaner_offset} now.
    """),
    start_offset="least(first_lost_key_offset, first_changed_key_offset)",
    records="keys_lost + keys_changed",
    next=line("""
        tidegauge salvage <snapshot {previous_snapshot_id}> --topic {topic} --partition {partition} --out salvaged
    """),
    implies=("G07",),
    one_event_on_all_replicas=True,
    points_to="cleaner_bug",
    reference="Cleaner#shouldRetainRecord; KAFKA-6834, KAFKA-9826",
)
