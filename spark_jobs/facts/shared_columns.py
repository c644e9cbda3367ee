"""What rows of every relation share: who, how it was captured, and how a `json` column is written.

In: one partition's context and a replica's facts. Out: the columns that name the replica and its capture.
"""

from spark_jobs.facts.context import PartitionContext
from spark_jobs.facts.metadata import LogFiles
from spark_jobs.facts.replica import ReplicaFacts
from spark_jobs.facts.rows import Row


def record_place(files: LogFiles | None, offset: int | None, *, from_snapshot: bool = False) -> Row:
    """The columns that say whose copy of the metadata log a record was read from, and in which file it stands."""
    if files is None:
        return {"node_id": None, "path": None}
    return {"node_id": files.node_id, "path": files.path_of(offset, from_snapshot=from_snapshot)}


def of_replica(replica: ReplicaFacts) -> Row:
    """The columns that name a replica."""
    given = replica.given
    return {"broker_id": given.place.broker_id, "topic": given.place.topic, "partition": given.place.partition}


def capture(context: PartitionContext, replica: ReplicaFacts) -> Row:
    """The columns that say whether its files are of one moment."""
    return {"broker_quiet": replica.moment.broker_quiet, "snapshot_quiet": context.cluster.snapshot_quiet}
