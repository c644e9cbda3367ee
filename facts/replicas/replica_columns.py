"""What rows about a replica share: who it is, and how it was captured.

In: one partition's context and a replica's facts. Out: the columns that name the replica and its capture.
"""

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.relations.model import CaptureColumns, ReplicaColumns


def of_replica(replica: ReplicaFacts) -> ReplicaColumns:
    """The columns that name a replica."""
    given = replica.given
    return {"broker_id": given.place.broker_id, "topic": given.place.topic, "partition": given.place.partition}


def capture(context: PartitionContext, replica: ReplicaFacts) -> CaptureColumns:
    """The columns that say whether its files are of one moment."""
    return {"broker_quiet": replica.moment.broker_quiet, "snapshot_quiet": context.cluster.snapshot_quiet}
