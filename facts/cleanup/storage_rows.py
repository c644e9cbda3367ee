"""How a partition's logs are kept: rows of `upkeep`, `upkeep_changes`, `key_comparisons` and `remote_segments`.

In: the partition's replicas, and the earlier snapshot's; ways to read keys and what the remote store holds. Out: rows
by relation. A replica whose records cannot be read says why; everything else is told all the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegauge.facts.cleanup.key_comparison import key_comparison_rows
from tidegauge.facts.cleanup.key_table import KeyTable
from tidegauge.facts.cleanup.remote_tier import RemoteObjects, remote_segment_rows
from tidegauge.facts.cleanup.upkeep import ReadKeys, upkeep_rows
from tidegauge.facts.cleanup.upkeep_changes import upkeep_change_rows
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.facts.rows import whole
from tidegauge.relations import ChangeRow, Rows


def no_keys(replica: ReplicaFacts) -> KeyTable | str:
    """Where no records are at hand."""
    return "no payload"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBytes:
    """What of a partition's files is read on demand. `objects` None: the snapshot holds no remote store."""

    keys: ReadKeys = no_keys
    earlier_keys: ReadKeys = no_keys
    objects: RemoteObjects | None = None


def storage_rows(
    present: ReplicaSet, stored: StoredBytes, *, earlier: ReplicaSet | None, changes: Sequence[ChangeRow]
) -> Rows:
    """Rows of one partition. `changes` are its rows of that relation; none without an earlier snapshot."""
    rows: Rows = {
        "upkeep": whole("upkeep", upkeep_rows(present, stored.keys, earlier=earlier)),
        "key_comparisons": whole("key_comparisons", key_comparison_rows(present, stored.keys)),
        "remote_segments": whole("remote_segments", remote_segment_rows(present, stored.objects)),
    }
    if earlier is not None:
        changed = upkeep_change_rows(
            present,
            earlier,
            continuity={r["broker_id"]: r["continuity"] for r in changes},
            directory_replaced={r["broker_id"]: r["directory_replaced"] for r in changes},
            previous_snapshot_id=next((r["previous_snapshot_id"] for r in changes), ""),
            keys=stored.keys,
            earlier_keys=stored.earlier_keys,
        )
        rows["upkeep_changes"] = whole("upkeep_changes", changed)
    return rows
