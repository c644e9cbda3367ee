"""The relation of a cluster's own answers beside what its files say: one row a question about one subject."""

from typing import Final

from tidegauge.relations.model import Relation, columns_of

CLUSTER_ANSWERS: Final = Relation(
    name="cluster_answers",
    grain="question that the cluster answered while it was captured x subject",
    key=("kind", "name", "broker_id", "topic", "partition", "group", "transactional_id", "producer_id"),
    columns=columns_of(
        """
        kind                   string   cluster_id, broker, broker_config, topic, topic_config, leadership, log_start_offset, high_watermark, last_stable_offset, committed_offset, producer, transaction
        name                   string   name of the setting, for a config
        broker_id              int32    broker that the row is about; of a partition's offsets the replica that the answer is compared with
        topic                  string   topic name
        partition              int32    partition number
        group                  string   consumer group
        transactional_id       string   transactional id
        producer_id            int64    producer id
        asked_before_at_ms     int64    when the cluster was asked before the copy; null if it was not
        asked_after_at_ms      int64    when it was asked after the copy; null if it was not
        answered_before        int64    its answer before the copy: an offset; of a producer its epoch and last sequence as one number; of a leadership the leader epoch
        answered_after         int64    its answer after the copy
        recomputed_lowest      int64    lower bound of the same by the files, at the moment of the copy
        recomputed_highest     int64    upper bound of the same
        answered_before_text   string   its answer before the copy where it is no offset, or in words
        answered_after_text    string   its answer after the copy
        recomputed_values      string[] what the files know: every value that was in force around the answers, the last one still is; null if nothing can be said
        comparable             bool     nothing stands against comparing them
        incomparable_reason    string   what does: no answer, not asked, leader not captured, leader or ISR changed, copy older than answer, answered before the copy ended, topic re-created, log damaged, head of the log is gone, log start not yet checkpointed, tiered, changed while copying, asked once, metadata log ends before the answer, coordinator not captured, records unreadable, not listed
        error                  string   the cluster's reason for not answering
        """
    ),
)
