"""What evidence a snapshot holds, and what it lacks, told before anything is judged.

In: what was gathered of a snapshot. Out: `AtHand` pieces, each with how far it reaches, and `Missing` ones. Evidence
is missing if the metadata log or the files themselves name it and it is not there; nothing else is.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegauge.derivation.files.checkpoint_files import OFFSET_FILES
from tidegauge.derivation.gathering.small_files import SmallFiles
from tidegauge.derivation.metadata.captured_nodes import own_log_dirs
from tidegauge.expectations.evidence import Evidence
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.kafka_log.log_dir import LEADER_EPOCH_CHECKPOINT
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.runs.missing_evidence import AtHand, Missing
from tidegauge.snapshots.listing import LogDirListing, ReplicaFiles, SnapshotListing
from tidegauge.snapshots.manifest import Manifest, Mode

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What is known of a snapshot's files once they were read."""

    read: SmallFiles
    previous: Manifest | None
    held: Collection[TopicPartition]
    coordinators: Collection[str]
    """Topics of coordinators whose records were read."""
    remote_topics: Collection[str]
    """Topics with a remote tier."""
    remote_store: bool
    captured_at_ms: int | None


def at_hand(known: Gathered) -> Iterator[AtHand]:
    """What verdicts may rest on."""
    metadata, brokers = known.read.metadata, sorted(known.read.nodes.broker_ids)
    if metadata.node_id is not None:
        history = metadata.history
        what = f"offsets {history.start_offset} to {history.end_offset}, furthest in node {metadata.node_id}'s copy"
        own = sorted(metadata.own_copies)
        yield AtHand(evidence=Evidence.METADATA_LOG, what=f"{what}; own copies of nodes {own}")
    if brokers:
        yield AtHand(evidence=Evidence.BROKER, what=f"log directories of brokers {brokers}")
    if known.read.answers is not None:
        rounds = [r for r in (known.read.answers.before, known.read.answers.after) if r is not None]
        yield AtHand(evidence=Evidence.ANSWERS, what=", ".join(f"asked at {_instant(r.started_at_ms)}" for r in rounds))
    if known.previous is not None:
        yield AtHand(evidence=Evidence.EARLIER_SNAPSHOT, what=known.previous.snapshot_id)
    if known.read.read_late_at_ms is not None:
        last, began = metadata.history.last_record_at_ms or 0, known.read.read_late_at_ms
        what = (
            f"the end of the metadata log, {_instant(last)}, and not the clock of the capture, which began at "
            f"{_instant(began)}: nobody wrote to these files any more, so that they were a copy already, or of brokers "
            "that had stopped (--consistency quiesced)"
        )
        yield AtHand(evidence=Evidence.INSTANTS, what=what)


def missing(known: Gathered) -> Iterator[Missing]:
    """What is not there."""
    yield from _metadata_log(known)
    for broker in known.read.nodes.absent.brokers:
        yield Missing(
            evidence=Evidence.BROKER,
            why=f"broker {broker.broker_id} is registered with the controller, and not in the copy",
            subjects=len(broker.replicas),
        )
    yield from _left_out(known)
    yield from _log_dirs(known)
    yield from _replicas(known)
    yield from _logs(known.read.files)
    yield from _checkpoints(known)
    yield from _producer_snapshots(known)
    yield from _indexes(known)
    without = [d.directory for d in known.read.files.log_dirs if known.read.checkpoints[id(d)].meta is None]
    if without:
        why = f"{_some(without)} has no readable meta.properties"
        yield Missing(evidence=Evidence.META_PROPERTIES, why=why, subjects=len(without))
    yield from _coordinators(known)
    if known.remote_topics and not known.remote_store:
        why = f"the objects of {_some(sorted(known.remote_topics))} in the remote store are not in the copy"
        yield Missing(evidence=Evidence.REMOTE_STORE, why=why)
    if known.read.answers is None:
        yield Missing(evidence=Evidence.ANSWERS, why="the cluster was not asked when the copy was made")
    if known.previous is None:
        yield Missing(evidence=Evidence.EARLIER_SNAPSHOT, why="no earlier snapshot was named to compare with")
    if known.read.manifest.mode is Mode.HEADERS or known.read.manifest.hashed_topics:
        yield Missing(evidence=Evidence.RECORDS, why="the capture kept no records of users' topics, or hashed names")
    if known.captured_at_ms is None:
        yield Missing(evidence=Evidence.INSTANTS, why="nothing that can be relied on tells when the copy was made")


def _metadata_log(known: Gathered) -> Iterator[Missing]:
    metadata, history = known.read.metadata, known.read.metadata.history
    if not history.captured:
        zookeeper = [
            d.broker_id
            for d in known.read.files.log_dirs
            if (meta := known.read.checkpoints[id(d)].meta) is not None and meta.of_zookeeper
        ]
        why = "no node's copy of __cluster_metadata-0 can be read"
        if metadata.log.end_offset > 0:
            why = f"the metadata log can be read from offset {history.start_offset} on, and no metadata snapshot "
            why += "reaches back to it"
        elif zookeeper:
            why = (
                f"brokers {sorted(set(zookeeper))} are of a ZooKeeper cluster (meta.properties of version 0): who was "
                "elected and who was in sync stood in ZooKeeper, which no log directory holds"
            )
        yield Missing(evidence=Evidence.METADATA_LOG, why=why, subjects=len(known.held))
        return
    if known.read.ahead:
        (topic, number), first = min(known.read.ahead.items())
        what = "holds" if first.leader_epoch is None else f"has leader epoch {first.leader_epoch} of"
        why = f"the copies at hand end at offset {history.end_offset}, too early: broker {first.broker_id} {what} "
        why += f"{topic}-{number}, which they do not tell of"
        yield Missing(evidence=Evidence.METADATA_LOG, why=why, subjects=len(known.read.ahead))
    voters = set(metadata.log.leaders[-1].change.voters) if metadata.log.leaders else set[int]()
    own = metadata.own_copies
    if voters and 2 * len(voters & own) <= len(voters) and not history.brokers.keys() <= own:
        # What a majority has not is not committed; and whoever was elected has heard of it.
        why = f"the log may go on beyond offset {history.end_offset}: of its voters {sorted(voters)} the copies of "
        why += f"{sorted(voters & own)} alone are at hand"
        subjects = sum(len(t.partitions) for t in history.topics.values() if not t.deleted)
        yield Missing(evidence=Evidence.METADATA_LOG, why=why, subjects=subjects)
    captured = known.read.nodes.broker_ids
    blind = [n for n in known.read.nodes.absent.metadata_logs if n in captured]
    if blind:
        why = f"the own copies of brokers {blind} are not there, so what these brokers knew is not known"
        yield Missing(evidence=Evidence.METADATA_LOG, why=why)
    if known.read.nodes.absent.controllers:
        controllers = list(known.read.nodes.absent.controllers)
        why = f"the own copies of controllers {controllers}, and their metadata snapshots, are not in the copy"
        yield Missing(evidence=Evidence.METADATA_LOG, why=why)
    if history.start_offset > 0:
        hidden = sum(
            1
            for topic in history.topics.values()
            for state in (topic.partitions.values() if not topic.deleted else ())
            if state.changes and state.changes[0].from_snapshot and state.changes[0].partition_epoch > 0
        )
        why = f"the metadata log begins at offset {history.start_offset}; a metadata snapshot keeps no history"
        yield Missing(evidence=Evidence.METADATA_LOG_START, why=why, subjects=hidden)


def _left_out(known: Gathered) -> Iterator[Missing]:
    """What lies in the copy and is no evidence of this cluster. Where a metadata log names what ought to be there, that
    tells what is missing; else nobody knows.
    """
    subjects = 0 if known.read.metadata.history.captured else 1
    for log_dir in known.read.manifest.foreign:
        yield Missing(evidence=Evidence.LOG_DIR, why=f"{log_dir.path}: {log_dir.reason}", subjects=subjects)
    for left_out in known.read.manifest.left_out:
        if "/" not in left_out.path:
            why = f"{left_out.path}: {left_out.reason}"
            yield Missing(evidence=Evidence.BROKER, why=why, subjects=subjects)


def _log_dirs(known: Gathered) -> Iterator[Missing]:
    for log_dir in known.read.nodes.absent.log_dirs:
        what = "which it has registered" if log_dir.registered else "which failed or was taken out of log.dirs"
        yield Missing(
            evidence=Evidence.LOG_DIR,
            why=f"broker {log_dir.broker_id}'s log directory {log_dir.directory_id}, {what}, is not in the copy",
            subjects=len(log_dir.replicas),
        )


def _replicas(known: Gathered) -> Iterator[Missing]:
    """Replicas that captured brokers ought to have, and that no missing log directory explains."""
    elsewhere = known.read.nodes.absent.replicas_in_absent_log_dirs()
    here = {(r.broker_id, (r.topic, r.partition)) for r in _live(known.read.files)}
    captured = known.read.nodes.broker_ids
    wanting = [
        f"{topic.name}-{number} of broker {broker}"
        for topic in known.read.metadata.history.topics.values()
        for number, state in (sorted(topic.partitions.items()) if not topic.deleted else ())
        for broker in sorted(set(state.replicas) - set(state.adding_replicas))
        if broker in captured
        and (broker, (topic.name, number)) not in here
        and (broker, (topic.name, number)) not in elsewhere
    ]
    if wanting:
        why = f"no log directory in the copy holds {_some(wanting)}"
        yield Missing(evidence=Evidence.REPLICA, why=why, subjects=len(wanting))
    if known.read.metadata.history.captured:
        return
    listed = [
        f"{topic}-{number} of broker {log_dir.broker_id}"
        for log_dir in known.read.files.log_dirs
        for topic, number in sorted(known.read.checkpoints[id(log_dir)].high_watermarks)
        if (log_dir.broker_id, (topic, number)) not in here
    ]
    if listed:
        why = f"no log directory in the copy holds {_some(listed)}, which replication-offset-checkpoint lists"
        yield Missing(evidence=Evidence.REPLICA, why=why, subjects=len(listed))


def _logs(files: SnapshotListing) -> Iterator[Missing]:
    """Segments whose log the copy names or must have, and does not hold."""
    directories = {r.directory for r in files.replicas()}
    unread = {directory: bases for directory, bases in files.unread_logs().items() if directory in directories}
    if unread:
        why = f"the logs of segments of {_some(sorted(unread))} are not in the copy"
        yield Missing(evidence=Evidence.SEGMENT, why=why, subjects=len(unread))


def _checkpoints(known: Gathered) -> Iterator[Missing]:
    """A log directory that was ever in use has all four files, and each of its replicas one of its own."""
    for log_dir in _used(known):
        replicas = [r for r in log_dir.replicas if r.state == "live" and r.topic != CLUSTER_METADATA]
        gone = [name for name in OFFSET_FILES if name not in log_dir.files]
        if gone:
            why = f"{log_dir.directory} has no {', '.join(gone)}"
            yield Missing(evidence=Evidence.CHECKPOINT, why=why, subjects=len(replicas))
        if replicas and not log_dir.has_epoch_checkpoints:
            why = f"no replica below {log_dir.directory} has a {LEADER_EPOCH_CHECKPOINT}"
            why += " (brokers before 4.0 keep none where a topic's message format is 0 or 1)"
            yield Missing(evidence=Evidence.CHECKPOINT, why=why, subjects=len(replicas))


def _producer_snapshots(known: Gathered) -> Iterator[Missing]:
    """Where none is anywhere, brokers may be younger than their first: then no replica is called short of one."""
    used = _used(known)
    if used and not any(d.has_producer_snapshots or d.clean_shutdown for d in used):
        yield Missing(evidence=Evidence.PRODUCER_SNAPSHOT, why="no replica in the copy has a producer snapshot")
    for log_dir in used:
        wanting = [r for r in log_dir.replicas if r.state == "live" and _ought_to_have_snapshots(log_dir, r)]
        if wanting and not log_dir.has_producer_snapshots:
            why = f"no replica below {log_dir.directory} has a producer snapshot"
            yield Missing(evidence=Evidence.PRODUCER_SNAPSHOT, why=why, subjects=len(wanting))


def _indexes(known: Gathered) -> Iterator[Missing]:
    """Each segment has an offset index and a time index, be they empty (LogSegment#open)."""
    for log_dir in _used(known):
        segments = [segment for replica in log_dir.replicas if replica.state == "live" for segment in replica.segments]
        gone = [
            name
            for name, of_segments in (
                ("an offset index", [s.index for s in segments]),
                ("a time index", [s.timeindex for s in segments]),
            )
            if not any(of_segments)
        ]
        if segments and gone:
            why = f"no segment below {log_dir.directory} has {' or '.join(gone)}"
            yield Missing(evidence=Evidence.INDEX, why=why, subjects=len(segments))


def _ought_to_have_snapshots(log_dir: LogDirListing, replica: ReplicaFiles) -> bool:
    """Each roll leaves one, and so does a clean stop, where the log is not empty."""
    has_batches = any(s.log.log_size_bytes for s in replica.segments)
    return has_batches and (log_dir.clean_shutdown or len(replica.segments) > 1)


def _coordinators(known: Gathered) -> Iterator[Missing]:
    """Logs of coordinators of which partitions exist, and none was read."""
    for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        state = known.read.metadata.history.topic_named(topic)
        exists = state is not None and not state.deleted
        if topic not in known.coordinators and (exists or not known.read.metadata.history.captured):
            why = f"no replica of {topic} could be read"
            yield Missing(evidence=Evidence.COORDINATOR_LOG, why=why)


def _used(known: Gathered) -> Sequence[LogDirListing]:
    """The log directories of brokers that hold a partition: a broker has been at work there."""
    own = (d for b in known.read.nodes.brokers for d in own_log_dirs(known.read.files, b.broker_id))
    return [d for d in own if any(r.state == "live" for r in d.replicas)]


def _live(files: SnapshotListing) -> Iterator[ReplicaFiles]:
    return (r for r in files.replicas() if r.state == "live")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _instant(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
