"""The captured nodes: which are brokers, which are controllers and nothing else, who had stopped, what is not here.

In: a snapshot's manifest and listing, its log dirs' checkpoints, the metadata history. Out: `CapturedNodes`. A node is
a broker if the metadata log has registered it as one, or if its disks hold what a broker writes; a node of which
nothing but a metadata log was captured is no broker by that alone.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegauge.derivation.files.checkpoint_files import Checkpoints
from tidegauge.facts.metadata.absences import Absences, CapturedNode, absences
from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.listing import LogDirListing, SnapshotListing, only_metadata
from tidegauge.snapshots.manifest import BrokerCapture, Consistency, LeftOut, Manifest
from tidegauge.snapshots.metadata_copies import is_kraft, without_metadata_log


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedNodes:
    """`quiet`: nodes whose files are of one moment. `one_moment`: all brokers' are, of one and the same."""

    brokers: tuple[BrokerCapture, ...] = ()
    controllers: tuple[BrokerCapture, ...] = ()
    quiet: frozenset[int] = frozenset()
    one_moment: bool = False
    stopped: bool = False
    """By the metadata log no broker is alive."""
    absent: Absences = field(default_factory=Absences)
    left_out: tuple[LeftOut, ...] = ()
    """What is absent, in words."""

    @property
    def broker_ids(self) -> frozenset[int]:
        """The captured brokers."""
        return frozenset(b.broker_id for b in self.brokers)

    @property
    def without_log_dir(self) -> frozenset[int]:
        """Captured brokers of which a log dir is not in the copy: what they lack may be there."""
        return frozenset(d.broker_id for d in self.absent.log_dirs)

    @property
    def metadata_one_moment(self) -> bool:
        """All copies of the metadata log are: a controller that is no broker leaves no marker when it stops."""
        return self.one_moment and all(c.broker_id in self.quiet for c in self.controllers)


def captured_nodes(
    manifest: Manifest, files: SnapshotListing, checkpoints: Mapping[int, Checkpoints], history: MetadataHistory
) -> CapturedNodes:
    """Sorts the nodes. `checkpoints`: of each listed log dir, by its `id`."""
    brokers = tuple(b for b in manifest.brokers if b.broker_id in history.brokers or not only_metadata(b))
    own = {b.broker_id for b in brokers}
    quiet = _quiet(manifest, files)
    stopped = bool(history.brokers) and not history.alive_brokers
    absent = absences(history, {b.broker_id: _node(b, files) for b in manifest.brokers})
    return CapturedNodes(
        brokers=brokers,
        controllers=tuple(b for b in manifest.brokers if b.broker_id not in own),
        quiet=quiet,
        one_moment=manifest.consistency is not Consistency.FUZZY or (stopped and own <= quiet),
        stopped=stopped,
        absent=absent,
        left_out=tuple(_left_out(manifest, files, checkpoints, history, absent)),
    )


def own_log_dirs(files: SnapshotListing, broker_id: int) -> Sequence[LogDirListing]:
    """A broker's log.dirs, without a directory that holds the metadata log alone (metadata.log.dir)."""
    return [d for d in files.of_broker(broker_id) if not d.only_metadata]


def _quiet(manifest: Manifest, files: SnapshotListing) -> frozenset[int]:
    """Brokers whose files are of one moment: stopped cleanly, so nothing was written while they were copied."""
    if manifest.consistency is not Consistency.FUZZY:
        return frozenset(b.broker_id for b in manifest.brokers)
    own = {b.broker_id: own_log_dirs(files, b.broker_id) for b in manifest.brokers}
    return frozenset(b for b, log_dirs in own.items() if log_dirs and all(d.clean_shutdown for d in log_dirs))


def _node(broker: BrokerCapture, files: SnapshotListing) -> CapturedNode:
    own = {d.name for d in own_log_dirs(files, broker.broker_id)}
    replicas = [r for d in files.of_broker(broker.broker_id) for r in d.replicas if r.state == "live"]
    ids = [d.directory_id for d in broker.log_dirs if d.name in own]
    return CapturedNode(
        directory_ids=[i for i in ids if i is not None],
        unidentified_directories=ids.count(None),
        held={r.topic_partition for r in replicas},
        has_metadata_log=any(r.topic == CLUSTER_METADATA for r in replicas),
    )


def _left_out(
    manifest: Manifest,
    files: SnapshotListing,
    checkpoints: Mapping[int, Checkpoints],
    history: MetadataHistory,
    absent: Absences,
) -> Iterator[LeftOut]:
    """Brokers, log dirs and replicas that the metadata log names and the copy lacks: nothing can be said of them."""
    for broker in absent.brokers:
        yield LeftOut(
            path=f"broker-{broker.broker_id}", reason="registered with the controller, and not in the snapshot"
        )
    for log_dir in absent.log_dirs:
        told = f"{len(log_dir.replicas)} replicas are assigned to it"
        yield LeftOut(
            path=f"broker-{log_dir.broker_id}/{log_dir.directory_id}",
            reason=f"a log dir that the broker has registered, and that is not in the snapshot: {told}"
            if log_dir.registered
            else f"a log dir that the broker has no longer registered, since it failed or was taken out: {told}",
        )
    for node in manifest.brokers:
        if node.broker_id in absent.metadata_logs and _is_of_kraft(node, files, checkpoints):
            yield without_metadata_log(node.directory)
    for listed in files.log_dirs:
        tiered = sum(r.confluent_tier for r in listed.replicas)
        if tiered:
            yield LeftOut(
                path=listed.directory,
                reason=f"{tiered} partitions have Confluent's tiered storage (.tierstate): what it has taken from the "
                "disk is in objects that only its own brokers read, and is not judged",
            )
    yield from _replicas_left_out({b.broker_id for b in manifest.brokers}, files, history, absent)


def _replicas_left_out(
    captured: Collection[int], files: SnapshotListing, history: MetadataHistory, absent: Absences
) -> Iterator[LeftOut]:
    """Replicas that are assigned to captured brokers, and in none of their log dirs."""
    elsewhere = {(d.broker_id, key): d for d in absent.log_dirs for key in d.replicas}
    held = {(r.broker_id, (r.topic, r.partition)) for d in files.log_dirs for r in d.replicas if r.state == "live"}
    for key, settled in _settled(history):
        for broker_id in sorted(settled & set(captured)):
            log_dir = elsewhere.get((broker_id, key))
            if (broker_id, key) in held:
                continue
            yield LeftOut(
                path=f"broker-{broker_id}/{key[0]}-{key[1]}",
                reason="assigned to this broker by the metadata log, and not in its log directories"
                if log_dir is None
                else f"assigned to the broker's log dir {log_dir.directory_id}, which is not in the snapshot"
                if log_dir.registered
                else f"assigned to the broker's log dir {log_dir.directory_id}, which failed or was taken out",
            )


def _is_of_kraft(broker: BrokerCapture, files: SnapshotListing, checkpoints: Mapping[int, Checkpoints]) -> bool:
    return is_kraft(checkpoints[id(d)].meta for d in files.of_broker(broker.broker_id))


def _settled(history: MetadataHistory) -> Iterator[tuple[TopicPartition, set[int]]]:
    """Each partition with its replicas that are not being added."""
    for topic in history.topics.values():
        for number, partition in () if topic.deleted else sorted(topic.partitions.items()):
            yield TopicPartition(topic.name, number), set(partition.replicas) - set(partition.adding_replicas)
