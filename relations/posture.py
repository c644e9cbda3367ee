"""Relations about posture: how each topic is set up to bear failures, and what a failure would cost it now."""

from typing import Final

from tidegauge.relations.model import Relation, columns_of

POSTURES: Final = Relation(
    name="postures",
    grain="topic",
    key=("topic",),
    columns=columns_of(
        """
        topic                          string topic name
        topic_id                       string topic id
        partition_count                int32  partitions
        replication_factor             int32  replicas of the partition that has fewest
        min_insync_replicas            int32  effective min.insync.replicas, Kafka's default where nobody set it
        min_insync_replicas_source     string topic, broker (dynamic), answered (by the cluster), default (a broker's properties may say otherwise)
        unclean_leader_election_enable bool   effective setting
        unclean_leader_election_source string topic, broker, answered, default
        acknowledged_copies            int32  copies that an answer to acks=all promises: min.insync.replicas, or the replication factor where that is smaller
        refusal_after                  int32  brokers of a partition that may be away before acks=all is refused: replication factor less acknowledged copies
        loss_after                     int32  disks that may be lost with every acknowledged record still there: acknowledged copies less one
        eligible_leader_replicas       bool   the cluster keeps eligible leader replicas (KIP-966)
        smallest_isr                   int32  members of the smallest ISR now
        partitions_below_minimum       int32  partitions with an ISR below the minimum now; null in a stopped cluster
        rack_count                     int32  racks over which the partition that has fewest is spread; null where a replica's rack is not known
        one_rack_partitions            int32  partitions with all replicas in one rack, where they are several and the cluster has several racks
        cluster_stopped                bool   nobody led when the copy was made
        """
    ),
)

RISKS: Final = Relation(
    name="risks",
    grain="topic x failure that would cost it anything",
    key=("topic", "failure", "brokers", "racks"),
    columns=columns_of(
        """
        topic                  string   topic name
        failure                string   now (no failure: what is so already), broker, brokers (two that cost more together than each alone), rack, racks
        brokers                int32[]  brokers that fail together, disks and all
        racks                  string[] racks that fail
        partition_count        int32    partitions of the topic
        losing                 int32    partitions that lose committed records: no replica that is left holds all of them, or an unclean leader lacks some
        unavailable            int32    partitions without a leader: neither reads nor writes
        unclean                int32    partitions that a replica would lead which was not in sync
        refusing               int32    partitions that refuse acks=all, and commit nothing
        records_at_risk        int64    committed records that the losing partitions lose, as far as known
        records_at_risk_known  bool     all of them could be counted
        losing_partitions      int32[]  the first 50 of them
        unavailable_partitions int32[]  the first 50 of them
        unclean_partitions     int32[]  the first 50 of them
        refusing_partitions    int32[]  the first 50 of them
        """
    ),
)

BROKER_CHANGES: Final = Relation(
    name="broker_changes",
    grain="metadata record that changes a broker's registration",
    key=("broker_id", "metadata_offset", "sequence_in_log"),
    columns=columns_of(
        """
        broker_id              int32  broker
        metadata_offset        int64  offset of the record in __cluster_metadata (of the snapshot's end for a record out of a metadata snapshot)
        sequence_in_log        int32  position among the broker's changes, from 0
        from_snapshot          bool   read out of a metadata snapshot: the changes before it are not known
        at_ms                  int64  when it was written
        change                 string registered, registered again, fenced, unfenced, in controlled shutdown, out of controlled shutdown, log dirs changed, unregistered
        broker_epoch           int64  broker epoch after it
        incarnation_id         string the broker process's own id
        rack                   string rack
        fenced                 bool   fenced after it
        in_controlled_shutdown bool   in controlled shutdown after it
        """
    ),
)
