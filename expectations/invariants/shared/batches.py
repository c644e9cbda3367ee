"""The end of a log that was half-way when it was copied, and records that were not.

In: the columns of `segments`. A tail that an append or a copy left half-way is told apart from bytes that had been
forced to disk; only the latter are lost. A snapshot of headers has no records, and says so.
"""

from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Unknown

DAMAGED_TAIL: Final = "crc_errors_in_tail AND NOT clean_shutdown AND last_offset >= coalesce(recovery_point_offset, 0)"
"""The log's last batch fails its checksum, and nothing says that it had ever been forced to disk."""
HALF_COPIED: Final = f"{DAMAGED_TAIL} AND NOT broker_quiet"
"""It may have been copied while it was written: neither its bytes nor what its header says can be judged."""
NO_PAYLOAD: Final = Unknown(reason="no payload", evidence=Evidence.RECORDS, when="record_batches_read IS NULL")
OTHER_BYTES: Final = ("D02", "D03", "D07", "C10", "C11", "G07")
"""Where one replica alone holds the batch: its bytes are not the others'."""
