"""Records of the metadata log, and the snapshots that contradict them.

In: the columns of `partition_changes`. Change records carry no epoch, so the replay alone proves nothing about it; a
partition's first record and the metadata snapshots say what it must come to.
"""

from typing import Final

from tidegauge.expectations.model import Severity

RECORD_STANDS: Final = "Record {metadata_offset} is in {path}, node {node_id}'s copy of the metadata log."
DELETED: Final = ((Severity.INFO, "topic_deleted"),)
DAMAGED: Final = "metadata log damaged"
EVIDENCED: Final = "snapshot_end_offset IS NOT NULL OR (created AND NOT migrated)"


def alone(contradicts: str) -> str:
    """SQL for the only node with a metadata snapshot that contradicts."""
    return f"CASE WHEN {contradicts} AND cardinality(snapshot_nodes) = 1 THEN snapshot_nodes[1] END"


def several(contradicts: str) -> str:
    """SQL for all of them where there are more."""
    return f"CASE WHEN {contradicts} AND cardinality(snapshot_nodes) > 1 THEN snapshot_nodes END"
