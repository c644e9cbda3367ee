"""The road from log directories to facts in this process, without Spark: plan, index, gather, derive.

In: a snapshot directory. Out: `Derived`, the rows of every relation that the derive step makes, and each replica's
facts. It calls what the Spark tasks call, in the same order; only who calls differs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tidegauge.derivation.gathering.gather import SnapshotContext
from tidegauge.derivation.gathering.replica_files import replica_input
from tidegauge.derivation.in_process import derive_here
from tidegauge.derivation.index_row import IndexRows
from tidegauge.facts.replicas.replica import ReplicaFacts, replica_facts
from tidegauge.runs.missing_evidence import Missing, unread_segments
from tidegauge.runs.run import AuditedSnapshot, ReadSnapshot
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.manifest import LeftOut, Manifest

Key = tuple[Any, ...]
Row = dict[str, Any]
"""A row of whatever relation a test names, as it is read back from Arrow."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Derived:
    """The facts of one snapshot. `index` are the index step's rows by path."""

    manifest: Manifest
    root: Path
    context: SnapshotContext
    index: IndexRows
    rows: Mapping[str, list[Row]]

    def unread(self) -> dict[str, str]:
        """Path -> reason, of all that could not be read."""
        of_segments = [LeftOut(path=p, reason=row["error"]) for p, row in self.index.items() if row["error"]]
        return {u.path: u.reason for u in (*self.context.unread, *of_segments)}

    def missing(self) -> list[Missing]:
        """Which evidence the snapshot lacks."""
        return [*self.context.missing, *unread_segments(self.index.values())]

    def one(self, relation: str, **wanted: Any) -> Row:
        """The only row of a relation with these values."""
        found = self.all(relation, **wanted)
        assert len(found) == 1, f"{len(found)} rows of {relation} with {wanted}"
        return found[0]

    def all(self, relation: str, **wanted: Any) -> list[Row]:
        """Every row of a relation with these values."""
        return [
            row for row in self.rows.get(relation, []) if all(row.get(name) == value for name, value in wanted.items())
        ]

    def replicas_of(self, topic: str, partition: int) -> dict[int, ReplicaFacts]:
        """Broker id -> facts of its live replica."""
        context = self.context.partitions[topic, partition]
        return {
            work.place.broker_id: replica_facts(
                replica_input(self.root, work, self.index),
                topic_compacted=context.settings.ever_compacted,
                tiered=context.settings.remote_storage_enable,
                expiration=context.settings.producer_expiration,
            )
            for work in self.context.replicas.get((topic, partition), ())
            if not work.place.is_future
        }

    def reference_of(self, topic: str, partition: int) -> ReplicaFacts:
        """The replica that the others are compared with."""
        row = self.one("replicas", topic=topic, partition=partition, is_reference=True)
        return self.replicas_of(topic, partition)[row["broker_id"]]


def derived(directory: Path, *, cluster: str | None = None, previous: Path | None = None) -> Derived:
    """Runs every step over one snapshot directory; each relation's rows are put in its own schema, as they are kept."""
    opened = open_snapshot(directory, cluster=cluster)
    earlier = open_snapshot(previous, cluster=cluster) if previous is not None else None
    snapshot = AuditedSnapshot(
        root=opened.root,
        target=directory,
        manifest=opened.manifest,
        previous=ReadSnapshot(root=earlier.root, manifest=earlier.manifest) if earlier is not None else None,
    )
    made = derive_here(snapshot)
    kept = {name: table.to_pylist() for name, table in made.tables.items()}
    return Derived(manifest=opened.manifest, root=snapshot.root, context=made.context, index=made.index, rows=kept)


@cache
def derived_once(directory: Path) -> Derived:
    """The same for a directory that nobody changes."""
    return derived(directory)


def topic_partition(text: str) -> tuple[str, int]:
    """`orders-0` as topic and partition."""
    topic, partition = text.rsplit("-", 1)
    return topic, int(partition)


def partitions_of(directory: Path) -> Iterator[tuple[str, int]]:
    """The partitions that a broker's directory holds."""
    for path in sorted(directory.iterdir()):
        if path.is_dir():
            yield topic_partition(path.name)
