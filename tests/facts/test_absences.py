"""What the metadata log names and a copy lacks: brokers, log dirs, and which replicas lie there."""

from typing import Any

import pytest

from tests.facts.metadata_logs import TOPIC_ID, a_log, change, record
from tests.facts.test_metadata_facts import registered
from tidegauge.facts.metadata.absences import AbsentBroker, AbsentLogDir, CapturedNode, absences, directory_of
from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.facts.metadata.in_sync_index import RESERVED_DIRECTORIES
from tidegauge.facts.metadata.replay import replay

A, B, C, D = (letter * 22 for letter in "abcd")
MIGRATING, UNASSIGNED, LOST = sorted(RESERVED_DIRECTORIES)
KEY = ("orders", 0)


def history(*records: Any, directories: tuple[str, ...] = (A, C)) -> MetadataHistory:
    """Broker 1 with log dirs A and B, broker 2 with C; orders-0 on both."""
    partition = {"replicas": (1, 2), "isr": (1, 2), "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    return replay(
        a_log(
            [
                registered(1, 0, log_dirs=(A, B)),
                registered(2, 1, log_dirs=(C,)),
                record("TopicRecord", name="orders", topic_id=TOPIC_ID),
                record("PartitionRecord", partition_id=0, topic_id=TOPIC_ID, directories=directories, **partition),
                *records,
            ]
        )
    )


def node(*directory_ids: str, **fields: Any) -> CapturedNode:
    return CapturedNode(directory_ids=directory_ids, **{"held": {KEY}, **fields})


def test_nothing_is_absent_of_what_was_captured_whole() -> None:
    found = absences(history(), {1: node(A, B), 2: node(C)})
    assert (found.brokers, found.log_dirs, found.metadata_logs, found.unplaced) == ((), (), (), {})


def test_a_broker_that_was_not_captured_is_absent_with_its_replicas() -> None:
    assert absences(history(), {1: node(A, B)}).brokers == (AbsentBroker(broker_id=2, replicas=(KEY,)),)


def test_a_registered_log_dir_that_no_captured_one_is_was_forgotten() -> None:
    found = absences(history(), {1: node(B, held=()), 2: node(C)})
    assert found.log_dirs == (AbsentLogDir(broker_id=1, directory_id=A, registered=True, replicas=(KEY,)),)
    assert found.replicas_in_absent_log_dirs() == {(1, KEY)}
    (empty,) = absences(history(), {1: node(A), 2: node(C)}).log_dirs
    assert (empty.directory_id, empty.replicas) == (B, ())


def test_a_log_dir_that_nobody_can_identify_may_be_the_one_that_is_missing() -> None:
    assert absences(history(), {1: node(A, unidentified_directories=1), 2: node(C)}).log_dirs == ()
    found = absences(history(), {1: node(unidentified_directories=1, held=()), 2: node(C)}).log_dirs
    assert [d.directory_id for d in found] == [A, B], "one of the two is not here, whichever"


def test_a_directory_that_failed_is_absent_though_its_broker_has_it_no_longer() -> None:
    failed = record("BrokerRegistrationChangeRecord", broker_id=1, broker_epoch=0, log_dirs=(B,))
    (found,) = absences(history(failed), {1: node(B, held=()), 2: node(C)}).log_dirs
    assert found == AbsentLogDir(broker_id=1, directory_id=A, registered=False, replicas=(KEY,))


def test_a_replica_that_was_moved_and_not_reassigned_yet_makes_no_directory_absent() -> None:
    gone = record("BrokerRegistrationChangeRecord", broker_id=1, broker_epoch=0, log_dirs=(B,))
    assert absences(history(gone), {1: node(B), 2: node(C)}).log_dirs == ()


@pytest.mark.parametrize("reserved", [MIGRATING, UNASSIGNED, LOST])
def test_ids_that_stand_for_no_directory_name_none(reserved: str) -> None:
    known = history(directories=(reserved, C))
    assert directory_of(known.topics[TOPIC_ID].partitions[0], 1) is None
    assert absences(known, {1: node(A, B, held=()), 2: node(C)}).log_dirs == ()
    found = absences(known, {1: node(A, held=()), 2: node(C)})
    assert [d.directory_id for d in found.log_dirs] == [B]
    assert found.unplaced == {1: (KEY,)}, "it may lie in the one that is not here"


def test_before_directories_had_ids_nothing_is_known_of_them() -> None:
    without = replay(a_log([registered(1, 0), *[record("TopicRecord", name="orders", topic_id=TOPIC_ID)]]))
    assert absences(without, {1: node()}).log_dirs == ()


def test_a_node_that_is_no_broker_has_no_log_dirs_to_miss() -> None:
    found = absences(history(), {1: node(A, B), 2: node(C), 100: CapturedNode(directory_ids=[D])})
    assert (found.log_dirs, found.brokers) == ((), ())


def test_without_a_metadata_log_nothing_is_known_but_that() -> None:
    found = absences(MetadataHistory(), {1: node(A, has_metadata_log=False), 2: node(C, has_metadata_log=False)})
    assert (found.brokers, found.log_dirs, found.metadata_logs) == ((), (), (1, 2))


def test_a_deleted_topics_replicas_are_nobodys() -> None:
    found = absences(history(record("RemoveTopicRecord", topic_id=TOPIC_ID), change()), {2: node(C)})
    assert found.brokers == (AbsentBroker(broker_id=1, replicas=()),)
