"""Reasons for not knowing that invariants of several relations share: what a copy may lack as a whole.

In: columns of the same name and meaning in each of these relations. Out: `Unknown`s. The rule that must hold: a column
that is null, as in rows of an older run, says nothing, and is no reason.
"""

from typing import Final

from expectations.catalogue.model import Unknown

NO_METADATA_LOG: Final = Unknown(reason="metadata log not in the copy", when="metadata_log_captured IS FALSE")
"""Goes before any reason that says what a metadata log does not tell."""

POLICY_UNTOLD: Final = "(cleanup_policy IS NULL AND topic <> '__cluster_metadata')"
"""What a topic's cleanup.policy is, nothing tells: neither the metadata log nor an answer names the topic."""

LOG_START_UNTOLD: Final = "(log_starts_copied IS FALSE AND topic <> '__cluster_metadata')"
"""The log start may lie above the first segment's base, as DeleteRecords leaves it, and no checkpoint was copied."""
OLD_LINEAGE: Final = Unknown(reason="leader not captured", when="lineage_captured IS FALSE")
"""What it is held against is of a lineage that an election may have given up: who was elected then is not captured."""

CLEANED_END: Final = "cleaner-offset-checkpoint not copied"
CLEANED_END_UNTOLD: Final = Unknown(reason=CLEANED_END, when=f"incomparable_reason = '{CLEANED_END}'")
"""A cleaner may have rewritten any of it, each broker's in its own way: what differs says nothing."""
