"""Reasons for not knowing that invariants of several relations share: what a copy may lack as a whole.

In: columns of the same name and meaning in each of these relations. Out: `Unknown`s. A column that is null, as in rows
of an older run, says nothing, and is no reason.
"""

from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Unknown

NO_METADATA_LOG: Final = Unknown(
    reason="metadata log not in the copy", evidence=Evidence.METADATA_LOG, when="metadata_log_captured IS FALSE"
)
"""Goes before any reason that says what a metadata log does not tell."""
POLICY_UNTOLD: Final = "(cleanup_policy IS NULL AND topic <> '__cluster_metadata')"
"""What a topic's cleanup.policy is, nothing tells: neither the metadata log nor an answer names the topic."""
LOG_START_UNTOLD: Final = "(log_starts_copied IS FALSE AND topic <> '__cluster_metadata')"
"""The log start may lie above the first segment's base, as DeleteRecords leaves it, and no checkpoint was copied."""
OLD_LINEAGE: Final = Unknown(reason="leader not captured", evidence=Evidence.BROKER, when="lineage_captured IS FALSE")
"""What it is held against is of a lineage that an election may have given up: who was elected then is not captured."""
UNTOLD_LINEAGE: Final = Unknown(
    reason="no metadata log tells who leads",
    evidence=Evidence.METADATA_LOG,
    when="metadata_log_captured IS NOT NULL AND lineage_captured IS NULL AND log_end_offset IS NOT NULL",
)
"""Whose log it is held against, nothing tells: it may be one that an election gave up, or one that lags behind."""
_BUILT_ANEW: Final = "the offset index is gone, too: Kafka builds both anew"
INDEXES_GONE: Final = Unknown(reason=_BUILT_ANEW, evidence=Evidence.INDEX, when=f"uncheckable_reason = '{_BUILT_ANEW}'")
"""Nobody copied the segment's indexes, or somebody deleted them; a broker that loads the log writes all of them."""
_NO_TRANSACTION_INDEX: Final = "transaction indexes not copied"
TRANSACTION_INDEXES_NOT_COPIED: Final = Unknown(
    reason=_NO_TRANSACTION_INDEX, evidence=Evidence.INDEX, when=f"uncheckable_reason = '{_NO_TRANSACTION_INDEX}'"
)
"""No segment of the snapshot has one, so who made the copy may have left them out."""
NO_TRANSACTION_INDEX_COPIED: Final = f"uncheckable_reason IN ('{_BUILT_ANEW}', '{_NO_TRANSACTION_INDEX}')"
"""Of a transaction index that the log asks for, and that is not there."""
OLDER_COPY: Final = "its copy is older than the epoch that its broker led"
"""What it lacks then is no proof that the broker has not got it."""
CLEANED_END: Final = "cleaner-offset-checkpoint not copied"
CLEANED_END_UNTOLD: Final = Unknown(
    reason=CLEANED_END, evidence=Evidence.CHECKPOINT, when=f"incomparable_reason = '{CLEANED_END}'"
)
"""A cleaner may have rewritten any of it, each broker's in its own way: what differs says nothing."""
