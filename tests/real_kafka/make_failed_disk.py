"""Makes two golden captures: brokers with a metadata.log.dir of their own and a controller that is no broker, after a
disk has failed; first while they run, then stopped cleanly.

    python -m tests.real_kafka.make_failed_disk tests/golden

In: a directory. Out: `disk-failed.tar.gz` and `disk-failed-stopped.tar.gz` in it. Kafka writes every byte of the log
directories, and nothing is lost but what lay on the disk.

    controller 100     one directory, with the metadata log
    brokers 1, 2       log.dirs=d1,d2 metadata.log.dir=meta; d2 of broker 2 fails: it can no longer be written to
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.java.libraries import classpath
from tests.real_kafka import processes
from tests.real_kafka.clients import commit_offsets
from tests.real_kafka.cluster import DEFAULT_VERSION
from tests.real_kafka.nodes import kafka_uuid
from tests.real_kafka.patience import PATIENCE_S, until_taken, wait_until
from tests.real_kafka.settings import DEFAULTS, JVM, LOGGING

CONTROLLER, BROKERS, HURT = 100, (1, 2), 2
TWO_COPIES = {
    "default.replication.factor": "2",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "2",
}
TOPICS = {"orders": (4, 2), "lone": (2, 1)}
"""Topic -> partitions, replicas."""


class Nodes:
    """The controller and the brokers, each a process of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cluster_id, self._directory_id = kafka_uuid(), kafka_uuid()
        self._ports = {node: processes.free_port() for node in (CONTROLLER, *BROKERS)}
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.bootstrap = ",".join(f"127.0.0.1:{self._ports[b]}" for b in BROKERS)

    def format(self) -> None:
        """Writes the configuration, and formats every directory."""
        option, text = LOGGING["log4j2"]
        (self.root / "logging.properties").write_text(text)
        self._java = ["java", *JVM, f"{option}{self.root / 'logging.properties'}", "-cp", classpath(DEFAULT_VERSION)]
        (self.root / "config").mkdir()
        for node in (CONTROLLER, *BROKERS):
            config = self.root / "config" / f"server-{node}.properties"
            config.write_text("".join(f"{name}={value}\n" for name, value in self._properties(node).items()))
            voters = f"{CONTROLLER}@127.0.0.1:{self._ports[CONTROLLER]}:{self._directory_id}"
            own = ["--initial-controllers", voters] if node == CONTROLLER else []
            command = [*self._java, "kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(config), *own]
            subprocess.run(command, check=True, capture_output=True)

    def start(self) -> None:
        """Starts all, and waits until the brokers know each other."""
        for node in (CONTROLLER, *BROKERS):
            command = [*self._java, "kafka.Kafka", str(self.root / "config" / f"server-{node}.properties")]
            with (self.root / f"node-{node}.log").open("ab") as log:
                self._running[node] = processes.start(
                    command, output=log, env={**os.environ, "LOG_DIR": str(self.root)}
                )
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

        def known() -> bool:
            try:
                return set(self.admin.list_topics(timeout=10).brokers) == set(BROKERS)
            except KafkaException:
                return False

        wait_until(known, what="the brokers to know each other")

    def stop(self) -> None:
        """SIGTERM: the brokers first, which need a controller to leave in good order."""
        for nodes in (BROKERS, (CONTROLLER,)):
            for node in nodes:
                self._running[node].send_signal(signal.SIGTERM)
            for node in nodes:
                self._running[node].wait(timeout=PATIENCE_S)

    def log_dirs(self, node: int) -> list[Path]:
        """Every directory of a node."""
        home = self.root / f"broker-{node}"
        return [home] if node == CONTROLLER else [home / "d1", home / "d2", home / "meta"]

    def _properties(self, node: int) -> Mapping[str, str]:
        address, log_dirs = f"127.0.0.1:{self._ports[node]}", self.log_dirs(node)
        shared = {
            "node.id": str(node),
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._ports[CONTROLLER]}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
        name = "CONTROLLER" if node == CONTROLLER else "EXTERNAL"
        own = {
            "process.roles": "controller" if node == CONTROLLER else "broker",
            "listeners": f"{name}://{address}",
            "advertised.listeners": f"{name}://{address}",
            "log.dirs": ",".join(map(str, log_dirs[:2])),
        }
        if node != CONTROLLER:
            own |= {"inter.broker.listener.name": "EXTERNAL", "metadata.log.dir": str(log_dirs[2])}
        return {**shared, **own, **DEFAULTS, **TWO_COPIES}


def make(target: Path) -> None:
    """Runs the nodes and writes the archives."""
    with tempfile.TemporaryDirectory(prefix="tidegauge-golden-") as directory:
        nodes = Nodes(Path(directory))
        nodes.format()
        nodes.start()
        new = [NewTopic(topic, partitions, replicas) for topic, (partitions, replicas) in TOPICS.items()]
        for created in nodes.admin.create_topics(new, operation_timeout=30).values():
            created.result(timeout=60)
        acknowledged = produce(nodes, 200)
        commit_offsets(nodes.bootstrap, "readers", {("orders", 0): 150, ("lone", 1): 100})
        fail(nodes.log_dirs(HURT)[1])
        wait_until(lambda: _out_of_isr(nodes), what="the controller to hear of the disk")
        # What the broker's own metadata log has known for a minute is settled.
        until = time.monotonic() + 70
        while time.monotonic() < until:
            acknowledged += produce(nodes, 20)
            time.sleep(5)
        truth = {
            "what": "brokers 1 and 2 with two log dirs and a metadata.log.dir each, a controller that is no broker; "
            "disk d2 of broker 2 failed, and what it held is not in the copy",
            "cluster_id": nodes.cluster_id,
            "kafka": DEFAULT_VERSION,
            "failed": {"broker": HURT, "log_dir": "d2"},
            "acknowledged": acknowledged,
            "partitions": _described(nodes),
        }
        pack(nodes, truth | {"state": "alive, no traffic"}, target / "disk-failed.tar.gz")
        nodes.stop()
        pack(nodes, truth | {"state": "all nodes cleanly stopped"}, target / "disk-failed-stopped.tar.gz")


def produce(nodes: Nodes, count: int) -> int:
    """Writes so many records to each partition that has a leader, and returns how many were acknowledged."""
    taken = 0

    def told(error: object, _: object) -> None:
        nonlocal taken
        taken += error is None

    producer = Producer({"bootstrap.servers": nodes.bootstrap, "enable.idempotence": True, "log_level": 0})
    for topic, known in nodes.admin.list_topics(timeout=10).topics.items():
        for partition, state in known.partitions.items() if topic in TOPICS else ():
            for number in range(count if state.leader != -1 else 0):
                producer.produce(topic, partition=partition, value=b"%060d" % number, on_delivery=told)
                if number % 10 == 9:
                    producer.flush(60)
    producer.flush(60)
    return taken


def fail(log_dir: Path) -> None:
    """Where the directory was there is a file now, so that the next checkpoint cannot be written."""
    log_dir.rename(log_dir.with_name("failed"))
    log_dir.write_text("")


def _out_of_isr(nodes: Nodes) -> bool:
    try:
        topics = nodes.admin.list_topics(timeout=10).topics
    except KafkaException:
        return False
    return any(HURT in p.replicas and HURT not in p.isrs for t in TOPICS for p in topics[t].partitions.values())


def _described(nodes: Nodes) -> list[dict[str, Any]]:
    """What the brokers say of each partition."""
    found: list[dict[str, Any]] = []
    for topic, known in sorted(nodes.admin.list_topics(timeout=10).topics.items()):
        for partition, state in sorted(known.partitions.items()):
            row = {"leader": state.leader, "replicas": sorted(state.replicas), "isr": sorted(state.isrs)}
            found.append({"topic": topic, "partition": partition, **row, "end": _end(nodes, topic, partition, state)})
    return found


def _end(nodes: Nodes, topic: str, partition: int, state: Any) -> int | None:
    if state.leader == -1:
        return None
    where = TopicPartition(topic, partition)
    ends: list[int] = []
    until_taken(
        lambda: ends.append(nodes.admin.list_offsets({where: OffsetSpec.latest()})[where].result(timeout=60).offset)
    )
    return ends[0]


def pack(nodes: Nodes, truth: Mapping[str, Any], archive: Path) -> None:
    """A plain copy of every directory that can still be read."""
    (nodes.root / "GROUND_TRUTH.json").write_text(json.dumps(truth, indent=1) + "\n")
    kept = [f"broker-{node}" for node in (CONTROLLER, *BROKERS)]
    subprocess.run(
        ["tar", "--sparse", "--use-compress-program=gzip -9n", "--owner=0", "--group=0", "--sort=name",
         f"--exclude=broker-{HURT}/failed", f"--exclude=broker-{HURT}/d2", "-cf", str(archive), "-C", str(nodes.root),
         *kept, "config", "GROUND_TRUTH.json"],
        check=True,
    )  # fmt: skip


if __name__ == "__main__":
    make(Path(sys.argv[1]))
