"""What an invariant's `proof.py` breaks files with: `break_it` gets this module, and so imports nothing itself.

An invariant's folder stands in the package, below everything that these tools know. A tool that a new proof needs is
written beside its like and named here.
"""

from tests.derivation.coordinator_breaks import header
from tests.derivation.damage import batches, edit, place, sealed, segments
from tests.derivation.lone_log_breaks import everywhere, first_that, in_header, log, row
from tests.derivation.metadata_damage import at, metadata_logs, metadata_record, records_of, rewrite
from tests.derivation.small_cluster import BROKERS
from tests.derivation.storage_breaks import checkpointed, merged, rewritten, set_in_record, without_batch

__all__ = [
    "BROKERS", "at", "batches", "checkpointed", "edit", "everywhere", "first_that", "header", "in_header", "log",
    "merged", "metadata_logs", "metadata_record", "place", "records_of", "rewrite", "rewritten", "row", "sealed",
    "segments", "set_in_record", "without_batch",
]  # fmt: skip
