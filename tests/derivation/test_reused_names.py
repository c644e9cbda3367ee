"""Checkpoints know topics by name: an entry may be about the log that lay under that name before."""

from typing import Any

import pytest

from tests.facts.metadata_logs import TOPIC_ID, a_log, change, orders, record
from tidegauge.derivation.gathering.reused_names import is_of_this_log
from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.facts.metadata.replay import replay
from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.snapshots.manifest import FileEntry

SECOND_NS = 1_000_000_000


def history(*records: MetadataRecord, quiet_s: int = 0) -> MetadataHistory:
    """One record a second behind the topic's two; then the quorum writes nothing of interest for a while."""
    alive = record("RegisterBrokerRecord", broker_id=1, fenced=False)
    log = a_log([alive, *records])
    later = a_log([record("NoOpRecord")], start=len(log) + quiet_s)
    return replay([*log, *later])


def made_again() -> tuple[MetadataRecord, ...]:
    """The topic, deleted, and created again under its name."""
    topic, partition = orders()
    again = {**partition.fields, "topic_id": "u" * 22}
    return (
        topic,
        partition,
        record("RemoveTopicRecord", topic_id=TOPIC_ID),
        record("TopicRecord", name="orders", topic_id="u" * 22),
        record("PartitionRecord", **again),
    )


def file(written_at_s: float | None) -> FileEntry:
    at = None if written_at_s is None else int(written_at_s * SECOND_NS)
    return FileEntry(path="f", size_bytes=1, sha256=None, modified_at_ns=at)


def believed(
    known: MetadataHistory, *, checkpoint: Any = None, metadata: Any = None, clean_shutdown: bool = False
) -> bool:
    return is_of_this_log(
        known, "orders", 0, 1, checkpoint=file(checkpoint), metadata=file(metadata), clean_shutdown=clean_shutdown
    )


def test_a_topic_that_was_created_once_is_believed_whatever_the_files_times_say() -> None:
    # Who copies a disk without its times makes checkpoints older than the logs beside them.
    assert believed(history(*orders()), checkpoint=5, metadata=9)
    assert believed(history(*orders()))


def test_an_entry_written_before_the_log_was_created_is_of_the_deleted_topic() -> None:
    assert not believed(history(*made_again()), checkpoint=5, metadata=9)
    assert believed(history(*made_again()), checkpoint=9, metadata=5)


def test_it_matters_not_that_the_new_topic_was_deleted_in_its_turn_while_the_copy_was_made() -> None:
    gone = record("RemoveTopicRecord", topic_id="u" * 22)
    assert not believed(history(*made_again(), gone), checkpoint=5, metadata=9)


@pytest.mark.parametrize(("quiet_s", "counts"), [(10, False), (100, True)])
def test_without_times_an_entry_counts_once_checkpoints_must_have_been_written_anew(quiet_s: int, counts: bool) -> None:
    assert believed(history(*made_again(), quiet_s=quiet_s)) is counts


def test_without_times_the_entry_of_a_dead_broker_is_not_believed() -> None:
    gone = record("FenceBrokerRecord", id=1, epoch=0)
    assert not believed(history(*made_again(), gone, quiet_s=100))


def test_a_broker_that_stopped_in_good_order_has_written_its_checkpoints_anew() -> None:
    assert believed(history(*made_again()), clean_shutdown=True)


def test_a_replica_that_came_to_the_broker_later_has_no_predecessor() -> None:
    assert believed(history(*orders(replicas=(2, 3)), change(replicas=(2, 3, 1))), checkpoint=5, metadata=9)


def test_a_replica_that_was_moved_away_and_back_has_a_predecessor_too() -> None:
    there_and_back = (*orders(), change(replicas=(2, 3)), change(replicas=(2, 3, 1)))
    assert not believed(history(*there_and_back), checkpoint=5, metadata=9)
    assert believed(history(*orders(replicas=(2, 3, 1))), checkpoint=5, metadata=9)
