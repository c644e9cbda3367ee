"""Relations about the metadata log: each node's copy, snapshots of it, what it says, and epochs wherever they stand."""

from typing import Final

from tidegauge.relations.model import CAPTURE, Relation, columns_of

_LOG: Final = """
    topic               string __cluster_metadata
    partition           int32  0
"""

METADATA_LOGS: Final = Relation(
    name="metadata_logs",
    grain="node: its copy of the metadata log, and its memory of the quorum",
    key=("broker_id",),
    columns=columns_of(
        _LOG
        + """
        broker_id           int32  node id
        replayed            bool   this copy is the one that is replayed
        log_start_offset    int64  first offset in it
        log_end_offset      int64  offset after the last one
        first_leader_epoch  int32  leader epoch of its first batch
        last_leader_epoch   int32  leader epoch of its last batch
        epoch_order_errors  int32  batches of a lower leader epoch than the one before
        epoch_order_offset  int64  the first of them
        unannounced_epochs  int32  leader epochs whose first batch does not tell of the new leader (LeaderChange)
        unannounced_offset  int64  the first of them
        damaged             bool   a place in it cannot be read
        quorum_state_present bool  quorum-state is there and can be read
        quorum_leader_epoch int32  epoch in quorum-state; null if it names none
        quorum_leader_id    int32  leader in quorum-state; null if it knows of none
        voted_id            int32  who got its vote in that epoch, by quorum-state; null if nobody, or if it forgot
        elected_leader_id   int32  leader of that epoch, by the log's LeaderChange or the other nodes; null if nobody tells
        vote_granted        bool   that leader counts this node's vote among those it was elected by
        transactions        int32  metadata transactions begun; of the copy that is replayed
        transaction_errors  int32  records that begin, end or go on with a transaction where they may not
        transaction_error_offset int64 the first of them
        transaction_error   string what is wrong with it
        open_transaction_offset int64 where a transaction begins that is open at the log's end
        """
        + CAPTURE
        + """
        path                string its segment in which the first record stands that breaks a rule, of epochs or else of transactions; where none does, its newest
        """
    ),
)

METADATA_SNAPSHOTS: Final = Relation(
    name="metadata_snapshots",
    grain="metadata snapshot of a node (<end offset>-<epoch>.checkpoint)",
    key=("broker_id", "path"),
    columns=columns_of(
        _LOG
        + """
        broker_id           int32  node id
        path                string path below the snapshot
        end_offset          int64  it stands for everything below
        leader_epoch        int32  leader epoch of the last record in it, by its name
        newest              bool   the node has no later one: it starts from this one
        whole               bool   it can be read to its footer; null if it was not compared
        entries             int32  entries of the image that it makes
        comparable          bool   it was compared with the replay of the log
        incomparable_reason string why it was not
        differing_entries   int32  entries that it has otherwise than the replay, that it lacks or has beyond it
        differing_epochs    int32  of these, partitions that differ in nothing but their epochs (K01, K02)
        differing_principals int32 of these, ACLs, SCRAM credentials, delegation tokens and quotas
        differences         json   the first of them, as [{kind, name, log, snapshot, detail}]: what each says that the other does not
        after_damage        bool   records below its end could not be read
        """
    ),
)

METADATA_ENTRIES: Final = Relation(
    name="metadata_entries",
    grain="entry of the metadata image at the log's end, but for topics and partitions, which have relations of their own",
    key=("kind", "name"),
    columns=columns_of(
        _LOG
        + """
        kind                string feature, broker, controller, config, quota, producer ids, acl, scram, token
        name                string what it is about: transaction.version, 1, topic/orders/retention.ms, user=alice/producer_byte_rate, alice/SCRAM-SHA-512, …
        value               json   what it says; of secrets a digest, or that there is one; null: the log has no such entry, a node has
        metadata_offset     int64  record that last wrote it (of the snapshot's end for one out of a metadata snapshot)
        at_ms               int64  when that was
        nodes_otherwise     int32[] nodes whose newest snapshot and the log behind it make another entry of it, or none (principals and quotas)
        after_damage        bool   records of the log could not be read
        node_id             int32  node whose copy of the metadata log it was read from
        path                string file in which that record stands; null if there is none
        paths_otherwise     string[] these nodes' newest snapshots
        """
    ),
)

BROKER_REGISTRATIONS: Final = Relation(
    name="broker_registrations",
    grain="RegisterBrokerRecord",
    key=("broker_id", "metadata_offset"),
    columns=columns_of(
        _LOG
        + """
        broker_id           int32  broker
        metadata_offset     int64  offset of the record (of the snapshot's end for one out of a metadata snapshot)
        batch_offset        int64  first offset of its batch
        from_snapshot       bool   read out of a metadata snapshot
        at_ms               int64  when it was written
        broker_epoch        int64  epoch that the broker got
        previous_broker_epoch int64 its epoch before; null if none is known
        same_incarnation    bool   the same process as before: it may keep its epoch
        metadata_version    int32  highest metadata.version that the broker knows
        release             string Kafka's release by that, as 4.1
        stale_records       int32  records about this registration that carry another one's epoch
        stale_record_offset int64  the first of them
        after_damage        bool   records before it could not be read
        node_id             int32  node whose copy of the metadata log it was read from
        path                string file in which it stands: a segment, or the metadata snapshot
        """
    ),
)

FENCING_EPOCHS: Final = Relation(
    name="fencing_epochs",
    grain="kind of epoch and place where it is written",
    key=("epoch", "topic", "partition", "broker_id", "name"),
    columns=columns_of(
        """
        epoch               string producer, leader, partition, coordinator, broker, quorum, group
        topic               string topic whose log, or whose record in the metadata log, carries it
        partition           int32  its partition
        broker_id           int32  whose copy of the log; of a broker's epoch the broker; null where the metadata log tells it
        name                string group or transactional id, where it is one's
        regressions         int64  how often a lower one stands after a higher one
        first_offset        int64  where that is first so; null if it is not known
        epoch_before        int64  the higher one there
        epoch_after         int64  the lower one there
        node_id             int32  node whose copy of the metadata log tells it; null where another log does
        path                string the file in which the first of them stands; where there is none, the newest in which the epoch is written; null if it is not known
        """
    ),
)
