"""Checkpoints and indexes that may be of another moment than their log.

In: the columns of `index_files`, `replicas` and `epoch_spans`. A checkpoint lags behind the broker's memory by up to a
minute, so only what contradicts the log in spite of that is a breach; an active segment's index is memory-mapped,
preallocated, and not cut when the log is, and what that leaves behind is no breach.
"""

from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Unknown

MAY_BE_NEWER_THAN_THE_LOG: Final = "NOT broker_quiet AND NOT coalesce(checkpoint_older_than_log, false)"
"""A checkpoint read before the log cannot exceed it; read after it, or at an unknown time, it can."""
LOG_START_MAY_LAG: Final = "(NOT coalesce(clean_shutdown, false) OR topic = '__cluster_metadata')"
"""The log start is checkpointed once a minute and at a clean stop; the metadata log's not at all."""
EPOCH_CHECKPOINT_NOT_COPIED: Final = Unknown(
    reason="leader-epoch-checkpoint not copied",
    evidence=Evidence.CHECKPOINT,
    when="NOT coalesce(epoch_checkpoints_copied, true)",
)
MAY_DIFFER_IN_A_COPY: Final = "NOT broker_quiet AND (is_active OR ever_compacted)"
"""Index and log are copied one after the other; in between an active segment grows and a cleaned one is replaced."""
POINTERS_IN_A_DAMAGED_LOG: Final = Unknown(
    reason="log damaged", evidence=None, when="log_damaged AND pointer_errors > 0 AND form_errors = 0"
)
POINTERS_COPIED_LATER: Final = Unknown(
    reason="copy skew",
    evidence=Evidence.ONE_MOMENT,
    when=f"pointer_errors > 0 AND form_errors = 0 AND {MAY_DIFFER_IN_A_COPY}",
)
