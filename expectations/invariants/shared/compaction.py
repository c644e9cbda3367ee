"""What two snapshots, or two replicas, can be compared by once a cleaner was at work.

In: the columns of `upkeep`, `key_comparisons` and `upkeep_changes`. Each broker cleans by itself, so two replicas may
differ in every byte and mean the same.
"""

from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Unknown

KEYS_COMPARED: Final = "coalesce(key_incomparable_reason, '') NOT IN ('not compacted', 'no common range')"
NO_TIME: Final = Unknown(
    reason="instants not known", evidence=Evidence.INSTANTS, when="key_incomparable_reason = 'instants not known'"
)
NO_PAYLOAD: Final = Unknown(
    reason="no payload", evidence=Evidence.RECORDS, when="key_incomparable_reason = 'no payload'"
)
UNREADABLE: Final = Unknown(
    reason="a segment could not be read",
    evidence=Evidence.SEGMENT,
    when="key_incomparable_reason = 'a segment could not be read'",
)
