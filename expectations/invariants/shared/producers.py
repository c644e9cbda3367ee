"""What cleaning and coordinators leave open about producers and transactions.

In: the columns of `producers` and `transactions`. What cleaning may have taken away with it is neither a breach nor
sound.
"""

from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Unknown

CLEANED: Final = Unknown(reason="compacted", evidence=None, when="ever_compacted AND explained_gaps > 0")
"""The cleaner removes batches, and with them the evidence whether others were lost before it came."""
COPY_SKEW_MS: Final = 3_600_000
"""How far apart two files of a fuzzy copy may have been read. An hour is longer than a plain copy of a broker takes; a
capture that takes longer dates what it reads. Too long costs an `unknown`, too short a false alarm."""
COORDINATOR_NOT_CAPTURED: Final = Unknown(
    reason="the coordinator's records were not captured",
    evidence=Evidence.COORDINATOR_LOG,
    when="outcome = 'open' AND NOT coordinator_known",
)
