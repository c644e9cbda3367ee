"""What of a snapshot is small, read once, on the driver: checkpoints, properties, the metadata log, the answers.

In: a snapshot. Out: `SmallFiles`. What cannot be read is named in `unread`, in the order in which it was found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tidegauge.derivation.files.answers_file import read_answers
from tidegauge.derivation.files.checkpoint_files import (
    Checkpoints,
    ReplicaCheckpoints,
    log_dir_checkpoints,
    replica_checkpoints,
)
from tidegauge.derivation.files.heads_not_copied import heads_not_copied
from tidegauge.derivation.gathering.read_instants import read_long_after, without_instants
from tidegauge.derivation.metadata.captured_nodes import CapturedNodes, captured_nodes
from tidegauge.derivation.metadata.metadata_behind import Ahead, ahead_of_metadata
from tidegauge.derivation.metadata.metadata_log import MetadataRead, read_metadata
from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.facts.metadata.settings import Settings
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.runs.run import ReadSnapshot
from tidegauge.snapshots.cluster_answers import CapturedAnswers
from tidegauge.snapshots.listing import ReplicaFiles, SnapshotListing, listing
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import LeftOut, Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallFiles:
    """A snapshot's small files. `checkpoints`: by the `id` of a log dir; `of_replicas`: each replica's own files."""

    snapshot: ReadSnapshot
    files: SnapshotListing
    checkpoints: Mapping[int, Checkpoints]
    of_replicas: Sequence[tuple[ReplicaFiles, ReplicaCheckpoints]]
    metadata: MetadataRead
    nodes: CapturedNodes
    ahead: Mapping[TopicPartition, Ahead]
    """Partitions of which the metadata log at hand ends too early to tell."""
    answers: CapturedAnswers | None
    settings: Settings
    read_late_at_ms: int | None
    """When the capture began to read it, if that was long after anybody wrote to it (`read_instants`)."""

    @property
    def root(self) -> Location:
        """Where it lies."""
        return self.snapshot.root

    @property
    def manifest(self) -> Manifest:
        """Its manifest."""
        return self.snapshot.manifest

    @property
    def history(self) -> MetadataHistory:
        """What its metadata log tells."""
        return self.metadata.history


def read_small_files(snapshot: ReadSnapshot, unread: list[LeftOut], *, is_earlier: bool) -> SmallFiles:
    """Reads them. `is_earlier`: another one is compared with it."""
    root, manifest, files = snapshot.root, snapshot.manifest, listing(snapshot.manifest)
    unread += files.unread
    checkpoints = {id(d): log_dir_checkpoints(root, d, unread) for d in files.log_dirs}
    metadata = read_metadata(root, files, unread)
    plain = {b.broker_id for b in manifest.brokers if b.read_started_at_ms is None}
    late = read_long_after(manifest, metadata.history)
    if late is not None:
        manifest = without_instants(manifest)
        before, files = files, listing(manifest)
        snapshot = replace(snapshot, manifest=manifest)
        checkpoints = {id(d): checkpoints[id(was)] for was, d in zip(before.log_dirs, files.log_dirs, strict=True)}
    nodes = captured_nodes(manifest, files, checkpoints, metadata.history)
    answers = read_answers(root, manifest, unread)
    settings = Settings(metadata.history, answers)
    of_replicas = [(r, replica_checkpoints(root, r, unread)) for r in files.replicas()]
    if not is_earlier:  # An earlier snapshot shows what stood there, and what became of it is judged (C06, C10).
        tiering = partial(_never_tiered, settings)
        heads = tuple(heads_not_copied(files, of_replicas, tiering, plainly_copied=plain))
        files = replace(files, unread=(*files.unread, *heads))
        unread += heads
    sure = nodes.quiet & metadata.own_copies
    return SmallFiles(
        snapshot=snapshot,
        files=files,
        checkpoints=checkpoints,
        of_replicas=of_replicas,
        metadata=metadata,
        nodes=nodes,
        ahead=ahead_of_metadata(metadata.history, sure, of_replicas),
        answers=answers,
        settings=settings,
        read_late_at_ms=late,
    )


def _never_tiered(settings: Settings, topic: str) -> bool:
    """By the whole history of the topic's setting."""
    course = settings.course(topic, "remote.storage.enable")
    return course.whole and not course.ever("true")
