"""Relations about posture: how each topic is set up to bear failures, and what a failure would cost it now."""

from typing import Annotated, TypedDict

from tidegauge.relations.model import Int32, Int64

# fmt: off

class PostureRow(TypedDict, total=False):
    """topic"""

    topic:                          Annotated[str, "topic name"]
    topic_id:                       Annotated[str | None, "topic id"]
    partition_count:                Annotated[Int32, "partitions"]
    replication_factor:             Annotated[Int32, "replicas of the partition that has fewest"]
    min_insync_replicas:            Annotated[Int32, "effective min.insync.replicas, Kafka's default where nobody set it"]
    min_insync_replicas_source:     Annotated[str, "topic, broker (dynamic), answered (by the cluster), default (a broker's properties may say otherwise)"]
    unclean_leader_election_enable: Annotated[bool, "effective setting"]
    unclean_leader_election_source: Annotated[str, "topic, broker, answered, default"]
    acknowledged_copies:            Annotated[Int32, "copies that an answer to acks=all promises: min.insync.replicas, or the replication factor where that is smaller"]
    refusal_after:                  Annotated[Int32, "brokers of a partition that may be away before acks=all is refused: replication factor less acknowledged copies"]
    loss_after:                     Annotated[Int32, "disks that may be lost with every acknowledged record still there: acknowledged copies less one"]
    eligible_leader_replicas:       Annotated[bool, "the cluster keeps eligible leader replicas (KIP-966)"]
    smallest_isr:                   Annotated[Int32 | None, "members of the smallest ISR now"]
    partitions_below_minimum:       Annotated[Int32 | None, "partitions with an ISR below the minimum now; null in a stopped cluster"]
    rack_count:                     Annotated[Int32 | None, "racks over which the partition that has fewest is spread; null where a replica's rack is not known"]
    one_rack_partitions:            Annotated[Int32, "partitions with all replicas in one rack, where they are several and the cluster has several racks"]
    cluster_stopped:                Annotated[bool, "nobody led when the copy was made"]


class RiskRow(TypedDict, total=False):
    """topic x failure that would cost it anything"""

    topic:                  Annotated[str, "topic name"]
    failure:                Annotated[str, "now (no failure: what is so already), broker, brokers (two that cost more together than each alone), rack, racks"]
    brokers:                Annotated[list[Int32], "brokers that fail together, disks and all"]
    racks:                  Annotated[list[str], "racks that fail"]
    partition_count:        Annotated[Int32, "partitions of the topic"]
    losing:                 Annotated[Int32, "partitions that lose committed records: no replica that is left holds all of them, or an unclean leader lacks some"]
    unavailable:            Annotated[Int32, "partitions without a leader: neither reads nor writes"]
    unclean:                Annotated[Int32, "partitions that a replica would lead which was not in sync"]
    refusing:               Annotated[Int32, "partitions that refuse acks=all, and commit nothing"]
    records_at_risk:        Annotated[Int64, "committed records that the losing partitions lose, as far as known"]
    records_at_risk_known:  Annotated[bool, "all of them could be counted"]
    losing_partitions:      Annotated[list[Int32], "the first 50 of them"]
    unavailable_partitions: Annotated[list[Int32], "the first 50 of them"]
    unclean_partitions:     Annotated[list[Int32], "the first 50 of them"]
    refusing_partitions:    Annotated[list[Int32], "the first 50 of them"]


class BrokerChangeRow(TypedDict, total=False):
    """metadata record that changes a broker's registration"""

    broker_id:              Annotated[Int32, "broker"]
    metadata_offset:        Annotated[Int64, "offset of the record in __cluster_metadata (of the snapshot's end for a record out of a metadata snapshot)"]
    sequence_in_log:        Annotated[Int32, "position among the broker's changes, from 0"]
    from_snapshot:          Annotated[bool, "read out of a metadata snapshot: the changes before it are not known"]
    at_ms:                  Annotated[Int64 | None, "when it was written"]
    change:                 Annotated[str, "registered, registered again, fenced, unfenced, in controlled shutdown, out of controlled shutdown, log dirs changed, unregistered"]
    broker_epoch:           Annotated[Int64, "broker epoch after it"]
    incarnation_id:         Annotated[str, "the broker process's own id"]
    rack:                   Annotated[str | None, "rack"]
    fenced:                 Annotated[bool, "fenced after it"]
    in_controlled_shutdown: Annotated[bool, "in controlled shutdown after it"]
