from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import MARKER_LOST, NOBODY_ENDS_IT, PARTITION_NEVER_ADDED
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_STALLED_MS: Final = 900_000
"""A cleaner thread comes by every 15 seconds, and may be busy with other logs for minutes."""
_STALLED: Final = line(f"""
    coalesce(cleaner_offset, 0) = coalesce(previous_cleaner_offset, 0) AND dirty_bytes > previous_dirty_bytes
    AND previous_dirty_permille > cleanable_permille AND dirty_permille > cleanable_permille
    AND elapsed_ms >= {_STALLED_MS}
""")

INVARIANT = Invariant(
    code="G09",
    key="CLEANER_PROGRESS",
    name="CleanerMakesProgress",
    severity=Severity.WARNING,
    relation="upkeep_changes",
    statement="A log that is dirty enough to be cleaned, and grows, is cleaned.",
    because=line("""
        A cleaner thread that has died, or that a transaction without an end holds back, tells nobody: the log grows
        until the disk is full or a coordinator takes an hour to load it.
    """),
    applies_when="compacted AND dirty_permille IS NOT NULL",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when=f"damaged AND {_STALLED}"),
        Unknown(reason="broker stopped", evidence=None, when=f"NOT broker_alive AND {_STALLED}"),
        Unknown(reason="setting not known", evidence=Evidence.SETTINGS, when=f"NOT cleanable_known AND {_STALLED}"),
        Unknown(reason="compaction lag", evidence=None, when=f"compaction_lag_ms >= elapsed_ms AND {_STALLED}"),
    ),
    breach_when=_STALLED,
    derived=(("held_since", "open_first_offset"),),
    evidence=(
        "previous_snapshot_id",
        "elapsed_ms",
        "previous_cleaner_offset",
        "cleaner_offset",
        "previous_dirty_bytes",
        "dirty_bytes",
        "clean_bytes",
        "previous_dirty_permille",
        "dirty_permille",
        "cleanable_permille",
        "open_first_offset",
    ),
    explanation=lines("""
        In {elapsed_ms} ms since snapshot {previous_snapshot_id} the cleaner of broker {broker_id} did not move on in
          {topic}-{partition}.
        {previous_dirty_bytes} bytes in closed segments were dirty then, {dirty_bytes} are now: {dirty_permille} of a
          thousand, and cleaning is due above {cleanable_permille}.
        A transaction has been open since offset {held_since}: nothing from there on can be cleaned.
    """),
    start_offset="cleaner_offset",
    next="grep -i 'log-cleaner\\|uncleanable' <broker {broker_id}'s log-cleaner.log>",
    points_to="cleaner_bug",
    diagnosis=(MARKER_LOST, PARTITION_NEVER_ADDED, NOBODY_ENDS_IT),
    reference="LogCleanerManager#grabFilthiestCompactedLog, LogCleaner.CleanerThread",
)
