"""Segments in the remote tier.

In: the columns of `remote_segments`. Segments may overlap and wait for their deletion.
"""

from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Unknown

COPIED: Final = "state = 'COPY_SEGMENT_FINISHED'"
NO_METADATA: Final = Unknown(
    reason="remote metadata not captured", evidence=Evidence.REMOTE_STORE, when="NOT remote_known"
)
