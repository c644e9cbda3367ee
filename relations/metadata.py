"""Relations about the metadata log: each node's copy, snapshots of it, what it says, and epochs wherever they stand."""

from typing import Annotated, TypedDict

from tidegauge.relations.model import BrokerQuiet, Int32, Int64, Json, SnapshotQuiet

# fmt: off

class OfMetadataLog(TypedDict, total=False):
    """What stands in the metadata log."""

    topic:     Annotated[str, "__cluster_metadata"]
    partition: Annotated[Int32, "0"]


class MetadataLogRow(OfMetadataLog, total=False):
    """node: its copy of the metadata log, and its memory of the quorum"""

    broker_id:                Annotated[Int32, "node id"]
    replayed:                 Annotated[bool, "this copy is the one that is replayed"]
    log_start_offset:         Annotated[Int64 | None, "first offset in it"]
    log_end_offset:           Annotated[Int64 | None, "offset after the last one"]
    first_leader_epoch:       Annotated[Int32 | None, "leader epoch of its first batch"]
    last_leader_epoch:        Annotated[Int32 | None, "leader epoch of its last batch"]
    epoch_order_errors:       Annotated[Int32, "batches of a lower leader epoch than the one before"]
    epoch_order_offset:       Annotated[Int64 | None, "the first of them"]
    unannounced_epochs:       Annotated[Int32, "leader epochs whose first batch does not tell of the new leader (LeaderChange)"]
    unannounced_offset:       Annotated[Int64 | None, "the first of them"]
    damaged:                  Annotated[bool, "a place in it cannot be read"]
    quorum_state_present:     Annotated[bool, "quorum-state is there and can be read"]
    quorum_leader_epoch:      Annotated[Int32 | None, "epoch in quorum-state; null if it names none"]
    quorum_leader_id:         Annotated[Int32 | None, "leader in quorum-state; null if it knows of none"]
    voted_id:                 Annotated[Int32 | None, "who got its vote in that epoch, by quorum-state; null if nobody, or if it forgot"]
    elected_leader_id:        Annotated[Int32 | None, "leader of that epoch, by the log's LeaderChange or the other nodes; null if nobody tells"]
    vote_granted:             Annotated[bool | None, "that leader counts this node's vote among those it was elected by"]
    transactions:             Annotated[Int32, "metadata transactions begun; of the copy that is replayed"]
    transaction_errors:       Annotated[Int32, "records that begin, end or go on with a transaction where they may not"]
    transaction_error_offset: Annotated[Int64 | None, "the first of them"]
    transaction_error:        Annotated[str | None, "what is wrong with it"]
    open_transaction_offset:  Annotated[Int64 | None, "where a transaction begins that is open at the log's end"]
    broker_quiet:             BrokerQuiet
    snapshot_quiet:           SnapshotQuiet
    path:                     Annotated[str | None, "its segment in which the first record stands that breaks a rule, of epochs or else of transactions; where none does, its newest"]


class MetadataSnapshotRow(OfMetadataLog, total=False):
    """metadata snapshot of a node (<end offset>-<epoch>.checkpoint)"""

    broker_id:            Annotated[Int32, "node id"]
    path:                 Annotated[str, "path below the snapshot"]
    end_offset:           Annotated[Int64, "it stands for everything below"]
    leader_epoch:         Annotated[Int32, "leader epoch of the last record in it, by its name"]
    newest:               Annotated[bool, "the node has no later one: it starts from this one"]
    whole:                Annotated[bool | None, "it can be read to its footer; null if it was not compared"]
    entries:              Annotated[Int32 | None, "entries of the image that it makes"]
    comparable:           Annotated[bool, "it was compared with the replay of the log"]
    incomparable_reason:  Annotated[str | None, "why it was not"]
    differing_entries:    Annotated[Int32 | None, "entries that it has otherwise than the replay, that it lacks or has beyond it"]
    differing_epochs:     Annotated[Int32 | None, "of these, partitions that differ in nothing but their epochs (K01, K02)"]
    differing_principals: Annotated[Int32 | None, "of these, ACLs, SCRAM credentials, delegation tokens and quotas"]
    differences:          Annotated[Json | None, "the first of them, as [{kind, name, log, snapshot, detail}]: what each says that the other does not"]
    after_damage:         Annotated[bool, "records below its end could not be read"]


class MetadataEntryRow(OfMetadataLog, total=False):
    """entry of the metadata image at the log's end, but for topics and partitions, which have relations of their own"""

    kind:            Annotated[str, "feature, broker, controller, config, quota, producer ids, acl, scram, token"]
    name:            Annotated[str, "what it is about: transaction.version, 1, topic/orders/retention.ms, user=alice/producer_byte_rate, alice/SCRAM-SHA-512, …"]
    value:           Annotated[Json | None, "what it says; of secrets a digest, or that there is one; null: the log has no such entry, a node has"]
    metadata_offset: Annotated[Int64 | None, "record that last wrote it (of the snapshot's end for one out of a metadata snapshot)"]
    at_ms:           Annotated[Int64 | None, "when that was"]
    nodes_otherwise: Annotated[list[Int32], "nodes whose newest snapshot and the log behind it make another entry of it, or none (principals and quotas)"]
    after_damage:    Annotated[bool, "records of the log could not be read"]
    node_id:         Annotated[Int32 | None, "node whose copy of the metadata log it was read from"]
    path:            Annotated[str | None, "file in which that record stands; null if there is none"]
    paths_otherwise: Annotated[list[str], "these nodes' newest snapshots"]


class BrokerRegistrationRow(OfMetadataLog, total=False):
    """RegisterBrokerRecord"""

    broker_id:             Annotated[Int32, "broker"]
    metadata_offset:       Annotated[Int64, "offset of the record (of the snapshot's end for one out of a metadata snapshot)"]
    batch_offset:          Annotated[Int64, "first offset of its batch"]
    from_snapshot:         Annotated[bool, "read out of a metadata snapshot"]
    at_ms:                 Annotated[Int64 | None, "when it was written"]
    broker_epoch:          Annotated[Int64, "epoch that the broker got"]
    previous_broker_epoch: Annotated[Int64 | None, "its epoch before; null if none is known"]
    same_incarnation:      Annotated[bool, "the same process as before: it may keep its epoch"]
    metadata_version:      Annotated[Int32 | None, "highest metadata.version that the broker knows"]
    release:               Annotated[str | None, "Kafka's release by that, as 4.1"]
    stale_records:         Annotated[Int32, "records about this registration that carry another one's epoch"]
    stale_record_offset:   Annotated[Int64 | None, "the first of them"]
    after_damage:          Annotated[bool, "records before it could not be read"]
    node_id:               Annotated[Int32 | None, "node whose copy of the metadata log it was read from"]
    path:                  Annotated[str | None, "file in which it stands: a segment, or the metadata snapshot"]


class FencingEpochRow(TypedDict, total=False):
    """kind of epoch and place where it is written"""

    epoch:        Annotated[str, "producer, leader, partition, coordinator, broker, quorum, group"]
    topic:        Annotated[str, "topic whose log, or whose record in the metadata log, carries it"]
    partition:    Annotated[Int32, "its partition"]
    broker_id:    Annotated[Int32 | None, "whose copy of the log; of a broker's epoch the broker; null where the metadata log tells it"]
    name:         Annotated[str | None, "group or transactional id, where it is one's"]
    regressions:  Annotated[Int64, "how often a lower one stands after a higher one"]
    first_offset: Annotated[Int64 | None, "where that is first so; null if it is not known"]
    epoch_before: Annotated[Int64 | None, "the higher one there"]
    epoch_after:  Annotated[Int64 | None, "the lower one there"]
    node_id:      Annotated[Int32 | None, "node whose copy of the metadata log tells it; null where another log does"]
    path:         Annotated[str | None, "the file in which the first of them stands; where there is none, the newest in which the epoch is written; null if it is not known"]
