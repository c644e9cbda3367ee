"""A real cluster is captured with its own answers: they are what the files say, and whoever lies is found.

It stands still here; that a busy one never contradicts itself is `test_soak`'s.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.derivation.judging import Judge
from tests.derivation.pipeline import Derived, derived
from tests.real_kafka.clients import GroupReader, JavaTransactionalProducer, LedgerProducer, commit_offsets
from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger, ProducerKind
from tests.real_kafka.patience import until_taken, wait_until
from tidegauge.cli.main import main
from tidegauge.relations import RELATIONS
from tidegauge.snapshots.ask import ask
from tidegauge.snapshots.cluster_answers import TopicAnswer

pytestmark = pytest.mark.slow

FAMILY = "L"
SETTLED_S = 7
"""What changed within five seconds of the first answer counts as changed while copying."""
IN_MOTION = {"leader or ISR changed", "changed while copying", "metadata log ends before the answer", "no answer"}


def capture(cluster: KafkaCluster, root: Path, name: str, *more: str, of: tuple[int, ...] = (1, 2, 3)) -> Path:
    """A snapshot of the running cluster with its answers, as a user takes it."""
    brokers = [f"--broker={b}={','.join(map(str, cluster.log_dirs(b)))}" for b in of]
    done = CliRunner().invoke(
        main,
        ["capture", "--cluster", "answers", "--out", str(root), "--id", name, "--bootstrap", cluster.bootstrap,
         "--previous", "none", *more, *brokers],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return root / "answers" / name


@pytest.fixture(scope="module")
def open_transaction(cluster: KafkaCluster, ledger: Ledger) -> Iterator[LedgerProducer]:
    """Topics of every kind, written by every kind of producer; one transaction stays open."""
    cluster.create_topic("plain", partitions=2)
    cluster.create_topic("txn")
    cluster.create_topic("txn2")
    cluster.create_topic("idempotent", config={"retention.ms": "86400000", "min.insync.replicas": "1"})
    cluster.create_topic("compacted", config={"cleanup.policy": "compact, delete", "segment.bytes": "1048576"})
    cluster.create_topic("deleted")
    cluster.create_topic("empty")
    bootstrap = cluster.bootstrap
    plain = LedgerProducer(bootstrap, ledger, tag="p", kind=ProducerKind.PLAIN)
    for topic, partition in (("plain", 0), ("plain", 1), ("deleted", 0)):
        plain.send_many(topic, partition, 200)
    for n in range(100):
        plain.send("compacted", 0, key=b"%d" % (n % 7))
    plain.flush()
    idempotent = LedgerProducer(bootstrap, ledger, tag="i", kind=ProducerKind.IDEMPOTENT)
    idempotent.send_many("idempotent", 0, 150)
    idempotent.flush()
    settled = LedgerProducer(bootstrap, ledger, tag="t1", kind=ProducerKind.TRANSACTIONAL_V1)
    for end in (settled.commit, settled.abort, settled.commit):
        settled.begin()
        settled.send_many("txn", 0, 20)
        end()
    with JavaTransactionalProducer(bootstrap, ledger, transactional_id="t2") as newer:
        for end in (newer.commit, newer.abort, newer.commit):
            newer.begin()
            newer.send_many("txn2", 0, 20)
            end()
    undecided = LedgerProducer(
        bootstrap, ledger, tag="open", kind=ProducerKind.TRANSACTIONAL_V1,
        settings={"transaction.timeout.ms": 600_000},
    )  # fmt: skip
    undecided.begin()
    undecided.send_many("txn", 0, 10)
    undecided.flush()
    settled.begin()
    settled.send_many("txn", 0, 5)
    settled.commit()
    cluster.delete_records("deleted", 0, 77)
    commit_offsets(bootstrap, "still", {("plain", 0): 120, ("plain", 1): 60})
    reader = GroupReader(bootstrap, "reads", ["plain"])
    reader.wait_read(400)
    reader.close()
    newer_reader = GroupReader(bootstrap, "reads-too", ["idempotent"], protocol="consumer")
    newer_reader.wait_read(150)
    newer_reader.close()
    entry = ConfigEntry("message.max.bytes", "2000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    until_taken(lambda: cluster.admin().incremental_alter_configs([resource])[resource].result(timeout=60))
    time.sleep(SETTLED_S)
    yield undecided
    undecided.abandon()


@dataclass(frozen=True)
class Quiet:
    """A snapshot of a cluster that stood still, with its facts."""

    snapshot: Path
    facts: Derived


@pytest.fixture(scope="module")
def quiet(cluster: KafkaCluster, open_transaction: LedgerProducer, tmp_path_factory: pytest.TempPathFactory) -> Quiet:
    root = tmp_path_factory.mktemp("snapshots")
    for number in range(20):
        # On a busy machine a follower falls behind for a moment, and what was in motion is not compared.
        snapshot = capture(cluster, root, f"quiet-{number}")
        facts = derived(snapshot)
        if not IN_MOTION & {row["incomparable_reason"] for row in facts.rows["cluster_answers"]}:
            return Quiet(snapshot=snapshot, facts=facts)
        time.sleep(SETTLED_S)
    raise AssertionError("the cluster does not come to rest")


def test_a_cluster_that_stands_still_answers_the_same_twice(quiet: Quiet) -> None:
    kept = json.loads((quiet.snapshot / "cluster-answers.json").read_text())
    before, after = kept["before"], kept["after"]
    assert before["unanswered"] == after["unanswered"] == {}
    for name in ("cluster_id", "brokers", "groups", "transactions"):
        assert before[name] == after[name], name
    for first, second in zip(before["topics"], after["topics"], strict=True):
        # Not the configs: any broker answers for a topic, and one of them has a setting of its own.
        assert first["partitions"] == second["partitions"], first["topic"]
    assert {g["group"] for g in before["groups"]} == {"still", "reads", "reads-too"}
    assert {t["state"] for t in before["transactions"]} >= {"Ongoing", "CompleteCommit"}


def test_every_answer_is_what_the_files_say(quiet: Quiet, judge: Judge) -> None:
    verdicts, breaches = judge.verdicts(quiet.facts, FAMILY)
    assert [b.explanation for b in breaches] == []
    assert [code for code, v in verdicts.items() if v.verdict != "holds" and code != "L03"] == []
    # Records deleted within the last minute: the new log start is in memory, and not in the checkpoint yet.
    assert verdicts["L03"].reasons.keys() <= {"log start not yet checkpointed"}
    rows = quiet.facts.rows["cluster_answers"]
    exact = ("log_start_offset", "high_watermark", "last_stable_offset", "committed_offset", "producer")
    for row in rows:
        if row["kind"] in exact and row["topic"] != "deleted":
            assert row["answered_before"] == row["answered_after"] == row["recomputed_highest"], row
    kinds = {row["kind"] for row in rows}
    assert kinds == {
        *exact,
        "cluster_id",
        "broker",
        "broker_config",
        "topic",
        "topic_config",
        "leadership",
        "transaction",
    }


def test_every_column_is_filled_in_some_row(quiet: Quiet) -> None:
    rows = quiet.facts.rows["cluster_answers"]
    empty = {c.name for c in RELATIONS["cluster_answers"].columns if all(row[c.name] is None for row in rows)}
    assert empty <= {"error", "incomparable_reason"}


def test_settings_that_no_file_tells_are_known_by_the_answers(quiet: Quiet) -> None:
    known = {row["topic"]: row["min_insync_replicas"] for row in quiet.facts.rows["topics"]}
    assert known["plain"] == 2
    assert known["idempotent"] == 1
    context = quiet.facts.context.partitions["txn", 0]
    assert context.settings.max_transaction_timeout_ms == 900_000


def test_hashed_names_are_compared_as_well(cluster: KafkaCluster, quiet: Quiet, judge: Judge, tmp_path: Path) -> None:
    hashed = capture(cluster, tmp_path, "hashed", "--mode", "headers", "--hash-topics")
    text = (hashed / "cluster-answers.json").read_text()
    assert [name for name in ("plain", "idempotent", "still", "reads-too") if f'"{name}"' in text] == []
    verdicts, breaches = judge.verdicts(derived(hashed), FAMILY)
    assert [b.explanation for b in breaches] == []
    # By names that were replaced, groups and transactional ids still find their coordinators' logs.
    assert {code: verdicts[code].verdict for code in ("L08", "L10")} == {"L08": "holds", "L10": "holds"}


def test_one_broker_alone_is_compared_as_far_as_it_goes(
    cluster: KafkaCluster, quiet: Quiet, judge: Judge, tmp_path: Path
) -> None:
    verdicts, breaches = judge.verdicts(derived(capture(cluster, tmp_path, "one", of=(2,))), FAMILY)
    assert [b.explanation for b in breaches] == []
    assert verdicts["L01"].verdict == "holds"
    assert "leader not captured" in verdicts["L04"].reasons


# --------------------------------------------------------------------------------------------------------------- lies

Answers = dict[str, Any]


def topic_of(answers: Answers, name: str) -> Answers:
    found: Answers = next(t for t in answers["topics"] if t["topic"] == name)
    return found


def raise_high_watermark(answers: Answers) -> None:
    topic_of(answers, "plain")["partitions"][0]["high_watermark"] += 3


def lower_high_watermark(answers: Answers) -> None:
    partition = topic_of(answers, "plain")["partitions"][0]
    partition["high_watermark"] -= 3
    partition["last_stable_offset"] -= 3


def lower_log_start(answers: Answers) -> None:
    topic_of(answers, "plain")["partitions"][0]["log_start_offset"] = -5


def raise_last_stable_offset(answers: Answers) -> None:
    topic_of(answers, "txn")["partitions"][0]["last_stable_offset"] += 1


def lower_last_stable_offset(answers: Answers) -> None:
    topic_of(answers, "txn2")["partitions"][0]["last_stable_offset"] -= 1


def shrink_isr(answers: Answers) -> None:
    partition = topic_of(answers, "empty")["partitions"][0]
    partition["isr"] = [b for b in partition["isr"] if b == partition["leader_id"]]


def other_topic_id(answers: Answers) -> None:
    topic_of(answers, "empty")["topic_id"] = "AAAAAAAAAAAAAAAAAAAAAA"


def other_retention(answers: Answers) -> None:
    topic_of(answers, "idempotent")["configs"]["retention.ms"]["value"] = "1"


def hide_broker_config(answers: Answers) -> None:
    answers["brokers"][0]["configs"]["message.max.bytes"] = {"value": "1", "source": "default", "sensitive": False}


def other_commit(answers: Answers) -> None:
    group = next(g for g in answers["groups"] if g["group"] == "still")
    group["offsets"][0]["offset"] -= 1


def commit_out_of_nothing(answers: Answers) -> None:
    group = next(g for g in answers["groups"] if g["group"] == "still")
    group["offsets"].append({**group["offsets"][0], "topic": "empty", "partition": 0, "offset": 0})


def other_sequence(answers: Answers) -> None:
    topic_of(answers, "idempotent")["partitions"][0]["producers"][0]["last_sequence"] -= 1


def unknown_producer(answers: Answers) -> None:
    producers = topic_of(answers, "idempotent")["partitions"][0]["producers"]
    producers.append({**producers[0], "producer_id": 987654})


def no_open_transaction(answers: Answers) -> None:
    for producer in topic_of(answers, "txn")["partitions"][0]["producers"]:
        producer["current_transaction_first_offset"] = None


def other_transaction_state(answers: Answers) -> None:
    next(t for t in answers["transactions"] if t["state"] == "Ongoing")["state"] = "PrepareCommit"


def another_cluster(answers: Answers) -> None:
    answers["cluster_id"] = "another-cluster"


LIES: dict[Callable[[Answers], None], set[str]] = {
    raise_high_watermark: {"L01"},
    lower_high_watermark: {"L02"},
    lower_log_start: {"L03"},
    raise_last_stable_offset: {"L04"},
    lower_last_stable_offset: {"L04"},
    shrink_isr: {"L05"},
    other_topic_id: {"L06"},
    other_retention: {"L07"},
    hide_broker_config: {"L07"},
    other_commit: {"L08"},
    commit_out_of_nothing: {"L08"},
    other_sequence: {"L09"},
    unknown_producer: {"L09"},
    no_open_transaction: {"L09"},
    other_transaction_state: {"L10"},
    another_cluster: {"L11"},
}


@pytest.mark.parametrize(("lie", "codes"), LIES.items(), ids=[lie.__name__ for lie in LIES])
def test_a_lie_is_found_by_its_invariant_and_by_no_other(
    lie: Callable[[Answers], None], codes: set[str], quiet: Quiet, judge: Judge, tmp_path: Path
) -> None:
    told = shutil.copytree(quiet.snapshot, tmp_path / "told", copy_function=linked)
    path = told / "cluster-answers.json"
    kept = json.loads(path.read_text())
    for answers in (kept["before"], kept["after"]):
        lie(answers)
    path.unlink()
    path.write_text(json.dumps(kept))
    _, breaches = judge.verdicts(derived(told), FAMILY)
    assert {b.code for b in breaches} == codes


def linked(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def test_a_log_that_lost_its_end_is_found_by_the_answered_high_watermark(
    quiet: Quiet, judge: Judge, tmp_path: Path
) -> None:
    leader = quiet.facts.one("partitions", topic="plain", partition=0)["leader_id"]
    cut = shutil.copytree(quiet.snapshot, tmp_path / "cut", copy_function=linked)
    log = next((cut / f"broker-{leader}" / "plain-0").glob("*.log"))
    data = log.read_bytes()
    log.unlink()
    log.write_bytes(data[: len(data) // 2])
    _, breaches = judge.verdicts(derived(cut), FAMILY)
    assert {(b.code, b.severity, b.subject["broker_id"]) for b in breaches} >= {("L01", "critical", leader)}


def test_answers_that_cannot_be_read_do_not_stop_the_audit(quiet: Quiet, judge: Judge, tmp_path: Path) -> None:
    broken = shutil.copytree(quiet.snapshot, tmp_path / "broken", copy_function=linked)
    (broken / "cluster-answers.json").unlink()
    (broken / "cluster-answers.json").write_text('{"schema_version": 1, "before": 5')
    facts = derived(broken)
    assert "cluster-answers.json" in facts.unread()
    verdicts, _ = judge.verdicts(facts, FAMILY)
    assert {v.verdict for v in verdicts.values()} == {"unknown"}


def test_a_broker_that_is_down_leaves_its_reason_and_the_others_their_answers(
    cluster: KafkaCluster, open_transaction: LedgerProducer
) -> None:
    cluster.create_topic("only-two", assignment=[[2], [1]])
    cluster.kill(2)

    def told() -> TopicAnswer | None:
        # A question to who is gone takes its whole time; on a busy machine so does one to who is there, now and then.
        topic = ask(cluster.bootstrap, timeout_s=3).topic_named("only-two")
        return topic if topic is not None and not topic.partitions[1].errors else None

    lost, served = wait_until(told, what="the answers of the brokers that are left").partitions
    assert lost.high_watermark is None
    assert lost.errors
    assert served.high_watermark == 0
    assert served.errors == {}
    cluster.start(2)
