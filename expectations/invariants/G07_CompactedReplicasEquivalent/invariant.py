from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_DIFFER: Final = "(differing_keys > 0 OR missing_keys > 0 OR revived_keys > 0)"

INVARIANT = Invariant(
    code="G07",
    key="COMPACTED_EQUIVALENCE",
    name="CompactedReplicasEquivalent",
    severity=Severity.CRITICAL,
    relation="key_comparisons",
    statement="Two replicas of a compacted partition give each key the same last committed record.",
    because=line("""
        Cleaned logs differ byte by byte, which hides every other difference. If a key's last record is not the same on
        both, a table that is built from the topic depends on which broker led while it was built.
    """),
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
    explanation=lines("""
        The last committed records of {keys_compared} keys of {topic}-{partition} below {compared_to_end_offset} were
          compared between broker {leader_id} and broker {follower_id}.
        {share} of a thousand keys were looked at.
        {valued} keys have a record at the same offset with another value.
        {lacking} keys have a last record on one of the two that the other has not, and nothing newer either.
        {undead} keys are deleted on one, and have an older value on the other.
        The first such record is at offset {first_differing_offset}.
        Only broker {only_on} has it.
        Records that a newer one replaces, and tombstones whose time is over, are allowed for.
    """),
    start_offset="first_differing_offset",
    records="differing_keys + missing_keys + revived_keys",
    next=line("""
        kafka-dump-log.sh --deep-iteration --files <log.dir of broker {follower_id}>/{topic}-{partition}/<segment>.log
    """),
    points_to="cleaner_bug",
    reference="Cleaner#shouldRetainRecord; each broker's LogCleaner works by itself",
)
