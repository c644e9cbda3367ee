"""Brokers with two log dirs, while logs move and shrink: every capture is taken of a cluster that is at work.

Retention, DeleteRecords and compaction go on, a topic is deleted and made again under its name, a partition changes
its replicas and another one its log dir. Nothing is lost, and nothing is cried.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.real_kafka.background import Background
from tests.real_kafka.clients import LedgerProducer
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.conftest import StartCluster
from tests.real_kafka.judging import Audited, Taken, audit, judge, take
from tests.real_kafka.ledger import Ledger, ProducerKind
from tests.real_kafka.patience import wait_until
from tests.real_kafka.topology import combined
from tests.real_kafka.wire import Connection

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

SMALL = {"internal.segment.bytes": "32768", "segment.index.bytes": "8192", "file.delete.delay.ms": "1000"}
COMPACTED = ("compacted",)
SHRINKING = ("retained", "deleted-records")
AT_WORK = ("cleaning-1", "cleaning-2", "cleaning-3", "reassigning", "moving")
AT_REST = ("recreated", "moved", "stopped")


@dataclass(slots=True)
class History:
    """What was captured on the way, by name, and what the audit said of each."""

    cluster: KafkaCluster
    ledger: Ledger
    taken: dict[str, Taken] = field(default_factory=dict)
    audited: Mapping[str, Audited] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)


class _Writers(Background):
    """Writes to the topics that shrink, and deletes records, until it is stopped: without it nothing shrinks."""

    def __init__(self, cluster: KafkaCluster, ledger: Ledger) -> None:
        super().__init__(self._write, name="writers")
        self._cluster = cluster
        self._producer = LedgerProducer(cluster.bootstrap, ledger, tag="busy", kind=ProducerKind.IDEMPOTENT)

    def _write(self, ended: threading.Event) -> None:
        """Some thousand records a second, in small batches."""
        written = 0
        while not ended.is_set():
            for topic in ("retained", "deleted-records", "reassigned", "moved"):
                self._producer.send_many(topic, 0, 15, size_bytes=400)
            for n in range(40):
                self._producer.send("compacted", 0, key=f"k{(written + n) % 97}".encode(), size_bytes=300)
            self._producer.flush()
            written += 15
            if written % 150 == 0:
                self._cluster.delete_records("deleted-records", 0, written - 100)
            time.sleep(0.02)


@pytest.fixture(scope="module")
def history(start_cluster: StartCluster, ledger: Ledger, tmp_path_factory: pytest.TempPathFactory) -> History:
    """The cluster's life, and the audit of all that was captured of it."""
    root = tmp_path_factory.mktemp("captures")
    cluster = start_cluster(topology=combined(3, log_dirs=("d1", "d2")), settings={"log.cleaner.backoff.ms": "200"})
    lived = History(cluster=cluster, ledger=ledger)

    def capture(name: str, *, ask: bool = True) -> None:
        lived.taken[name] = take(cluster, ledger, root, name, ask=ask)

    placed = [[1, 2, 3]]
    cluster.create_topic("retained", assignment=placed, config={**SMALL, "retention.bytes": "120000"})
    cluster.create_topic("deleted-records", assignment=placed, config=SMALL)
    cluster.create_topic(
        "compacted",
        assignment=placed,
        config={**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    )
    cluster.create_topic("reassigned", assignment=[[1, 2]], config=SMALL)
    cluster.create_topic("moved", assignment=placed, config=SMALL)
    cluster.create_topic("same-name", assignment=placed * 2, config=SMALL)
    once = LedgerProducer(cluster.bootstrap, ledger, tag="once", kind=ProducerKind.IDEMPOTENT, codec="snappy")
    for partition in range(2):
        once.send_many("same-name", partition, 80)
    once.flush()

    writers = _Writers(cluster, ledger)
    writers.start()
    _wait_cleaning(cluster, writers)
    for name in AT_WORK[:3]:
        capture(name)
    _reassign(cluster, capture)
    _move_to_the_other_log_dir(cluster, capture)
    writers.stop()
    cluster.delete_topic("same-name")
    ledger.topic_deleted("same-name")
    cluster.create_topic("same-name", assignment=placed * 2, config=SMALL)
    for partition in range(2):
        once.send_many("same-name", partition, 80)
    once.flush()
    cluster.wait_all_in_sync()
    capture("recreated")
    capture("moved")
    cluster.stop_all()
    capture("stopped", ask=False)
    lived.audited = audit([t.directory for t in lived.taken.values()], tmp_path_factory.mktemp("audited"))
    return lived


def _wait_cleaning(cluster: KafkaCluster, writers: _Writers) -> None:
    """Until retention and compaction have begun everywhere."""

    def cleaning() -> bool:
        writers.still_well()
        return all(
            not any((log_dir / "retained-0" / f"{0:020}.log").exists() for log_dir in cluster.log_dirs(broker_id))
            and any(
                "compacted" in (log_dir / "cleaner-offset-checkpoint").read_text()
                for log_dir in cluster.log_dirs(broker_id)
            )
            for broker_id in cluster.broker_ids
        )

    wait_until(cleaning, what="retention and compaction to begin")


def _reassign(cluster: KafkaCluster, capture: object) -> None:
    """Broker 3 takes broker 1's place, slowly enough to be captured half way."""
    with Connection(cluster.address(1)) as connection:
        assert connection.reassign("reassigned", 0, [3, 2]) == 0
    capture("reassigning")  # type: ignore[operator]
    wait_until(
        lambda: {r for p in [cluster.partition("reassigned", 0)] if p is not None for r in p.replicas} == {2, 3},
        what="the reassignment to end",
    )


def _move_to_the_other_log_dir(cluster: KafkaCluster, capture: object) -> None:
    """Broker 2's replica of a partition goes to its other log dir: for a while it is in both, as `-future` in one."""
    first, second = cluster.log_dirs(2)
    target = second if (first / "moved-0").exists() else first
    with Connection(cluster.address(2)) as connection:
        assert connection.move_replica("moved", 0, str(target)) == 0
    capture("moving")  # type: ignore[operator]
    wait_until(lambda: (target / "moved-0").exists(), what="the replica to be in its other log dir")


@pytest.mark.parametrize("name", AT_WORK)
def test_a_capture_of_logs_that_move_and_shrink_holds_everything_and_cries_nothing(history: History, name: str) -> None:
    judge(history.taken[name], history.audited[name], history.ledger, at_rest=False, compacted=COMPACTED)


@pytest.mark.parametrize("name", AT_REST)
def test_a_capture_of_a_cluster_at_rest_holds_everything_on_every_replica(history: History, name: str) -> None:
    judge(
        history.taken[name],
        history.audited[name],
        history.ledger,
        at_rest=True,
        compacted=COMPACTED,
        shrinking=SHRINKING,
    )


def test_the_captures_were_taken_while_logs_shrank(history: History) -> None:
    starts = [
        {
            (r["topic"], r["partition"]): r["log_start_offset"]
            for r in history.audited[name].relation("partitions")
            if r["topic"] in SHRINKING
        }
        for name in (AT_WORK[0], "stopped")
    ]
    assert all(starts[0][place] < starts[1][place] for place in starts[0])


def test_a_topic_made_again_is_another_one(history: History) -> None:
    ids = {
        name: {r["topic_id"] for r in history.audited[name].relation("partitions") if r["topic"] == "same-name"}
        for name in ("moving", "recreated")
    }
    assert all(len(found) == 1 for found in ids.values())
    assert ids["moving"] != ids["recreated"]


def test_the_reassigned_partition_has_its_new_replicas(history: History) -> None:
    (row,) = [r for r in history.audited["stopped"].relation("partitions") if r["topic"] == "reassigned"]
    assert row["replicas"] == [3, 2]
    assert set(row["captured_replicas"]) == {2, 3}


def test_every_broker_has_two_log_dirs_with_replicas_in_both(history: History) -> None:
    for row in history.audited["stopped"].relation("brokers"):
        assert sorted(row["log_dirs"]) == ["d1", "d2"]
    for broker_id in (1, 2, 3):
        dirs = {
            r["log_dir"] for r in history.audited["stopped"].relation("replicas") if r["broker_id"] == broker_id
        }  # fmt: skip
        assert dirs == {"d1", "d2"}
