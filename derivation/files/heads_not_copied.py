"""Logs whose first segments nobody copied, as their leader-epoch-checkpoint tells.

In: a snapshot's listing, what replicas' own files say, whether a topic was ever tiered. Out: what is missing. A broker
that deletes a log's first segments takes the leader epochs below the new start out of the checkpoint
(LeaderEpochFileCache#truncateFromStart, when it deletes and when it loads the log), so one that begins below the first
segment tells of segments that the broker has. Where the remote tier has them, too, the checkpoint reaches back to what
is there (UnifiedLog#maybeIncrementLogStartOffset).

It is asked of plain copies alone. A capture names what it could not copy, and nobody else's listing stands against its
own: a broker at work deletes segments between two files that are read, and writes the checkpoint somewhat later
(LeaderEpochFileCache#truncateFromStartAsyncFlush).
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from tidegauge.derivation.files.checkpoint_files import ReplicaCheckpoints
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.snapshots.listing import ReplicaFiles, SnapshotListing
from tidegauge.snapshots.manifest import LeftOut


def heads_not_copied(
    files: SnapshotListing,
    replicas: Iterable[tuple[ReplicaFiles, ReplicaCheckpoints]],
    never_tiered: Callable[[str], bool],
    *,
    plainly_copied: Collection[int],
) -> Iterator[LeftOut]:
    """The segments below the first one, where there must be some: they count as not read."""
    named = files.unread_logs()
    for replica, said in replicas:
        start = said.first_epoch_offset
        if replica.state != "live" or replica.topic == CLUSTER_METADATA or not replica.segments or start is None:
            continue
        first = replica.segments[0].base_offset
        if replica.broker_id not in plainly_copied or named.get(replica.directory):
            continue  # What is missing of it is told already.
        if start < first and not replica.confluent_tier and never_tiered(replica.topic):
            reason = f"not in the copy: its leader-epoch-checkpoint begins at {start}, the first segment at {first}"
            yield LeftOut(path=f"{replica.directory}/{start:020d}.log", reason=reason)
