"""When a cluster was asked, and its answers a partition at a time.

In: the answers that a snapshot keeps. Out: `AnswerTimes` and `PartitionAnswers`, for whoever has the files. A client's
clock is not a broker's, so an instant of the one is compared with one of the other only with a margin. How far the
cluster's may be behind is told by the copy itself: its metadata log, in which something is written twice a second, ends
before the second answers come.
"""

from dataclasses import dataclass
from typing import Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.cluster_answers import CapturedAnswers, PartitionAnswer

MARGIN_MS: Final = 5_000
"""How far the clocks of the asker and the brokers may be apart, and how old a checkpointed high watermark may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTimes:
    """When a snapshot's cluster was asked; None where it was not."""

    before_started_at_ms: int | None
    before_finished_at_ms: int | None
    after_started_at_ms: int | None
    after_finished_at_ms: int | None
    cluster_behind_ms: int = 0
    """By how much the cluster's clock may be behind the asker's, at most."""

    @property
    def asked_from_ms(self) -> int | None:
        """When the first question was asked, at the earliest, if the clocks are in step."""
        if self.before_started_at_ms is not None:
            return self.before_started_at_ms - MARGIN_MS
        return self.after_started_at_ms - MARGIN_MS if self.after_started_at_ms is not None else None

    @property
    def window_start_ms(self) -> int | None:
        """From when on, by the cluster's clock, a change may have come between the answers."""
        asked_from_ms = self.asked_from_ms
        return asked_from_ms - self.cluster_behind_ms if asked_from_ms is not None else None

    def in_window(self, at_ms: int | None) -> bool:
        """Whether something of that instant may have come between the answers; what has no instant is older."""
        return at_ms is not None and self.window_start_ms is not None and at_ms >= self.window_start_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAnswers:
    """What was answered about one partition, for whoever has its logs."""

    times: AnswerTimes
    before: PartitionAnswer | None
    after: PartitionAnswer | None
    topic_ids: frozenset[str]


def answer_times(answers: CapturedAnswers, metadata_written_at_ms: int | None) -> AnswerTimes:
    """When the cluster was asked. Also given: when the last record of its metadata log in the copy was written."""
    before, after = answers.before, answers.after
    asked_last_ms = next((asked.started_at_ms for asked in (after, before) if asked is not None), None)
    behind_ms = 0
    if asked_last_ms is not None and metadata_written_at_ms is not None:
        behind_ms = max(0, asked_last_ms - metadata_written_at_ms)
    return AnswerTimes(
        before_started_at_ms=before.started_at_ms if before is not None else None,
        before_finished_at_ms=before.finished_at_ms if before is not None else None,
        after_started_at_ms=after.started_at_ms if after is not None else None,
        after_finished_at_ms=after.finished_at_ms if after is not None else None,
        cluster_behind_ms=behind_ms,
    )


def answers_by_partition(
    answers: CapturedAnswers, metadata_written_at_ms: int | None
) -> dict[TopicPartition, PartitionAnswers]:
    """The answers, a partition at a time."""
    times = answer_times(answers, metadata_written_at_ms)
    rounds = [dict[TopicPartition, PartitionAnswer](), dict[TopicPartition, PartitionAnswer]()]
    ids: dict[str, set[str]] = {}
    for found, asked in zip(rounds, (answers.before, answers.after), strict=True):
        for topic in asked.topics if asked is not None else ():
            if topic.topic_id is not None:
                ids.setdefault(topic.topic, set()).add(topic.topic_id)
            found.update({TopicPartition(topic.topic, p.partition): p for p in topic.partitions})
    before, after = rounds
    return {
        key: PartitionAnswers(
            times=times, before=before.get(key), after=after.get(key), topic_ids=frozenset(ids.get(key[0], ()))
        )
        for key in sorted(before.keys() | after.keys())
    }
