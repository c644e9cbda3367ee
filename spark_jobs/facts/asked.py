"""When a cluster was asked, and its answers a partition at a time.

In: the answers that a snapshot keeps. Out: `AnswerTimes` and `PartitionAnswers`, for whoever has the files. The rule
that must hold: a client's clock is not a broker's, so an instant of the one is compared with one of the other only with
a margin.
"""

from dataclasses import dataclass
from typing import Final

from snapshots.cluster_answers import CapturedAnswers, PartitionAnswer
from spark_jobs.facts.context import PartitionKey

MARGIN_MS: Final = 5_000
"""How far the clocks of the asker and the brokers may be apart, and how old a checkpointed high watermark may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTimes:
    """When a snapshot's cluster was asked; None where it was not."""

    before_started_at_ms: int | None
    before_finished_at_ms: int | None
    after_started_at_ms: int | None
    after_finished_at_ms: int | None

    @property
    def window_start_ms(self) -> int | None:
        """From when on a change may have come between the answers."""
        if self.before_started_at_ms is not None:
            return self.before_started_at_ms - MARGIN_MS
        return self.after_started_at_ms - MARGIN_MS if self.after_started_at_ms is not None else None

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


def answer_times(answers: CapturedAnswers) -> AnswerTimes:
    """When the cluster was asked."""
    before, after = answers.before, answers.after
    return AnswerTimes(
        before_started_at_ms=before.started_at_ms if before is not None else None,
        before_finished_at_ms=before.finished_at_ms if before is not None else None,
        after_started_at_ms=after.started_at_ms if after is not None else None,
        after_finished_at_ms=after.finished_at_ms if after is not None else None,
    )


def answers_by_partition(answers: CapturedAnswers) -> dict[PartitionKey, PartitionAnswers]:
    """The answers, a partition at a time."""
    times = answer_times(answers)
    rounds = [dict[PartitionKey, PartitionAnswer](), dict[PartitionKey, PartitionAnswer]()]
    ids: dict[str, set[str]] = {}
    for found, asked in zip(rounds, (answers.before, answers.after), strict=True):
        for topic in asked.topics if asked is not None else ():
            if topic.topic_id is not None:
                ids.setdefault(topic.topic, set()).add(topic.topic_id)
            found.update({(topic.topic, p.partition): p for p in topic.partitions})
    before, after = rounds
    return {
        key: PartitionAnswers(
            times=times, before=before.get(key), after=after.get(key), topic_ids=frozenset(ids.get(key[0], ()))
        )
        for key in sorted(before.keys() | after.keys())
    }
