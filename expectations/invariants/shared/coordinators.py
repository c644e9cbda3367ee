"""What the coordinators' logs tell by their keys.

In: the columns of `transactional_ids`, `groups` and `share_states`. What a cleaner may have taken from a log is no gap
in a history.
"""

from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Unknown

NAMES_HASHED: Final = Unknown(
    reason="names were hashed when the snapshot was taken, so that nobody can tell the key's hash",
    evidence=Evidence.RECORDS,
    when="names_hashed",
)
COUNT_NOT_KNOWN: Final = Unknown(
    reason="the metadata log does not tell how many partitions the topic has",
    evidence=Evidence.METADATA_LOG,
    when="partition_count IS NULL",
)
MISPLACED: Final = "partition <> expected_partition"
SHARE_SUBJECT: Final = ("group", "topic", "topic_id", "partition")
