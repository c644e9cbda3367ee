"""Where a follower parts from the leader, or from the last one, and what may be lost there.

In: the columns of `divergences`. Leader epochs order copies of different moments, offsets do not. What rests on epochs
and on what both had declared committed is judged in a fuzzy copy too; what compares two log ends or two high watermarks
is unknown there when it looks wrong.
"""

from typing import Final

from tidegauge.expectations.invariants.shared.lacking import CLEANED_END_UNTOLD
from tidegauge.expectations.model import Unknown
from tidegauge.expectations.prose import line

SOMETHING_TO_COMPARE: Final = "coalesce(incomparable_reason, '') NOT IN ('no batches', 'no common range')"
COMPACTED: Final = (
    CLEANED_END_UNTOLD,
    Unknown(reason="compacted", evidence=None, when="NOT comparable"),
)
"""Cleaners rewrite batches, each broker by its own clock: nothing is left that must be equal byte for byte."""
HIDDEN: Final = Unknown(
    reason="log damaged",
    evidence=None,
    when="damage_hides AND first_differing_offset IS NULL AND identity_violation_offset IS NULL",
)
"""What stands behind a damaged place of one of the logs cannot be compared."""
ONLY_THE_END_DIFFERS: Final = line("""
    newer_epoch IS NULL AND first_differing_offset IS NULL AND NOT snapshot_quiet
    AND coalesce(follower_copied_after_leader, true)
""")
"""No newer epoch cuts the follower off, its log is only longer: read later, it may soundly be."""
POSSIBLE: Final = ("possible", "CASE WHEN possible_records > 0 THEN possible_records END")
LACKING: Final = (
    "lacking",
    line("""
        CASE commitment_lacks
        WHEN 'metadata_log' THEN 'no metadata log in the copy says who led then, or what that broker knew about the ISR'
        WHEN 'metadata_log_start' THEN 'the election is not on record, the metadata log begins behind it'
        WHEN 'broker' THEN 'the disk of the broker that led then is not in the copy'
        WHEN 'settings' THEN 'min.insync.replicas is not known'
        WHEN 'checkpoint' THEN 'its checkpointed high watermark is not in the copy'
        WHEN 'ledger' THEN 'they are above every checkpoint, and no file tells what producers were told' END
    """),
)
