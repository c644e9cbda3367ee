"""A replica's past, by an earlier snapshot.

In: the columns of `changes` and `upkeep`. Only the same replica, of the same topic, is held to its past; what was
copied anew is not.
"""

from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.elections import IN_SYNC_THEN
from tidegauge.expectations.model import Unknown
from tidegauge.expectations.prose import line

_UNTOLD_BEFORE: Final = "continuity IN ('missing before', 'unread before', 'not captured before')"
SAME_REPLICA: Final = f"(continuity IN ('same', 'missing', 'unread', 'not captured') OR {_UNTOLD_BEFORE})"
"""A replica that should still be there. One of a deleted or re-created topic, or moved away and back, has no past."""
NOT_IN_THE_EARLIER_COPY: Final = Unknown(
    reason="replica not in the earlier copy", evidence=Evidence.EARLIER_SNAPSHOT, when=_UNTOLD_BEFORE
)
LOST: Final = "coalesce(records_lost, 0) > 0"
ON_RECORD: Final = (
    ("no_election", "CASE WHEN unclean_election_offset IS NULL AND elections_on_record THEN 'No unclean election' END"),
    ("not_on_record", "CASE WHEN unclean_election_offset IS NULL AND NOT elections_on_record THEN 'not every' END"),
    ("other_disk", "CASE WHEN directory_replaced THEN 'another one' END"),
    *IN_SYNC_THEN,
)
OTHER_DISK: Final = line("""
    The log dir that held the replica is gone from broker {broker_id}, which has {other_disk} in its place (by
    directory.id).
""")
NOTHING_TO_COMPARE: Final = "(NOT damaged AND coalesce(incomparable_reason, '') IN ('no batches', 'no common range'))"
"""Damage may be all that left nothing: what stood there then is not known."""
STOPPED: Final = "(clean_shutdown OR NOT broker_alive)"
