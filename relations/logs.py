"""Relations about replicas: their logs, the files derived from them, producers and transactions, and how they compare."""

from typing import Final

from tidegauge.relations.model import CAPTURE, REPLICA, Relation, columns_of

SEGMENTS: Final = Relation(
    name="segments",
    grain="segment on a replica",
    key=("broker_id", "topic", "partition", "path"),
    columns=columns_of(
        REPLICA
        + """
        path                    string path below the snapshot
        base_offset             int64  base offset, from the file's name
        next_base_offset        int64  base offset of the replica's next segment; null for the active one
        is_active               bool   the replica's last segment
        size_bytes              int64  size of the file
        valid_bytes             int64  length of the prefix in which every batch follows the one before (what Kafka's recovery would keep)
        batch_count             int64  batches read, those after a damaged place included
        record_count            int64  records, by the batches' headers
        first_offset            int64  base offset of the first batch; null if there is none
        last_offset             int64  last offset of the last batch; null if there is none
        previous_last_offset    int64  last offset in the replica's earlier segments; null if there is none
        max_timestamp_ms        int64  largest maxTimestamp of its batches
        first_leader_epoch      int32  leader epoch of the first batch
        last_leader_epoch       int32  leader epoch of the last batch
        length_errors           int64  places where the chain of batch lengths breaks (A01), a torn tail included
        torn_tail               bool   the only break of the chain is at the end: no readable batch follows it
        torn_tail_position      int64  where the torn tail begins
        zero_tail               bool   the torn tail is all zero bytes (preallocated file)
        magic_errors            int64  batches whose magic is not that of the format they are written in (A02)
        crc_errors              int64  batches whose CRC-32C does not match, and entries of message formats 0 and 1 whose CRC-32 does not (A03)
        crc_errors_in_tail      bool   every CRC error is in the last batch of the active segment
        offset_order_errors     int64  batches whose base offset is not above the last offset before it, over all segments (A04)
        record_count_errors     int64  batches whose record count does not fit last offset delta (A05), compaction taken into account
        control_batch_errors    int64  control batches of the wrong shape (A07)
        producer_field_errors   int64  batches whose producer id, epoch and sequence do not fit together (A08)
        epoch_missing_errors    int64  batches of message format 2 without a partition leader epoch (A09), those apart that a cleaner wrote of older ones
        epoch_order_errors      int64  batches whose leader epoch is below the one before, over all segments (D01)
        offset_gaps             int64  breaks in the run of offsets that no cleaning explains, the one at the segment's start included (A13)
        missing_offsets         int64  offsets in those gaps
        ever_compacted          bool   the topic is or was compacted, or the replica shows traces of cleaning
        remote_storage_enable   bool   tiered topic
        recovery_point_offset   int64  the replica's checkpointed recovery point
        clean_shutdown          bool   the broker's log dir has .kafka_cleanshutdown
        preallocate             bool   the topic's config preallocate=true
        damages                 json   [{"kind","position","end_position","start_offset","end_offset","records","detail"}] in file order
        cut_tail                bool   the torn tail begins like a batch (its length reaches beyond the file, or too few bytes are left for a header), as an interrupted append or copy leaves it; null if there is none
        """
        + CAPTURE
        + """
        record_batches_read     int64  batches whose records were looked into; null where the snapshot holds no records of it
        record_batches_passed_over int64 sound batches that were not: in a large segment, or where more would be unpacked than is read
        record_form_errors      int64  batches whose bytes are not the records that the header tells (A06)
        record_offset_errors    int64  batches whose records' offsets do not rise, or leave the batch's range (A06)
        record_timestamp_errors int64  batches whose largest timestamp is not that of their records (A10)
        index_entries           int64  entries of .index; null if there is no such file
        widest_index_gap_bytes  int64  most bytes between one of them, or the start, and the next, or the end
        largest_batch_bytes     int64  size of the largest batch
        index_interval_bytes    int64  largest index.interval.bytes that is known to have been in force
        index_entry_per_batch   bool   the broker's release writes entries batch by batch (4.1 on); null if its release is not known
        segment_limit_bytes     int64  largest segment.bytes that is known to have been in force
        segment_limit_known     bool   none of its values is a default that a broker's properties may have changed
        segment_limit_changed_at_ms int64 when it was last set; null where the metadata log does not tell
        segment_limit_history_known bool the metadata log tells of all its values since the topic was created
        policy_history_known    bool   the metadata log tells of all that cleanup.policy has been since the topic was created
        gaps_held_elsewhere     int32  of its offset gaps, where that is not known: those in which another replica has batches
        short_batches           int32  of record_count_errors, the batches that have fewer records than offsets, as a cleaner leaves them
        short_batches_held_elsewhere int32 of these, where the policy's history is not known: those of which another replica has more records
        older_format_batches    int64  entries of message formats 0 and 1, a compressed one with what is inside
        format_falls            int64  batches of an older message format than the one before, over all segments (A02)
        format_fall_offset      int64  where the first of them begins; null if there is none
        epochless_first         int64  of epoch_missing_errors, those before any batch of the log that tells whether a cleaner may have written them
        """
    ),
)

REPLICAS: Final = Relation(
    name="replicas",
    grain="replica",
    key=("broker_id", "topic", "partition"),
    columns=columns_of(
        REPLICA
        + """
        topic_id                   string topic id by partition.metadata; null if the file is missing or unreadable
        metadata_topic_id          string topic id by the metadata log; null if the topic is not there
        log_dir                    string log dir it lies in
        log_start_offset           int64  log start: the checkpoint's, else the first segment's base
        local_log_start_offset     int64  base of the first local segment
        log_end_offset             int64  offset after the last batch that Kafka would keep (torn tail cut)
        readable_end_offset        int64  offset after the last batch that can be read, those after damage included
        high_watermark             int64  as checkpointed; null if not listed
        recovery_point_offset      int64  as checkpointed; null if not listed
        checkpoint_log_start_offset int64 log-start-offset-checkpoint; null if not listed
        cleaner_offset             int64  cleaner-offset-checkpoint; null if not listed
        first_unstable_offset      int64  smallest first offset of an open, or completed but not yet replicated, transaction; null if none
        snapshot_first_unstable_offset int64 the same, from the newest producer snapshot and the batches after it
        snapshot_replay_possible   bool   there was a usable producer snapshot to start from
        last_stable_offset         int64  recomputed: min(high watermark bound, first unstable offset)
        last_leader_epoch          int32  leader epoch of the last batch
        checkpoint_last_leader_epoch int32 last epoch in leader-epoch-checkpoint
        checkpoint_last_epoch_start_offset int64 its start offset
        epoch_checkpoint_missing   bool   no leader-epoch-checkpoint file
        epoch_checkpoint_entries   int32  its entries
        epoch_checkpoint_disorder  int32  entries whose epoch or start offset does not rise above the one before, or is negative (B13)
        segment_count              int32  segments
        batch_count                int64  batches
        size_bytes                 int64  bytes of .log files
        damaged_batches            int64  batches with damage of any kind
        is_leader                  bool   leader by the metadata log
        is_reference               bool   the replica that followers are compared with: the leader, else the last leader, else the longest of the newest epoch
        in_isr                     bool   in the ISR at the end of the metadata log, or by the last answer; null where neither tells, as are in_elr and assigned
        in_elr                     bool   among the eligible leader replicas
        assigned                   bool   in the partition's replicas by the metadata log
        is_future                  bool   a -future directory (move between log dirs)
        metadata_leader_epoch      int32  leader epoch of the partition by the metadata log
        metadata_known             bool   the partition is in the metadata log
        broker_alive               bool   the broker is registered and not fenced at the end of the metadata log
        clean_shutdown             bool   its log dir has .kafka_cleanshutdown
        checkpoint_older_than_log  bool   checkpoints were read before the log (null: order unknown)
        ever_compacted             bool   the topic is or was compacted
        remote_storage_enable      bool   tiered topic
        max_ever_high_watermark    int64  largest checkpointed high watermark on any replica whose lineage this replica shares
        snapshot_at_end            bool   a producer snapshot stands at the log end; null where the log's end could not be read
        open_first_unstable_offset int64  smallest first offset of a transaction without a marker, by full replay; null if none
        topic_id_deleted           bool   the topic id in partition.metadata was deleted by the metadata log; null if it does not know that id
        """
        + CAPTURE
        + """
        live_producer_ids          int64  producers whose state has not expired at the moment of the capture; null if that is not known (E08)
        new_producer_ids           int64  of these, how many wrote for the first time in the hour before it
        elections_on_record       bool   every election since the last leader epoch of its batches is in the metadata log
        metadata_log_captured      bool   a copy of the metadata log is in the snapshot
        may_be_earlier_topics      bool   it has no topic id, and the metadata log does not rule out that it is of an earlier topic of its name
        metadata_damaged           bool   records of the metadata log could not be read: an epoch may have been given out by one of them
        epoch_checkpoints_copied   bool   some replica of the log dir has a leader-epoch-checkpoint: the copying did not leave them out
        newest_producer_snapshot   int64  offset of the highest producer snapshot; null if there is none
        producer_snapshots_copied  bool   some replica of the log dir has a producer snapshot: the copying did not leave them out
        producer_ids               int64  producers that the log's batches and markers name
        producer_ids_unless_expired int64 producers whose state may be kept, whatever producer.id.expiration.ms is; null if the moment of the capture is not known
        log_starts_copied          bool   its log dir has a log-start-offset-checkpoint
        """
    ),
)

EPOCH_SPANS: Final = Relation(
    name="epoch_spans",
    grain="replica x leader epoch",
    key=("broker_id", "topic", "partition", "leader_epoch"),
    columns=columns_of(
        REPLICA
        + """
        leader_epoch                 int32  leader epoch
        start_offset                 int64  base offset of its first batch; null if no batch has it
        end_offset                   int64  where the epoch ends: the next epoch's start, or the log end
        batch_count                  int64  batches of this epoch
        checkpoint_start_offset      int64  start in leader-epoch-checkpoint; null if not listed
        is_first_entry               bool   the first entry of the checkpoint, or the first epoch of the log where there is no checkpoint
        is_last_entry                bool   the last entry of the checkpoint
        log_start_offset             int64  log start of the replica
        log_end_offset               int64  log end of the replica
        high_watermark               int64  checkpointed high watermark of the replica
        reference_broker_id          int32  replica it is compared with
        reference_start_offset       int64  start of this epoch there: by batches, else by its checkpoint
        reference_is_first           bool   it is the first retained epoch there
        reference_high_watermark     int64  checkpointed high watermark there
        divergence_offset            int64  where this replica would truncate against the reference; null for the reference itself
        elected_leader_id            int32  leader elected for this epoch by the metadata log; null if no record says, or if nobody was
        election_known               bool   the metadata log reaches back to this epoch: it names its leader, or says that there was none
        max_metadata_leader_epoch    int32  partition's leader epoch at the end of the metadata log
        writer_start_offset          int64  start of this epoch in the log of the elected leader
        writer_end_offset            int64  where it ends there: the next epoch's start, or the log end
        epoch_checkpoint_missing     bool   the replica has no leader-epoch-checkpoint file
        ever_compacted               bool   the topic is or was compacted
        remote_storage_enable        bool   tiered topic
        checkpoint_older_than_log    bool   the checkpoint was read before the log (null: order unknown)
        first_batch_offset           int64  base offset of the replica's first batch, below the log start or not; null if none
        writer_first_batch_offset    int64  base offset of the first batch of the elected leader's log
        writer_log_end_offset        int64  its log end
        clean_shutdown               bool   the replica's log dir has .kafka_cleanshutdown
        checkpoint_first_start_offset int64 start offset of the first entry in leader-epoch-checkpoint; null if it has none
        checkpoint_last_leader_epoch int32  epoch of the last entry in leader-epoch-checkpoint; null if it has none
        """
        + CAPTURE
        + """
        epoch_checkpoint_read_again  bool   the capture read leader-epoch-checkpoint again behind the log
        later_checkpoint_start_offset int64 start there; null if not listed, or not read again
        later_checkpoint_last_leader_epoch int32 epoch of the last entry there; null if it has none
        last_batch_end_offset        int64  end of its last batch: before end_offset where a cleaner removed the rest; null if no batch has it
        metadata_log_captured        bool   a copy of the metadata log is in the snapshot
        metadata_damaged             bool   records of the metadata log could not be read: the epoch may have been given out by one of them
        epoch_checkpoints_copied     bool   some replica of the log dir has a leader-epoch-checkpoint: the copying did not leave them out
        log_starts_copied            bool   its log dir has a log-start-offset-checkpoint
        policy_history_known         bool   the metadata log tells of all that cleanup.policy has been since the topic was created
        """
    ),
)

DIVERGENCES: Final = Relation(
    name="divergences",
    grain="follower against the reference replica (the leader, else the last leader)",
    key=("topic", "partition", "leader_id", "follower_id"),
    columns=columns_of(
        """
        topic                     string topic name
        partition                 int32  partition number
        leader_id                 int32  reference replica
        follower_id               int32  the other replica
        divergence_offset         int64  where Kafka's truncation exchange (KIP-279/320) makes the follower truncate; its log end when it would not
        truncation_rounds         int32  rounds of the exchange
        first_differing_offset    int64  first offset where the two hold different batches, over all that both hold; null if none
        first_differing_committed_offset int64 the same below both high watermarks (D02)
        first_differing_undiverged_offset int64 the same below the divergence offset (D07)
        identity_violation_offset int64  first offset held in the same leader epoch with other content (D03)
        differing_batches         json   [{"offset","leader_batch","follower_batch"}] around the first difference
        compared_from_offset      int64  comparison began here
        compared_to_end_offset    int64  comparison ended here
        comparable                bool   the two could be compared (both have batches in common range, no cleaning in between)
        incomparable_reason       string why not
        follower_log_start_offset int64  follower's log start
        follower_log_end_offset   int64  follower's log end
        leader_log_end_offset     int64  reference's log end
        follower_high_watermark   int64  follower's checkpointed high watermark
        leader_high_watermark     int64  reference's checkpointed high watermark
        follower_last_leader_epoch int32 epoch of the follower's last batch
        leader_last_leader_epoch  int32  epoch of the reference's last batch
        records_at_stake          int64  records on the follower from divergence_offset on that the leader does not hold; of end markers of transactions alone, these
        truncated_leader_epoch    int32  epoch of those records
        newer_epoch               int32  reference's epoch that starts at or below the divergence
        newer_epoch_start_offset  int64  where it starts
        declared_committed        int64  of those records, how many are proven to have been declared committed
        committed_proof           string "checkpoint" (below a high watermark that the follower or another replica of its lineage had checkpointed), "sole_isr" (its leader was all of the ISR and, by its own copy of the metadata log, knew it), "read" (by a consumer group, under that leader epoch), or null
        unclean_election_offset   int64  offset of the metadata record of the unclean election that starts newer_epoch; null if it was clean or unknown
        unclean_election_at_ms    int64  when
        isr_before_election       int32[] ISR just before it
        follower_in_isr           bool   follower is in the ISR
        follower_in_elr           bool   follower is in the ELR
        follower_alive            bool   follower's broker is registered and not fenced
        leader_is_elected         bool   the reference is the leader by the metadata log, not just the last one
        follower_clean_shutdown   bool   follower stopped cleanly
        leader_epoch_start_offset int64  where the reference's last epoch starts
        follower_copied_after_leader bool the follower was read after the reference (null: order unknown)
        leader_clean_shutdown     bool   reference stopped cleanly
        """
        + CAPTURE
        + """
        reference_led_last_epoch  bool   the reference was elected leader for the epoch of the follower's last batch; null if no record says
        """
        + """
        metadata_committed_end_offset int64 of the metadata log: all below it is in a node's snapshot, so it was committed; null elsewhere
        """
        + """
        compared_producer_snapshots int32 producer snapshots that both have at one offset and that can be read
        producer_state_differences int32  producers of which two such snapshots say different things (D16)
        differing_snapshot_offset  int64  offset of the first of them
        differing_producer_id      int64  first producer in it
        leader_producer_state      string what the reference's says of it
        follower_producer_state    string what the follower's says
        current_epoch_start_offset int64 where the reference, elected leader, began the partition's current leader epoch; null if its log does not say
        joined_isr_in_current_epoch bool the follower came into the ISR after the leader of the current epoch was elected; null if no record says
        markers_at_stake          int64  end markers of transactions among what is at stake
        possible_records          int64  of the records at stake, how many beyond the declared ones may have been committed, and nothing tells
        commitment_lacks          string the evidence that would tell: metadata_log, metadata_log_start, broker, settings, checkpoint or ledger; null where nothing is open
        elections_on_record       bool   every election since the truncated leader epoch is in the metadata log
        damage_hides              bool   damage of either log hides batches of what was compared
        leader_segment            string file name of the reference's segment in which first_differing_offset lies
        follower_segment          string of the follower's
        leader_known              bool   who leads the partition, or led it last, is on record, or was answered; where not, the reference is a guess
        differs_without_epochs    bool   what differs first bears no leader epoch on either side (message formats 0 and 1)
        of_an_earlier_moment      bool   the copy of one of the two is older than the last leader epoch that its broker led: neither its log nor its own metadata log has it
        """
    ),
)

ISR_MEMBERS: Final = Relation(
    name="isr_members",
    grain="member of a partition's ISR or ELR",
    key=("topic", "partition", "leader_id", "follower_id"),
    columns=columns_of(
        """
        topic                       string topic name
        partition                   int32  partition number
        leader_id                   int32  the reference replica's broker; null where the copy holds no log of the partition
        follower_id                 int32  the member's broker, which may be the reference itself
        in_isr                      bool   it is in the ISR
        in_elr                      bool   it is in the ELR
        captured                    bool   its broker is in the copy
        log_dir_missing             bool   a log directory that its broker has registered is not in the copy
        present                     bool   its log is in the copy
        follower_log_start_offset   int64  where its log starts
        follower_log_end_offset     int64  where its log ends; null where that is not there or could not be read
        follower_last_leader_epoch  int32  leader epoch of its last batch
        known_high_watermark        int64  the largest checkpointed high watermark of any replica whose log its own could still become
        known_high_watermark_broker int32  whose checkpoint that is
        leader_log_end_offset       int64  where the reference's log ends
        leader_high_watermark       int64  the reference's checkpointed high watermark
        log_start_offset            int64  the reference's log start
        first_differing_offset      int64  first offset whose batch is another one than the reference's
        follower_clean_shutdown     bool   it stopped cleanly
        follower_alive              bool   its broker is registered and not fenced
        elections_on_record         bool   every election since its last leader epoch is in the metadata log
        """
        + CAPTURE
    ),
)

PRODUCERS: Final = Relation(
    name="producers",
    grain="replica x producer id x producer epoch",
    key=("broker_id", "topic", "partition", "producer_id", "producer_epoch"),
    columns=columns_of(
        REPLICA
        + """
        producer_id          int64 producer id
        producer_epoch       int32 producer epoch
        first_sequence       int32 sequence of its first record; null if it has only markers
        last_sequence        int32 sequence of its last record
        first_offset         int64 offset of its first batch
        last_offset          int64 last offset of its last batch
        last_timestamp_ms    int64 timestamp of its last batch
        current_transaction_first_offset int64 first offset of its open transaction; null if none
        lost_gaps            int32 breaks in its sequences that nothing legitimate explains (E01)
        missing_sequences    int64 sequences missing in them
        explained_gaps       int32 breaks that compaction, retention, expiry, … explains
        nonzero_starts       int32 1 when its first sequence is not 0 though its state was known (E02)
        epoch_regressions    int32 batches of this producer epoch that stand after a higher one (E03)
        duplicate_batches    int32 batches whose sequences were already written (E04)
        overlapping_batches  int32 batches whose sequences partly overlap (E05)
        next_producer_id     int64 next producer id that the controller would hand out; null if the metadata log does not say
        anomalies            json  [{"cause","expected_sequence","found_sequence","offset","start_offset","end_offset"}] in log order
        ever_compacted       bool  the topic is or was compacted
        """
        + CAPTURE
        + """
        nontransactional_batches int32 data batches outside of a transaction while one of this producer is open (F01)
        nontransactional_offset int64 base offset of the first of them
        repeated_batches int32 batches whose records are byte for byte those of a batch that it wrote just before in an older epoch (E06)
        repeated_offset int64 base offset of the first of them
        repeats_offset  int64 base offset of the batch that it repeats
        repeats_unverified int32 batches that look like such a repetition, and were too many to be compared
        metadata_log_captured bool a copy of the metadata log is in the snapshot
        unsettled_batches int32 batches that go back in sequence or epoch, and may be sound if the producer's state had expired: nothing tells producer.id.expiration.ms
        """
    ),
)

SEQUENCE_GAPS: Final = Relation(
    name="sequence_gaps",
    grain="gap, overlap or duplicate",
    key=("broker_id", "topic", "partition", "producer_id", "producer_epoch", "offset"),
    columns=columns_of(
        REPLICA
        + """
        producer_id       int64  producer id
        producer_epoch    int32  producer epoch
        expected_sequence int32  sequence that should have come
        found_sequence    int32  sequence that came
        offset            int64  base offset of the batch that it came with
        previous_offset   int64  last offset of the batch before it
        cause             string lost, nonzero_start, epoch_regression, duplicate, overlap; unsettled if nothing tells whether its state had expired; or, explained: compacted, retained, expired, coordinator
        """
    ),
)

TRANSACTIONS: Final = Relation(
    name="transactions",
    grain="partition x producer id x transaction, on the reference replica",
    key=("topic", "partition", "producer_id", "producer_epoch", "first_offset"),
    columns=columns_of(
        """
        topic                      string topic name
        partition                  int32  partition number
        broker_id                  int32  reference replica it was read from
        producer_id                int64  producer id
        producer_epoch             int32  producer epoch of its data
        transactional_id           string transactional id, from __transaction_state; null if no coordinator record names the producer id
        first_offset               int64  first offset of its data
        last_offset                int64  last offset of its data
        record_count               int64  its records
        outcome                    string committed, aborted, open
        marker_offset              int64  offset of its end marker
        marker_producer_epoch      int32  producer epoch of the marker
        coordinator_epoch          int32  coordinator epoch of the marker
        previous_coordinator_epoch int32  coordinator epoch of the producer's marker before it
        repeated_markers           int32  further markers of the same kind with no data in between (a new coordinator sends it again)
        contradicting_markers      int32  further markers of the other kind with no data in between (F06)
        first_timestamp_ms         int64  timestamp of its first batch
        last_timestamp_ms          int64  timestamp of its last batch
        hanging                    bool   open, and the coordinator does not know it (or does not list the partition)
        client_transaction_version int32   2 from the producer's first committed transaction on whose marker stands one epoch above its data (KIP-890), 1 before, and where its coordinator or the level of transaction.version shows that its client went back; null if nothing tells it
        coordinator_state          string state of the transactional id at its coordinator (Ongoing, PrepareCommit, …)
        coordinator_producer_epoch int32  producer epoch at its coordinator
        coordinator_lists_partition bool  the coordinator's record lists this partition
        coordinator_known          bool   __transaction_state could be read
        transaction_timeout_ms     int64  the transaction's timeout by its coordinator
        max_transaction_timeout_ms int64  transaction.max.timeout.ms if known, else Kafka's default
        captured_at_ms             int64  newest instant known of the capture (of a plain copy the newest time that a controller wrote; null where that is not known)
        log_start_offset           int64  log start of the replica
        """
        + CAPTURE
        + """
        first_sequence             int32  sequence of its first record; null if not known
        previous_marker_offset     int64  offset of the producer's end marker before it; null if there is none
        previous_marker_producer_epoch int32 producer epoch of that marker
        previous_marker_bumped     bool   that marker's epoch was above its data's: version 2, or a fenced producer
        aborted_by_hand            bool   an operator's marker ended it (kafka-transactions.sh abort, KIP-664): it bears the data's own epoch; null where that is not known
        """
    ),
)

INDEX_FILES: Final = Relation(
    name="index_files",
    grain="derived file of a segment: .index, .timeindex, .txnindex, .snapshot",
    key=("broker_id", "topic", "partition", "path"),
    columns=columns_of(
        REPLICA
        + """
        path                      string path below the snapshot
        kind                      string index, timeindex, txnindex, snapshot
        base_offset               int64  offset in its name
        size_bytes                int64  size of the file
        entries                   int64  entries used
        is_active                 bool   belongs to the active segment (snapshot: stands above the last segment's base)
        has_log                   bool   a .log of that base is there
        readable                  bool   the file could be parsed as its kind
        form_errors               int64  bad length, version, CRC, entries that do not rise (B01, B04, B05, B08)
        pointer_errors            int64  entries that lead to no batch, or to the wrong one (B02, B04)
        range_errors              int64  entries outside what they may be (B09)
        missing_entries           int64  what the log says and the file lacks (B06, B11)
        extra_entries             int64  what the file says and the log lacks (B06, B11)
        wrong_entries             int64  entries that differ from the recomputed ones (B11)
        last_stable_offset_errors int64  txnindex entries whose last stable offset differs from the recomputed one (B07)
        misplaced                 bool   snapshot at an offset where none belongs (B10)
        content_checkable         bool   the log before it is whole enough to recompute its content
        uncheckable_reason        string why not
        stale_tail                bool   active index with stale entries beyond the used ones (live truncation), not an error
        just_loaded               bool   the log was loaded and not rolled since, so extra snapshots are normal
        log_damaged               bool   the segment's log is damaged, so pointers cannot all be judged
        log_start_offset          int64  log start of the replica
        log_end_offset            int64  log end of the replica
        ever_compacted            bool   the topic is or was compacted
        damages                   json   [{"kind","position","detail"}] in file order
        local_log_start_offset    int64  base of the replica's first local segment
        """
        + CAPTURE
        + """
        aborted_unlisted          int32  of a compacted log: aborted transactions that still have records, and that it lacks (G08)
        aborted_unmarked          int32  of a compacted log: transactions that it says were aborted, which still have records, and no end marker that aborts them (G08)
        undecided_entries         int32  producers that may be missing, or differ, because their state had expired: nothing tells producer.id.expiration.ms (B11)
        older_has_entries         bool   a producer snapshot at a lower offset names producers
        cleaning_known            bool   the topic's policies, or its cleaner's checkpoint, tell whether it was ever compacted
        """
    ),
)
