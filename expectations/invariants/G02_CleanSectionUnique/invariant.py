from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.compaction import NO_PAYLOAD, UNREADABLE
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_DUMP: Final = line("""
    kafka-dump-log.sh --deep-iteration --files <log.dir of broker {broker_id}>/{topic}-{partition}/<segment>.log
""")

INVARIANT = Invariant(
    code="G02",
    key="CLEAN_SECTION_UNIQUE",
    name="CleanSectionUnique",
    severity=Severity.INFO,
    relation="upkeep",
    statement="Below the cleaner's checkpoint each key has one record.",
    because=line("""
        The checkpoint says that this part is clean. If it is not, the cleaner does not do its work, and readers see
        values that were replaced long ago.
    """),
    applies_when="cleaner_offset IS NOT NULL",
    unknown=(
        NO_PAYLOAD,
        UNREADABLE,
        Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="NOT broker_quiet AND duplicate_keys > 0"),
    ),
    breach_when="duplicate_keys > 0",
    derived=(("share", "CASE WHEN keys_sampled_permille < 1000 THEN keys_sampled_permille END"),),
    evidence=("cleaner_offset", "keys", "duplicate_keys", "first_duplicate_offset", "keys_sampled_permille"),
    explanation=lines("""
        Broker {broker_id} has cleaned {topic}-{partition} up to {cleaner_offset}, by its checkpoint.
        {duplicate_keys} of {keys} keys have more than one record below that; the first record that a later one replaces
          stands at {first_duplicate_offset}.
        {share} of a thousand keys were looked at.
    """),
    start_offset="first_duplicate_offset",
    end_offset="cleaner_offset",
    next=_DUMP,
    points_to="cleaner_bug",
    reference="Cleaner#cleanInto, Cleaner#shouldRetainRecord",
)
