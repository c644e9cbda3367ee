"""Lost by an unclean election, salvaged, and produced again to the cluster that lost them: each record once, as it was.

The same records are produced again to topics of their own, too, for what must not depend on where they came from: a
death at any moment, a second time, a journal that is gone, a topic that does not take all of them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.real_kafka.clients import LedgerProducer
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.judging import audit, take
from tests.real_kafka.ledger import Ledger, ProducerKind
from tests.real_kafka.lives import unclean
from tests.real_kafka.patience import wait_until
from tidegauge.cli.main import main
from tidegauge.kafka_log import types
from tidegauge.kafka_log.records import Record
from tidegauge.recovery.leader_client import LeaderClient
from tidegauge.recovery.live_partition import LivePartition
from tidegauge.recovery.replay_batches import batch_bytes
from tidegauge.recovery.replay_journal import JOURNAL, ProducerRun, Target
from tidegauge.snapshots.client_config import ClientConfig

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

TOPIC: Final = "orders"
COMMON, ALONE, AFTER = 50, 120, 30
OLD: Final = 1_700_000_000_000
Headers = list[tuple[str, bytes | None]]
Shape = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""Key, value, headers, timestamp."""

ODD: Final[list[tuple[bytes | None, bytes | None, Headers]]] = [
    (b"plain", b"value", []),
    (None, b"no key", []),
    (b"tombstone", None, []),
    (b"", b"", [("empty", b""), ("null", None)]),
    (b"many", b"x", [("b", b"1"), ("a", b"2"), ("b", b"3"), ("b", b"1"), ("", b"no name")]),
    ("schl\u00fcssel".encode(), b"\x00\xff" * 50, [("h\u00e9ader", b"\xff\x00")]),
    (b"twice", b"the same", []),
    (b"twice", b"the same", []),
    (b"large", b"y" * 300_000, []),
]
AGAIN: Final = [(b"again-%d" % n, b"sent by its producer again") for n in range(10)]
"""Lost with the others, and written again by their application after the election."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What was lost, and the directory that it was salvaged into."""

    salvaged: Path
    lost: list[Shape]
    """What is to be on the topic again, in its order."""
    loss_id: str
    store: str


def shape(message: Message) -> Shape:
    headers = tuple((str(name), value) for name, value in message.headers() or ())
    return message.key(), message.value(), headers, message.timestamp()[1]  # type: ignore[return-value]


def consumed(cluster: KafkaCluster, topic: str, start: int = 0) -> list[Shape]:
    """Every record of partition 0 from an offset on, as a consumer reads it that asks for nothing special."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "compares", "isolation.level": "read_uncommitted"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[Shape] = []

    def to_the_end() -> bool:
        for message in consumer.consume(500, timeout=1.0):
            if message.error() is None:
                found.append(shape(message))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return True
        return False

    wait_until(to_the_end, what=f"{topic} to be read to its end")
    consumer.close()
    return found


def write_odd_ones(cluster: KafkaCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    for at, (key, value, headers) in enumerate(ODD):
        producer.produce(TOPIC, partition=0, key=key, value=value, headers=headers, timestamp=OLD + at)
    for key, value in AGAIN:
        producer.produce(TOPIC, partition=0, key=key, value=value)
    assert producer.flush(60) == 0


def write_transactions(cluster: KafkaCluster, ledger: Ledger) -> None:
    """Three records committed, five aborted, two of a transaction that never ends."""
    producer = LedgerProducer(cluster.bootstrap, ledger, tag="t", kind=ProducerKind.TRANSACTIONAL_V1)
    for count, end in ((3, producer.commit), (5, producer.abort)):
        producer.begin()
        producer.send_many(TOPIC, 0, count)
        end()
    producer.begin()
    producer.send_many(TOPIC, 0, 2)
    producer.flush()
    producer.abandon()


def tidegauge(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def loss(cluster: KafkaCluster, ledger: Ledger, empty_store: str, tmp_path_factory: pytest.TempPathFactory) -> Loss:
    root = tmp_path_factory.mktemp("lost")
    cluster.create_topic(TOPIC, assignment=[[1, 2, 3]], config={"min.insync.replicas": "1"})
    first = LedgerProducer(cluster.bootstrap, ledger, tag="first", kind=ProducerKind.IDEMPOTENT)
    first.send_many(TOPIC, 0, COMMON)
    first.flush()
    # A coordinator has to be there before its broker is alone.
    LedgerProducer(cluster.bootstrap, ledger, tag="t", kind=ProducerKind.TRANSACTIONAL_V1)
    unclean.move_coordinators(cluster, 1)
    alone = unclean.Alone(cluster, 1, [(TOPIC, 0)])
    start = cluster.end_offset(TOPIC, 0)
    producer = LedgerProducer(cluster.bootstrap, ledger, tag="alone", kind=ProducerKind.IDEMPOTENT, codec="lz4")
    producer.send_many(TOPIC, 0, ALONE)
    producer.flush()
    write_odd_ones(cluster)
    write_transactions(cluster, ledger)
    lost = consumed(cluster, TOPIC, start)
    gone = alone.lost()
    unclean.wait_checkpointed(cluster, gone)
    cluster.kill(1)
    unclean.elect_anyone(cluster, [(TOPIC, 0)], 1)
    cluster.follow(1)
    unclean.go_on(cluster, ledger, [(TOPIC, 0)], tag="second", count=AFTER)
    again = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for key, value in AGAIN:
        again.produce(TOPIC, partition=0, key=key, value=value)
    assert again.flush(60) == 0
    snapshot = take(cluster, ledger, root, "before", ask=False).directory
    audited = audit([snapshot], root / "audited", "--store", empty_store)
    (found,) = audited["before"].losses()[TOPIC, 0]
    assert (found["state"], found["start_offset"]) == ("at_risk", start)
    salvaged = root / "salvaged"
    done = tidegauge("salvage", snapshot, "--topic", TOPIC, "--partition", "0", "--from", str(start), "--out", salvaged)
    assert done.exit_code == 0, done.output
    cluster.start(1)
    cluster.wait_all_in_sync()
    told = json.loads(tidegauge("losses", "--json", "--store", empty_store).stdout)
    not_again = [s for s in lost if (s[0], s[1]) not in AGAIN]
    return Loss(salvaged, not_again[: ALONE + len(ODD) + 3], told["losses"][0]["loss_id"], empty_store)


def replay(salvaged: Path, cluster: KafkaCluster, *more: str) -> dict[str, Any]:
    done = tidegauge("replay", salvaged, "--bootstrap", cluster.bootstrap, "--json", *more)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(code: int, *arguments: str | Path) -> str:
    done = tidegauge("replay", *arguments)
    assert done.exit_code == code, done.output
    return " ".join(done.stderr.split())


def copy(loss: Loss, tmp_path: Path) -> Path:
    """The salvaged directory without its journal."""
    return Path(shutil.copytree(loss.salvaged, tmp_path / "salvaged", ignore=shutil.ignore_patterns(JOURNAL)))


def target(cluster: KafkaCluster, name: str, **config: str) -> str:
    cluster.create_topic(name, config={key.replace("_", "."): value for key, value in config.items()})
    return name


def killed(salvaged: Path, cluster: KafkaCluster, *more: str, batches: int) -> None:
    """A replay that dies by SIGKILL once so many batches more are in its journal."""
    journal = salvaged / JOURNAL

    def acknowledged() -> int:
        return journal.read_text().count('"sent"') if journal.exists() else 0

    before = acknowledged()
    command = [sys.executable, "-c", "from tidegauge.cli.start import run; run()", "replay", str(salvaged)]
    command += ["--bootstrap", cluster.bootstrap, "--produce", "--rate", "40", *more]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def far_enough() -> bool:
        assert process.poll() is None, process.stderr and process.stderr.read().decode()
        return acknowledged() >= before + batches

    wait_until(far_enough, what=f"{batches} batches")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def without_last(salvaged: Path, word: str) -> None:
    """The journal as a death leaves it that comes before its last line of this kind is written."""
    journal = salvaged / JOURNAL
    lines = journal.read_text().splitlines(keepends=True)
    at = max(n for n, line in enumerate(lines) if word in json.loads(line))
    journal.write_text("".join(lines[:at]) + lines[at][:9])


def test_a_dry_run_says_what_would_be_produced_and_produces_nothing(cluster: KafkaCluster, loss: Loss) -> None:
    end = cluster.end_offset(TOPIC, 0)
    told = replay(loss.salvaged, cluster)
    assert (told["dry_run"], told["produced"], told["to_produce"]) == (True, 0, len(loss.lost))
    assert {why: n for why, n in told["left_out"].items() if n} == {"aborted": 5, "open_transaction": 2, "survived": 10}
    assert told["compared_from"] == COMMON
    assert cluster.end_offset(TOPIC, 0) == end
    words = tidegauge("replay", loss.salvaged, "--bootstrap", cluster.bootstrap, "--dry-run").stdout
    assert "Nothing was produced." in words
    assert not (loss.salvaged / JOURNAL).exists()


def test_a_replay_that_dies_half_way_goes_on_and_each_record_is_there_once(cluster: KafkaCluster, loss: Loss) -> None:
    start = cluster.end_offset(TOPIC, 0)
    killed(loss.salvaged, cluster, batches=1)
    killed(loss.salvaged, cluster, batches=1)
    done = tidegauge(
        "replay", loss.salvaged, "--bootstrap", cluster.bootstrap, "--produce", "--json",
        "--loss", loss.loss_id, "--by", "ada", "--store", loss.store,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["finished"], told["loss"]) == (True, loss.loss_id)
    assert 0 < told["left_out"]["produced_before"] < len(loss.lost)
    assert consumed(cluster, TOPIC, start) == loss.lost
    decided = json.loads(tidegauge("losses", "--all", "--json", "--store", loss.store).stdout)["losses"][0]
    assert (decided["state"], decided["undecided"]) == ("produced_again", False)
    (decision,) = decided["decisions"]
    assert decision["decided_by"] == "ada"
    assert f"{TOPIC}-0" in decision["note"]


def test_a_second_time_nothing_is_left_to_produce(cluster: KafkaCluster, loss: Loss) -> None:
    end = cluster.end_offset(TOPIC, 0)
    told = replay(loss.salvaged, cluster, "--produce")
    assert (told["to_produce"], told["left_out"]["produced_before"]) == (0, len(loss.lost))
    assert cluster.end_offset(TOPIC, 0) == end


def test_without_its_journal_records_are_known_by_content_and_timestamp(
    cluster: KafkaCluster, loss: Loss, tmp_path: Path
) -> None:
    end = cluster.end_offset(TOPIC, 0)
    told = replay(copy(loss, tmp_path), cluster, "--produce", "--same-content")
    assert told["present_by"]["timestamp"] == len(loss.lost)
    # Their application wrote these again at another time: whether they are the same is for a person to say.
    assert (told["to_produce"], told["produced"]) == (len(AGAIN), len(AGAIN))
    assert [s[:2] for s in consumed(cluster, TOPIC, end)] == AGAIN


@pytest.mark.parametrize("word", ["sent", "send"])
def test_a_death_at_any_moment_repeats_nothing_and_loses_nothing(
    cluster: KafkaCluster, loss: Loss, tmp_path: Path, word: str
) -> None:
    """Between acknowledgement and journal, where the batch is on the topic; and before it was sent."""
    salvaged, topic = copy(loss, tmp_path), target(cluster, f"dies-before-{word}")
    killed(salvaged, cluster, "--topic", topic, batches=2)
    without_last(salvaged, word)
    if word == "send":
        # What the journal does not name was never sent.
        cluster.delete_topic(topic)
        target(cluster, topic)
        (salvaged / JOURNAL).unlink()
    told = replay(salvaged, cluster, "--topic", topic, "--produce")
    assert told["finished"]
    assert consumed(cluster, topic) == loss.lost


def test_a_batch_that_never_arrived_is_sent_first_and_as_the_same_one(
    cluster: KafkaCluster, loss: Loss, tmp_path: Path
) -> None:
    salvaged, topic = copy(loss, tmp_path), target(cluster, "never-arrived")
    told = replay(salvaged, cluster, "--topic", topic)
    with LeaderClient(cluster.bootstrap, ClientConfig(), types.TopicPartition(topic, 0)) as client:
        producer_id, epoch = LivePartition(client=client).new_producer()
    lines = [
        {"replay": 1, "cluster_id": told["cluster_id"], "topic": topic, "topic_id": told["topic_id"], "partition": 0,
         "producer_id": producer_id, "producer_epoch": epoch, "end_offset": 0},
        {"send": 0, "producer_id": producer_id, "offsets": [[COMMON, COMMON + 7]]},
    ]  # fmt: skip
    (salvaged / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert replay(salvaged, cluster, "--topic", topic)["unsettled"] == 7
    assert replay(salvaged, cluster, "--topic", topic, "--produce")["produced"] == len(loss.lost)
    assert consumed(cluster, topic) == loss.lost
    assert replay(salvaged, cluster, "--topic", topic)["left_out"]["produced_before"] == len(loss.lost)


def test_the_leader_takes_a_sequence_once_however_often_it_comes(cluster: KafkaCluster) -> None:
    place = types.TopicPartition(target(cluster, "once"), 0)
    with LeaderClient(cluster.bootstrap, ClientConfig(), place) as client:
        live = LivePartition(client=client)
        producer_id, epoch = live.new_producer()
        run = ProducerRun(
            target=Target(cluster_id=None, topic_id=None, place=place),
            producer_id=producer_id, producer_epoch=epoch, end_offset=0,
        )  # fmt: skip
        record = Record(offset=7, timestamp=OLD, key=None, value=b"x")
        data = batch_bytes([record, record], run, 0, 1 << 20)
        assert [live.append(data), live.append(data), live.end_offset()] == [0, 0, 2]


def test_records_that_an_unclean_election_took_again_are_produced_again(
    cluster: KafkaCluster, loss: Loss, tmp_path: Path
) -> None:
    salvaged, topic = copy(loss, tmp_path), target(cluster, "lost-again")
    replay(salvaged, cluster, "--topic", topic, "--produce")
    journal = (salvaged / JOURNAL).read_text()
    cluster.delete_topic(topic)
    target(cluster, topic)
    told = replay(salvaged, cluster, "--topic", topic)
    # The journal is of a topic with another id: it says nothing of this one.
    assert (told["to_produce"], told["left_out"]["produced_before"]) == (len(loss.lost), 0)
    first = json.loads(journal.splitlines()[0])
    (salvaged / JOURNAL).write_text(journal.replace(first["topic_id"], told["topic_id"]))
    told = replay(salvaged, cluster, "--topic", topic, "--produce")
    assert any("lost records again" in text for text in told["warnings"])
    assert consumed(cluster, topic) == loss.lost


def test_nothing_goes_to_another_cluster_or_to_a_topic_that_was_made_again(
    cluster: KafkaCluster, loss: Loss, tmp_path: Path
) -> None:
    salvaged = copy(loss, tmp_path)
    result = salvaged / "salvage.json"
    told = json.loads(result.read_text())
    for key, words in (("cluster_id", "of cluster"), ("topic_id", "made again since")):
        told["origin"][key], kept = "AAAAAAAAAAAAAAAAAAAAAA", told["origin"][key]
        result.write_text(json.dumps(told))
        said = refused(2, salvaged, "--bootstrap", cluster.bootstrap, "--produce")
        assert words in said
        assert "--elsewhere" in said
        assert replay(salvaged, cluster, "--elsewhere")["to_produce"] == 0
        told["origin"][key] = kept


def test_what_the_topic_does_not_take_is_said_before_anything_is_produced(
    cluster: KafkaCluster, loss: Loss, tmp_path: Path
) -> None:
    topic = target(cluster, "narrow", max_message_bytes="2000", message_timestamp_before_max_ms="86400000")
    salvaged = copy(loss, tmp_path)
    dry = replay(salvaged, cluster, "--topic", topic)["left_out"]
    assert (dry["too_large"], dry["timestamp_refused"]) == (0, len(ODD))
    said = refused(2, salvaged, "--bootstrap", cluster.bootstrap, "--topic", topic, "--produce")
    assert "message.timestamp.before.max.ms" in said
    assert cluster.end_offset(topic, 0) == 0
    told = replay(salvaged, cluster, "--topic", topic, "--produce", "--leave-out-unfit")
    assert told["produced"] == len(loss.lost) - len(ODD)
    small = target(cluster, "small", max_message_bytes="400")
    assert replay(salvaged, cluster, "--topic", small)["left_out"]["too_large"] == 1


def test_a_compacted_topic_keeps_its_newer_values(cluster: KafkaCluster, loss: Loss, tmp_path: Path) -> None:
    topic, salvaged = target(cluster, "compacted", cleanup_policy="compact"), copy(loss, tmp_path)
    newer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for key in (b"plain", b"tombstone"):
        newer.produce(topic, partition=0, key=key, value=b"newer")
    assert newer.flush(60) == 0
    told = replay(salvaged, cluster, "--topic", topic, "--produce", "--leave-out-unfit")
    assert (told["left_out"]["newer_value"], told["left_out"]["no_key"]) == (2, 1)
    assert "--newer-values" in " ".join(told["warnings"])
    there = Counter(s[0] for s in consumed(cluster, topic))
    assert (there[b"plain"], there[b"tombstone"], there[b"twice"]) == (1, 1, 2)


def test_a_topic_with_times_of_its_own_is_told_before(cluster: KafkaCluster, loss: Loss, tmp_path: Path) -> None:
    topic = target(cluster, "arrival", message_timestamp_type="LogAppendTime")
    told = replay(copy(loss, tmp_path), cluster, "--topic", topic, "--produce")
    assert "LogAppendTime" in " ".join(told["warnings"])
    assert [s[:3] for s in consumed(cluster, topic)] == [s[:3] for s in loss.lost]


def test_aborted_and_open_ones_are_produced_where_it_is_asked_for(
    cluster: KafkaCluster, loss: Loss, tmp_path: Path
) -> None:
    topic = target(cluster, "all-of-them")
    told = replay(copy(loss, tmp_path), cluster, "--topic", topic, "--produce", "--with-aborted", "--with-open")
    assert told["produced"] == len(loss.lost) + 5 + 2


def test_a_topic_or_a_cluster_that_is_not_there_is_an_error_that_says_so(cluster: KafkaCluster, loss: Loss) -> None:
    assert "has no topic" in refused(2, loss.salvaged, "--bootstrap", cluster.bootstrap, "--topic", "nowhere")
    assert "--partition" in refused(2, loss.salvaged, "--bootstrap", cluster.bootstrap, "--partition", "9")
    assert "No broker of" in refused(3, loss.salvaged, "--bootstrap", "127.0.0.1:1")
