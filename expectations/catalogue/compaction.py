"""Family G, compaction: what the log cleaner must leave, in one snapshot.

In: the columns of `upkeep`, `key_comparisons` and `index_files`. Out: invariants B19, G02, G04 and G06 to G08. The rule
that must hold here: each broker cleans by itself, so two replicas may differ in every byte and mean the same.
"""

from typing import Final

from expectations.catalogue.lacking import INDEXES_GONE, POLICY_UNTOLD, TRANSACTION_INDEXES_NOT_COPIED
from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

NO_PAYLOAD: Final = Unknown(
    reason="no payload", evidence=Evidence.RECORDS, when="key_incomparable_reason = 'no payload'"
)
UNREADABLE: Final = Unknown(
    reason="a segment could not be read",
    evidence=Evidence.SEGMENT,
    when="key_incomparable_reason = 'a segment could not be read'",
)
_DUMP: Final = (
    "kafka-dump-log.sh --deep-iteration --files <log.dir of broker {broker_id}>/{topic}-{partition}/<segment>.log"
)

_BEYOND: Final = (
    # Below the log start nothing is left to clean: the cleaner moves its checkpoint up to it, which DeleteRecords may
    # have put inside the active segment (LogCleanerManager#cleanableOffsets, forceUpdateCheckpoint).
    "cleaner_offset > log_start_offset "
    "AND (cleaner_offset > active_base_offset OR coalesce(cleaner_offset > open_first_offset, FALSE) "
    "OR (clean_shutdown AND coalesce(cleaner_offset > high_watermark, FALSE)))"
)

CLEANER_CHECKPOINT = Invariant(
    code="B19",
    key="CLEANER_CHECKPOINT",
    name="CleanerCheckpointInBounds",
    severity=Severity.WARNING,
    relation="upkeep",
    statement="The cleaner's checkpoint lies at or below the active segment, the high watermark and the first open "
    "transaction.",
    because=(
        "The cleaner must not look at what may still be truncated or aborted. One that did may have removed the last "
        "committed record of a key because of a newer one that never came to be."
    ),
    applies_when="cleaner_offset IS NOT NULL AND active_base_offset IS NOT NULL",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_BEYOND}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_BEYOND}"),
        # The cleaner writes at once what a broker that dies within the minute has not written of its log start.
        Unknown(
            reason="log start not yet checkpointed",
            evidence=None,
            when=f"NOT coalesce(clean_shutdown, FALSE) AND {_BEYOND} AND cleaner_offset <= log_end_offset "
            "AND NOT coalesce(cleaner_offset > open_first_offset, FALSE)",
        ),
    ),
    breach_when=_BEYOND,
    derived=(
        ("above_active", "CASE WHEN cleaner_offset > active_base_offset THEN active_base_offset END"),
        ("above_open", "CASE WHEN cleaner_offset > open_first_offset THEN open_first_offset END"),
        ("above_mark", "CASE WHEN cleaner_offset > high_watermark THEN high_watermark END"),
    ),
    evidence=(
        "cleaner_offset",
        "first_base_offset",
        "active_base_offset",
        "high_watermark",
        "open_first_offset",
        "log_end_offset",
    ),
    start_offset="least(active_base_offset, coalesce(high_watermark, active_base_offset), "
    "coalesce(open_first_offset, active_base_offset))",
    end_offset="cleaner_offset",
    explanation=(
        "cleaner-offset-checkpoint says that broker {broker_id} has cleaned {topic}-{partition} up to "
        "{cleaner_offset}.",
        "The active segment, which is never cleaned, begins at {above_active}.",
        "The high watermark is {above_mark}: what lies above may still be truncated.",
        "A transaction has been open since offset {above_open}: it may still be aborted.",
        "An entry below the first segment, as retention leaves it, would be sound.",
    ),
    next="grep '^{topic} {partition} ' <log.dir of broker {broker_id}>/cleaner-offset-checkpoint",
    implies=("G02",),
    points_to="cleaner_bug",
    reference="LogCleanerManager#cleanableOffsets; KAFKA-13194",
)

CLEAN_SECTION_UNIQUE = Invariant(
    code="G02",
    key="CLEAN_SECTION_UNIQUE",
    name="CleanSectionUnique",
    severity=Severity.INFO,
    relation="upkeep",
    statement="Below the cleaner's checkpoint each key has one record.",
    because="The checkpoint says that this part is clean. If it is not, the cleaner does not do its work, and readers "
    "see values that were replaced long ago.",
    applies_when="cleaner_offset IS NOT NULL",
    unknown=(
        NO_PAYLOAD,
        UNREADABLE,
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="NOT broker_quiet AND duplicate_keys > 0"),
    ),
    breach_when="duplicate_keys > 0",
    derived=(("share", "CASE WHEN keys_sampled_permille < 1000 THEN keys_sampled_permille END"),),
    evidence=("cleaner_offset", "keys", "duplicate_keys", "first_duplicate_offset", "keys_sampled_permille"),
    start_offset="first_duplicate_offset",
    end_offset="cleaner_offset",
    explanation=(
        "Broker {broker_id} has cleaned {topic}-{partition} up to {cleaner_offset}, by its checkpoint.",
        "{duplicate_keys} of {keys} keys have more than one record below that; the first record that a later one "
        "replaces stands at {first_duplicate_offset}.",
        "{share} of a thousand keys were looked at.",
    ),
    next=_DUMP,
    points_to="cleaner_bug",
    reference="Cleaner#cleanInto, Cleaner#shouldRetainRecord",
)

_BEFORE_THE_POLICY: Final = "coalesce(policy_changed_at_ms + 60000 >= first_unkeyed_at_ms, FALSE)"
"""By the controller's clock and the record's, which are not the same."""

NO_UNKEYED = Invariant(
    code="G04",
    key="NO_UNKEYED",
    name="NoUnkeyedRecords",
    severity=Severity.WARNING,
    relation="upkeep",
    statement="A compacted topic has no record without a key.",
    because=(
        "A broker refuses such a record from a producer, and the cleaner drops it without a word. Records that are "
        "there from before the topic was made compact will be gone after the next cleaning."
    ),
    applies_when="unkeyed_records IS NOT NULL OR coalesce(key_incomparable_reason, 'not compacted') <> 'not compacted' "
    f"OR {POLICY_UNTOLD}",
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
    start_offset="first_unkeyed_offset",
    records="unkeyed_records",
    explanation=(
        "Broker {broker_id}'s log of {topic}-{partition}, whose cleanup.policy is {cleanup_policy}, holds "
        "{unkeyed_records} records without a key, the first at offset {first_unkeyed_offset}.",
        "They were there before the policy was set, at {flipped_at_ms}: the cleaner will drop them, and no one is "
        "told.",
        "The topic was {while_compact} when they came: a leader must have refused them.",
    ),
    next="bin/kafka-configs.sh --bootstrap-server <host:port> --describe --entity-type topics --entity-name {topic}",
    points_to="configuration",
    one_event_on_all_replicas=True,
    reference="LogValidator#validateKey, Cleaner#shouldRetainRecord",
)

_WITHOUT: Final = "producers_without_batch > 0"

PRODUCER_LAST_BATCH_KEPT = Invariant(
    code="G06",
    key="PRODUCER_LAST_BATCH_KEPT",
    name="ProducerLastBatchKept",
    severity=Severity.WARNING,
    relation="upkeep",
    statement="Of each producer that the newest producer snapshot knows, the log has the last batch, be it empty.",
    because=(
        "A replica without that snapshot rebuilds its producers from the log. One that finds no batch of a producer "
        "takes its next one for out of sequence, or a retry for something new."
    ),
    applies_when=f"producers_without_batch IS NOT NULL OR {POLICY_UNTOLD}",
    unknown=(
        Unknown(
            reason="policy not known",
            evidence=Evidence.METADATA_LOG,
            when=f"producers_without_batch IS NULL AND {POLICY_UNTOLD}",
        ),
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_WITHOUT}"),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_WITHOUT}"),
        Unknown(
            reason="setting not known",
            evidence=Evidence.SETTINGS,
            when=f"producers_perhaps_expired > 0 AND NOT {_WITHOUT}",
        ),
    ),
    breach_when=_WITHOUT,
    evidence=(
        "producers_without_batch",
        "first_missing_producer_id",
        "first_missing_offset",
        "expired_producers",
        "log_start_offset",
    ),
    start_offset="first_missing_offset",
    explanation=(
        "The newest producer snapshot of broker {broker_id}'s {topic}-{partition} names {producers_without_batch} "
        "producers whose last batch is not in the log.",
        "The first is producer {first_missing_producer_id}: a batch that ends at offset {first_missing_offset} should "
        "be there.",
        "The cleaner keeps that batch, without records if need be, until the producer's state expires.",
    ),
    next="kafka-dump-log.sh --files <log.dir of broker {broker_id}>/{topic}-{partition}/<newest>.snapshot",
    implies=("B11", "D16"),
    points_to="cleaner_bug",
    reference="Cleaner#checkBatchRetention; KAFKA-5490, KAFKA-8335",
)

_DIFFER: Final = "(differing_keys > 0 OR missing_keys > 0 OR revived_keys > 0)"

COMPACTED_EQUIVALENCE = Invariant(
    code="G07",
    key="COMPACTED_EQUIVALENCE",
    name="CompactedReplicasEquivalent",
    severity=Severity.CRITICAL,
    relation="key_comparisons",
    statement="Two replicas of a compacted partition give each key the same last committed record.",
    because=(
        "Cleaned logs differ byte by byte, which hides every other difference. If a key's last record is not the same "
        "on both, a table that is built from the topic depends on which broker led while it was built."
    ),
    applies_when="coalesce(incomparable_reason, '') <> 'no common range'",
    unknown=(
        Unknown(reason="no payload", evidence=Evidence.RECORDS, when="incomparable_reason = 'no payload'"),
        Unknown(
            reason="a segment could not be read",
            evidence=Evidence.SEGMENT,
            when="incomparable_reason = 'a segment could not be read'",
        ),
        Unknown(
            reason="high watermark not checkpointed",
            evidence=Evidence.CHECKPOINT,
            when="incomparable_reason = 'high watermark not checkpointed'",
        ),
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_DIFFER}"),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            when=f"NOT (leader_quiet AND follower_quiet) AND differing_keys = 0 AND {_DIFFER}",
        ),
    ),
    breach_when=_DIFFER,
    derived=(
        ("valued", "CASE WHEN differing_keys > 0 THEN differing_keys END"),
        ("lacking", "CASE WHEN missing_keys > 0 THEN missing_keys END"),
        ("undead", "CASE WHEN revived_keys > 0 THEN revived_keys END"),
        ("share", "CASE WHEN keys_sampled_permille < 1000 THEN keys_sampled_permille END"),
    ),
    evidence=(
        "compared_from_offset",
        "compared_to_end_offset",
        "keys_compared",
        "differing_keys",
        "missing_keys",
        "revived_keys",
        "first_differing_offset",
        "only_on",
    ),
    start_offset="first_differing_offset",
    records="differing_keys + missing_keys + revived_keys",
    explanation=(
        "The last committed records of {keys_compared} keys of {topic}-{partition} below {compared_to_end_offset} were "
        "compared between broker {leader_id} and broker {follower_id}.",
        "{share} of a thousand keys were looked at.",
        "{valued} keys have a record at the same offset with another value.",
        "{lacking} keys have a last record on one of the two that the other has not, and nothing newer either.",
        "{undead} keys are deleted on one, and have an older value on the other.",
        "The first such record stands at offset {first_differing_offset}.",
        "Only broker {only_on} has it.",
        "Records that a newer one replaces, and tombstones whose time is over, are allowed for.",
    ),
    next="kafka-dump-log.sh --deep-iteration --files "
    "<log.dir of broker {follower_id}>/{topic}-{partition}/<segment>.log",
    points_to="cleaner_bug",
    reference="Cleaner#shouldRetainRecord; each broker's LogCleaner works by itself",
)

_ABORTS_WRONG: Final = "(aborted_unlisted > 0 OR aborted_unmarked > 0)"

ABORT_MARKER_KEPT = Invariant(
    code="G08",
    key="ABORT_MARKER_KEPT",
    name="AbortMarkerKept",
    severity=Severity.CRITICAL,
    relation="index_files",
    statement="In a compacted log a record of an aborted transaction has its ABORT marker behind it, and an entry in "
    "the transaction index.",
    because=(
        "The cleaner removes aborted records first, then the entry, then the marker. In another order aborted records "
        "become committed ones, or belong to a transaction that never ends."
    ),
    applies_when="kind = 'txnindex' AND aborted_unlisted IS NOT NULL",
    unknown=(
        INDEXES_GONE,
        TRANSACTION_INDEXES_NOT_COPIED,
        Unknown(
            reason="log damaged", evidence=None, when=f"uncheckable_reason = 'the log is damaged' AND {_ABORTS_WRONG}"
        ),
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_ABORTS_WRONG}"),
    ),
    breach_when=_ABORTS_WRONG,
    derived=(
        ("unlisted", "CASE WHEN aborted_unlisted > 0 THEN aborted_unlisted END"),
        ("unmarked", "CASE WHEN aborted_unmarked > 0 THEN aborted_unmarked END"),
    ),
    evidence=("entries", "aborted_unlisted", "aborted_unmarked", "base_offset", "size_bytes"),
    details=("unlisted", "unmarked"),
    explanation=(
        "{path} was compared with the aborted transactions of the cleaned log that still have records.",
        "{unlisted} of them are not in it: read_committed consumers get their records.",
        "{unmarked} transactions that it names have records left, and no ABORT marker at the offset that it names.",
        "Transactions of which the cleaner has left no record need neither.",
    ),
    next="kafka-dump-log.sh --files {path}",
    implies=("B06", "B07", "F06", "F08", "F09"),
    points_to="cleaner_bug",
    reference="CleanedTransactionMetadata#onControlBatchRead; KAFKA-13727, KAFKA-14055",
)
