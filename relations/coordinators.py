"""Relations replayed from the coordinators' logs: transactional ids, groups, share partitions, ends of transactions."""

from typing import Annotated, TypedDict

from tidegauge.relations.model import BrokerQuiet, Int32, Int64, Json, SnapshotQuiet

# fmt: off

class _CoordinatorLog(TypedDict, total=False):
    """What stands in a coordinator's log, as one broker's copy has it."""

    topic:     Annotated[str, "topic of the coordinator's log"]
    partition: Annotated[Int32, "its partition"]
    broker_id: Annotated[Int32, "broker whose copy was read"]


class KeyedColumns(_CoordinatorLog, total=False):
    """What stands there by its key."""

    expected_partition:  Annotated[Int32 | None, "partition that the key's hash names: abs(hashCode) mod partition count; null if that cannot be told"]
    partition_count:     Annotated[Int32 | None, "partitions of that topic by the metadata log"]
    names_hashed:        Annotated[bool, "names were replaced when the snapshot was taken: nobody can tell the key's hash"]
    first_record_offset: Annotated[Int64, "offset of its first record that is still in the log"]
    last_record_offset:  Annotated[Int64, "offset of its newest record"]
    record_count:        Annotated[Int64, "its records"]


class _OfTransactionalId(TypedDict, total=False):
    """Whose record it is."""

    transactional_id: Annotated[str, "transactional id"]


class TransactionalIdRow(_OfTransactionalId, KeyedColumns, total=False):
    """transactional id x partition of __transaction_state that has records of it"""

    producer_id:                Annotated[Int64 | None, "producer id of its newest record; null if that is a tombstone"]
    producer_epoch:             Annotated[Int32 | None, "producer epoch of its newest record"]
    previous_producer_id:       Annotated[Int64 | None, "producer id before the last rotation, where the record says so"]
    next_producer_id:           Annotated[Int64 | None, "producer id that the transaction's end will hand over to"]
    state:                      Annotated[str, "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort; Dead: a tombstone"]
    partitions:                 Annotated[list[str], "partitions that its transaction lists"]
    timeout_ms:                 Annotated[Int64 | None, "transaction timeout"]
    started_at_ms:              Annotated[Int64 | None, "when the transaction began"]
    updated_at_ms:              Annotated[Int64 | None, "when the newest record was written"]
    client_transaction_version: Annotated[Int32 | None, "transaction version of its client, where the record says so (2 on)"]
    judged_steps:               Annotated[Int64, "pairs of neighbouring records that could be judged"]
    unjudged_steps:             Annotated[Int64, "pairs with a hole between them, which a cleaner may have left"]
    broken_steps:               Annotated[Int64, "pairs of which the later may not follow the earlier (F11)"]
    decided_transactions:       Annotated[Int64, "transactions in its history that were decided"]
    undelivered_transactions:   Annotated[Int64, "of these, how many never were completed although another followed"]
    largest_data_epoch:         Annotated[Int32 | None, "largest producer epoch of any data batch of its producer id; null if there is none"]
    anomalies:                  Annotated[Json, "the broken steps as [{kind, offset, previous_offset, detail}]"]
    history:                    Annotated[Json, "its newest records as [{offset, state, producer_id, producer_epoch, at_ms, partitions}]"]
    broker_quiet:               BrokerQuiet
    snapshot_quiet:             SnapshotQuiet
    metadata_log_captured:      Annotated[bool, "a copy of the metadata log is in the snapshot"]


class _OfGroup(TypedDict, total=False):
    """Whose record it is."""

    group: Annotated[str, "group id"]


class GroupRow(_OfGroup, KeyedColumns, total=False):
    """group x partition of __consumer_offsets that has records of it"""

    kind:                  Annotated[str | None, "classic, consumer (KIP-848), share, streams; null: it has only offsets"]
    generation:            Annotated[Int32 | None, "generation of a classic group"]
    group_epoch:           Annotated[Int32 | None, "group epoch of another one"]
    assignment_epoch:      Annotated[Int32 | None, "epoch of its target assignment"]
    largest_member_epoch:  Annotated[Int32 | None, "largest epoch of a member that it has"]
    member_count:          Annotated[Int32 | None, "members"]
    committed_partitions:  Annotated[Int32, "partitions that it has a committed offset of"]
    epoch_regressions:     Annotated[Int64, "group, assignment or member epochs, or generations, that went back (J09)"]
    pending_commits:       Annotated[Int32, "offsets committed in transactions that had no end marker yet"]
    orphaned_commits:      Annotated[Int32, "of these, how many belong to a transaction that no coordinator has open (F14)"]
    orphaned_producer_id:  Annotated[Int64 | None, "producer id of the first such transaction"]
    orphaned_first_offset: Annotated[Int64 | None, "offset of the first such commit"]
    transactions_known:    Annotated[bool, "__transaction_state could be read"]
    anomalies:             Annotated[Json, "the epochs that went back as [{kind, member_id, offset, previous_offset, detail}]"]
    broker_quiet:          BrokerQuiet
    snapshot_quiet:        SnapshotQuiet
    metadata_log_captured: Annotated[bool, "a copy of the metadata log is in the snapshot"]


class ShareStateRow(TypedDict, total=False):
    """share group x partition that it consumes"""

    group:                    Annotated[str, "share group"]
    topic:                    Annotated[str | None, "topic that it consumes; null if the metadata log does not have it"]
    topic_id:                 Annotated[str, "its id"]
    partition:                Annotated[Int32, "partition that it consumes"]
    state_partition:          Annotated[Int32, "partition of __share_group_state that has its records"]
    expected_state_partition: Annotated[Int32 | None, "partition that the hash of group:topic id:partition names; null if that cannot be told"]
    names_hashed:             Annotated[bool, "names were replaced when the snapshot was taken"]
    first_record_offset:      Annotated[Int64, "offset of its first record that is still in the log"]
    last_record_offset:       Annotated[Int64, "offset of its newest record"]
    record_count:             Annotated[Int64, "its records"]
    deleted:                  Annotated[bool, "its newest record is a tombstone"]
    snapshot_epoch:           Annotated[Int32 | None, "of its newest record"]
    state_epoch:              Annotated[Int32 | None, "of its newest snapshot record"]
    leader_epoch:             Annotated[Int32 | None, "leader epoch of the partition under which it was written"]
    metadata_leader_epoch:    Annotated[Int32 | None, "leader epoch of the partition by the metadata log; null if not known"]
    start_offset:             Annotated[Int64 | None, "share-partition start offset; null before it has one"]
    delivery_complete_count:  Annotated[Int32 | None, "offsets at or above the start that are acknowledged or archived, as written; null if not written (before 4.2)"]
    completed_offsets:        Annotated[Int64 | None, "the same, counted in its batches since the newest snapshot record; null if there is none to begin from"]
    largest_delivery_count:   Annotated[Int32, "largest delivery count since the newest snapshot record"]
    delivery_count_limit:     Annotated[Int32, "group.share.delivery.count.limit where known, else the largest that may be set"]
    range_faults:             Annotated[Int64, "batches that end before they begin, overlap, lie below the start, or have a state that is never written (J05)"]
    epoch_faults:             Annotated[Int64, "snapshot, state or leader epochs that went back (J06)"]
    log_start_offset:         Annotated[Int64 | None, "of the consumed partition's reference replica"]
    high_watermark_upper:     Annotated[Int64 | None, "upper bound of its high watermark"]
    log_end_offset:           Annotated[Int64 | None, "of the reference replica"]
    anomalies:                Annotated[Json, "these faults as [{kind, offset, detail}]"]
    broker_quiet:             BrokerQuiet
    snapshot_quiet:           SnapshotQuiet
    read_committed:           Annotated[bool | None, "the group reads, or has read, committed records only; null where the metadata log does not tell"]
    aborted_offsets:          Annotated[Int64 | None, "at most how many offsets from the start on are of aborted transactions, which the partition's leader counts as complete for such a group and does not have written; null without the partition's log"]
    read_leader_epoch:        Annotated[Int32 | None, "leader epoch under which it was delivered more than the log has of that epoch now; null if none"]
    read_end_offset:          Annotated[Int64 | None, "behind the furthest offset that it was delivered under that epoch"]
    epoch_end_offset:         Annotated[Int64 | None, "where that epoch ends in the reference's log"]
    epoch_end_settled:        Annotated[bool | None, "a newer epoch begins there, so it will not move"]
    lineage_captured:         Annotated[bool | None, "no election that may have given up what the replica it is held against has lacks the log of who was elected; null where neither the metadata log nor an answer tells who leads"]
    log_starts_copied:        Annotated[bool | None, "the log dir of the replica it is held against has a log-start-offset-checkpoint; null if there is none"]
    metadata_log_captured:    Annotated[bool | None, "a copy of the metadata log is in the snapshot"]


class TransactionEndRow(TypedDict, total=False):
    """partition x transaction that its coordinator decided"""

    topic:                      Annotated[str, "topic name"]
    partition:                  Annotated[Int32, "partition number"]
    broker_id:                  Annotated[Int32 | None, "reference replica in which the end marker was looked for; null if none was captured"]
    transactional_id:           Annotated[str, "transactional id"]
    producer_id:                Annotated[Int64, "producer id"]
    marker_epoch:               Annotated[Int32, "producer epoch that the end marker must carry"]
    client_transaction_version: Annotated[Int32 | None, "transaction version of its client, where the record says so (2 on)"]
    decided_outcome:            Annotated[str, "committed, aborted: what the coordinator's record says"]
    record_partition:           Annotated[Int32, "partition of __transaction_state that has the decision"]
    record_offset:              Annotated[Int64, "its offset there"]
    decided_at_ms:              Annotated[Int64 | None, "when it was decided"]
    completed:                  Annotated[bool, "the coordinator took every partition's marker as written"]
    completed_at_ms:            Annotated[Int64 | None, "when"]
    marker_offset:              Annotated[Int64 | None, "offset of the end marker found; null if there is none"]
    marker_outcome:             Annotated[str | None, "committed, aborted: what that marker says"]
    marker_count:               Annotated[Int32, "end markers of this transaction"]
    open_first_offset:          Annotated[Int64 | None, "first offset of the producer's data that still have no end marker; null if there are none"]
    first_held_offset:          Annotated[Int64 | None, "of the reference replica: its log start, or where its local log begins"]
    log_end_offset:             Annotated[Int64 | None, "of the reference replica"]
    high_watermark_upper:       Annotated[Int64 | None, "upper bound of the high watermark"]
    created_at_ms:              Annotated[Int64 | None, "when the partition was created, if the metadata log reaches back to it"]
    unclean_election_at_ms:     Annotated[Int64 | None, "newest unclean election of the partition, if the metadata log tells of one"]
    log_damaged:                Annotated[bool, "the reference replica has a place that could not be read"]
    ever_compacted:             Annotated[bool, "the topic is or was compacted"]
    captured_at_ms:             Annotated[Int64 | None, "newest instant known of the capture"]
    broker_quiet:               BrokerQuiet
    snapshot_quiet:             SnapshotQuiet
    by_clocks:                  Annotated[bool, "that it has no end marker is said by two brokers' clocks alone: by order and outcome each decision has one"]
    name_reused:                Annotated[bool | None, "another topic had the name before, so that decisions may be of that; null where the metadata log does not reach back so far"]


class TransactionOutcomeRow(TypedDict, total=False):
    """transaction with end markers, over all partitions"""

    producer_id:          Annotated[Int64, "producer id"]
    marker_epoch:         Annotated[Int32, "producer epoch of its end markers"]
    transactional_id:     Annotated[str, "transactional id, if a coordinator's record names it"]
    record_partition:     Annotated[Int32, "partition of __transaction_state that has the decision, where the epoch alone does not name the transaction (version 1)"]
    record_offset:        Annotated[Int64, "its offset there, likewise"]
    decided_outcome:      Annotated[str | None, "committed, aborted: what the coordinator's record says; null if it is not in its log any more"]
    partitions:           Annotated[Int32, "partitions with an end marker of it"]
    committed_partitions: Annotated[Int32, "of these, how many say committed"]
    aborted_partitions:   Annotated[Int32, "how many say aborted"]
    committed_on:         Annotated[list[str] | None, "their names where the partitions, or they and the coordinator, do not agree; else null"]
    aborted_on:           Annotated[list[str], "likewise"]
