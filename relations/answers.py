"""The relation of a cluster's own answers beside what its files say: one row a question about one subject."""

from typing import Annotated, TypedDict

from tidegauge.relations.model import Int32, Int64

# fmt: off

class ClusterAnswerRow(TypedDict, total=False):
    """question that the cluster answered while it was captured x subject"""

    kind:                 Annotated[str, "cluster_id, broker, broker_config, topic, topic_config, leadership, log_start_offset, high_watermark, last_stable_offset, committed_offset, producer, transaction"]
    name:                 Annotated[str, "name of the setting, for a config"]
    broker_id:            Annotated[Int32 | None, "broker that the row is about; of a partition's offsets the replica that the answer is compared with"]
    topic:                Annotated[str, "topic name"]
    partition:            Annotated[Int32, "partition number"]
    group:                Annotated[str, "consumer group"]
    transactional_id:     Annotated[str, "transactional id"]
    producer_id:          Annotated[Int64, "producer id"]
    asked_before_at_ms:   Annotated[Int64 | None, "when the cluster was asked before the copy; null if it was not"]
    asked_after_at_ms:    Annotated[Int64 | None, "when it was asked after the copy; null if it was not"]
    answered_before:      Annotated[Int64 | None, "its answer before the copy: an offset; of a producer its epoch and last sequence as one number; of a leadership the leader epoch"]
    answered_after:       Annotated[Int64 | None, "its answer after the copy"]
    recomputed_lowest:    Annotated[Int64 | None, "lower bound of the same by the files, at the moment of the copy"]
    recomputed_highest:   Annotated[Int64 | None, "upper bound of the same"]
    answered_before_text: Annotated[str | None, "its answer before the copy where it is no offset, or in words"]
    answered_after_text:  Annotated[str | None, "its answer after the copy"]
    recomputed_values:    Annotated[list[str] | None, "what the files know: every value that was in force around the answers, the last one still is; null if nothing can be said"]
    comparable:           Annotated[bool, "nothing stands against comparing them"]
    incomparable_reason:  Annotated[str | None, "what does: no answer, not asked, leader not captured, leader or ISR changed, copy older than answer, answered before the copy ended, topic re-created, log damaged, head of the log is gone, log start not yet checkpointed, tiered, changed while copying, asked once, metadata log ends before the answer, coordinator not captured, records unreadable, not listed"]
    error:                Annotated[str | None, "the cluster's reason for not answering"]
