"""A real Kafka cluster for the tests: brokers that are also the controllers, each behind a proxy, on this machine.

In: a directory, a version (a pom beside `tests/java/libraries.py`), settings. Out: a running cluster whose brokers can
be killed, paused, restarted and cut off. The rule that must hold: everything that is started here is stopped, and each
broker's own words stay in `logs/broker-<id>.log`.

    clients ---EXTERNAL---> broker <---INTERNAL--- proxy <--- the other brokers (replication)
                            broker <---CONTROLLER------------ the quorum, which a cut does not reach
"""

import base64
import os
import signal
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from tests.java.libraries import classpath, jars
from tests.real_kafka import processes
from tests.real_kafka.patience import PATIENCE_S, until_taken, wait_until
from tests.real_kafka.proxy import Proxy
from tests.real_kafka.settings import DEFAULTS, JVM, LOGGING

DEFAULT_VERSION: Final = "kafka-4.4"
TOOLS: Final = "kafka-tools-4.3"
_STATIC_QUORUM: Final = frozenset({"kafka-3.9"})
"""Formatted with `controller.quorum.voters`, as clusters of that time were."""
_STARTED: Final = b"Kafka Server started"


@dataclass(slots=True, kw_only=True)
class _Broker:
    id: int
    external_port: int
    internal_port: int
    controller_port: int
    directory_id: str
    log_dirs: list[Path]
    proxy: Proxy
    process: "subprocess.Popen[bytes] | None" = None


class KafkaCluster:
    """Use as a context manager: it formats and starts the brokers, and stops everything in the end."""

    def __init__(
        self,
        directory: Path,
        *,
        version: str = DEFAULT_VERSION,
        nodes: int = 3,
        log_dirs: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.version = version
        self.cluster_id = _kafka_uuid()
        self._settings = {**DEFAULTS, **(settings or {})}
        self._stack = ExitStack()
        self._brokers: dict[int, _Broker] = {}
        self._admin: AdminClient | None = None
        (directory / "logs").mkdir(parents=True, exist_ok=True)
        (directory / "config").mkdir(exist_ok=True)
        for broker_id in range(1, nodes + 1):
            internal_port = processes.free_port()
            names = ["."] if log_dirs == 1 else [f"d{number}" for number in range(1, log_dirs + 1)]
            self._brokers[broker_id] = _Broker(
                id=broker_id,
                external_port=processes.free_port(),
                internal_port=internal_port,
                controller_port=processes.free_port(),
                directory_id=_kafka_uuid(),
                log_dirs=[directory / f"broker-{broker_id}" / name for name in names],
                proxy=self._stack.enter_context(Proxy(internal_port)),
            )

    # ------------------------------------------------------------------------------------------------ life

    def __enter__(self) -> "KafkaCluster":
        try:
            self.format()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def format(self) -> None:
        """Writes the configuration and formats every broker's log dirs, all at once."""
        (self.directory / "config" / "logging.properties").write_text(LOGGING[self._logs_with()][1])
        formatting = []
        for broker in self._brokers.values():
            for log_dir in broker.log_dirs:
                log_dir.mkdir(parents=True, exist_ok=True)
            self._config(broker).write_text(self._properties(broker))
            arguments = ["format", "-t", self.cluster_id, "-c", str(self._config(broker))]
            if not self._static_quorum:
                voters = (f"{b.id}@127.0.0.1:{b.controller_port}:{b.directory_id}" for b in self._brokers.values())
                arguments += ["--initial-controllers", ",".join(voters)]
            command = [*self._java(), "kafka.tools.StorageTool", *arguments]
            formatting.append((broker, processes.start(command, output=subprocess.PIPE)))
        for broker, process in formatting:
            said, _ = process.communicate(timeout=PATIENCE_S)
            if process.returncode != 0:
                raise RuntimeError(f"broker {broker.id} of {self.version} could not be formatted:\n{said.decode()}")

    def start(self, *broker_ids: int) -> None:
        """Starts these brokers (all, if none is named) and waits until they serve."""
        wanted = [self._brokers[broker_id] for broker_id in broker_ids or self._brokers]
        begun = {broker.id: self._launch(broker) for broker in wanted}
        for broker in wanted:
            self._wait_started(broker, begun[broker.id])
        running = {broker.id for broker in self._brokers.values() if self.is_running(broker.id)}
        wait_until(lambda: running <= self._registered(), what=f"brokers {sorted(running)} to be known to each other")

    def close(self) -> None:
        """Kills what still runs and takes the proxies down. What the brokers wrote stays."""
        for broker in self._brokers.values():
            if broker.process is not None:
                processes.kill(broker.process)
        self._stack.close()

    # ------------------------------------------------------------------------------------------------ addresses

    @property
    def broker_ids(self) -> list[int]:
        """All brokers, running or not."""
        return list(self._brokers)

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""
        return ",".join(self.address(broker_id) for broker_id in self._brokers)

    def address(self, broker_id: int) -> str:
        """One broker's address for clients."""
        return f"127.0.0.1:{self._brokers[broker_id].external_port}"

    def log_dirs(self, broker_id: int) -> list[Path]:
        """One broker's log directories."""
        return [log_dir.resolve() for log_dir in self._brokers[broker_id].log_dirs]

    @property
    def release(self) -> str:
        """The brokers' version in full, as their jar is named."""
        (jar,) = jars(self.version).glob("kafka-server-common-*.jar")
        return jar.stem.rsplit("-", 1)[1]

    def config(self, broker_id: int) -> Path:
        """One broker's properties file."""
        return self._config(self._brokers[broker_id])

    # ------------------------------------------------------------------------------------------------ faults

    def is_running(self, broker_id: int) -> bool:
        """Whether its process lives (paused or not)."""
        process = self._brokers[broker_id].process
        return process is not None and process.poll() is None

    def kill(self, *broker_ids: int) -> None:
        """SIGKILL, all in the same instant."""
        running = [self._running(broker_id) for broker_id in broker_ids]
        for process in running:
            process.send_signal(signal.SIGKILL)
        for process in running:
            process.wait()

    def stop(self, *broker_ids: int) -> None:
        """SIGTERM to all of these at once, and waits for their clean shutdown."""
        running = {broker_id: self._running(broker_id) for broker_id in broker_ids}
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for broker_id, process in running.items():
            try:
                process.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired as error:
                raise RuntimeError(f"broker {broker_id} did not stop:\n{self._last_words(broker_id)}") from error

    def stop_all(self) -> None:
        """A clean shutdown of the whole cluster."""
        self.stop(*(broker_id for broker_id in self._brokers if self.is_running(broker_id)))

    def restart(self, broker_id: int) -> None:
        """A clean stop, if it runs, and a start."""
        if self.is_running(broker_id):
            self.stop(broker_id)
        self.start(broker_id)

    def pause(self, broker_id: int) -> None:
        """SIGSTOP."""
        self._running(broker_id).send_signal(signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self._running(broker_id).send_signal(signal.SIGCONT)

    def cut(self, broker_id: int) -> None:
        """No other broker reaches this one, so nobody can follow it; it still follows others and serves clients."""
        self._brokers[broker_id].proxy.cut()

    def isolate(self, broker_id: int) -> None:
        """The broker follows nobody and nobody follows it; clients and controllers still reach it."""
        self.cut(broker_id)
        for other in self._brokers.values():
            if other.id != broker_id:
                other.proxy.cut_fetcher(broker_id)

    def heal(self, broker_id: int) -> None:
        """Ends `cut` and `isolate` of this broker."""
        self._brokers[broker_id].proxy.heal()
        for other in self._brokers.values():
            other.proxy.heal(broker_id)

    # ------------------------------------------------------------------------------------------------ asking, waiting

    def admin(self) -> AdminClient:
        """An admin client, one for the cluster's life."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int = 3,
        assignment: list[list[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Creates a topic and waits for its leaders. With an assignment, each partition's first replica leads."""
        placed = {"replica_assignment": assignment} if assignment else {"replication_factor": replication_factor}
        count = len(assignment) if assignment else partitions
        new = NewTopic(topic, num_partitions=count, config=dict(config or {}), **placed)
        until_taken(
            lambda: self.admin().create_topics([new], operation_timeout=30)[topic].result(timeout=60),
            already=(KafkaError.TOPIC_ALREADY_EXISTS,),
        )
        for partition in range(count):
            self.wait_leader(topic, partition, None)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Moves a partition's log start (DeleteRecords)."""
        where = TopicPartition(topic, partition, before_offset)
        until_taken(lambda: self.admin().delete_records([where])[where].result(timeout=60))

    def delete_topic(self, topic: str) -> None:
        """Deletes a topic and waits until no broker lists it."""
        until_taken(
            lambda: self.admin().delete_topics([topic], operation_timeout=30)[topic].result(timeout=60),
            already=(KafkaError.UNKNOWN_TOPIC_OR_PART,),
        )

        def gone() -> bool:
            try:
                return topic not in self.admin().list_topics(timeout=10).topics
            except KafkaException:
                return False

        wait_until(gone, what=f"{topic} to be gone")

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        """What the brokers say of a partition: leader, replicas, isrs. None as long as they do not know it."""
        try:
            found = self.admin().list_topics(topic, timeout=10).topics[topic].partitions.get(partition)
        except (KafkaException, KeyError):
            return None
        return found if found is not None and found.leader != -1 else None

    def leader(self, topic: str, partition: int) -> int:
        """The partition's leader; waits until there is one."""
        return self.wait_leader(topic, partition, None)

    def wait_leader(self, topic: str, partition: int, leader_id: int | None) -> int:
        """Waits until this broker (None: any) leads, and returns the leader."""

        def led() -> int | None:
            found = self.partition(topic, partition)
            return found.leader if found is not None and leader_id in (None, found.leader) else None

        return wait_until(led, what=f"leader {leader_id or 'any'} of {topic}-{partition}")

    def wait_other_leader(self, topic: str, partition: int, than: int) -> int:
        """Waits until another broker than this one leads, and returns it."""

        def led() -> int | None:
            found = self.partition(topic, partition)
            return found.leader if found is not None and found.leader != than else None

        return wait_until(led, what=f"another leader of {topic}-{partition} than {than}")

    def wait_isr(self, topic: str, partition: int, isr: Iterable[int]) -> None:
        """Waits until exactly these brokers are in sync."""
        wanted = set(isr)

        def in_sync() -> bool:
            found = self.partition(topic, partition)
            return found is not None and set(found.isrs) == wanted

        wait_until(in_sync, what=f"ISR {sorted(wanted)} of {topic}-{partition}")

    def wait_all_in_sync(self, *, but: Iterable[int] = ()) -> None:
        """Waits until the ISR of every partition is its replicas, apart from these brokers."""
        away = set(but)

        def in_sync() -> bool:
            try:
                topics = self.admin().list_topics(timeout=10).topics.values()
            except KafkaException:
                return False
            return all(
                p.leader != -1 and set(p.isrs) == set(p.replicas) - away for t in topics for p in t.partitions.values()
            )

        wait_until(in_sync, what="every replica to be in sync")

    def tool(self, class_name: str, *arguments: str, timeout_s: float = PATIENCE_S) -> str:
        """Runs one of Kafka's own command-line tools (`org.apache.kafka.tools…`) and returns what it printed."""
        logging = self.directory / "config" / "tools-logging.properties"
        logging.write_text(LOGGING["tools"][1])
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dlog4j2.configurationFile={logging}", "-cp", classpath(TOOLS), class_name, *arguments]
        process = processes.start(command, output=subprocess.PIPE)
        try:
            said = process.communicate(timeout=timeout_s)[0].decode("utf-8", "replace")
        finally:
            processes.kill(process)
        if process.returncode != 0:
            raise RuntimeError(f"{class_name} {' '.join(arguments)} ended with {process.returncode}:\n{said[-3000:]}")
        return said

    # ------------------------------------------------------------------------------------------------ inside

    @property
    def _static_quorum(self) -> bool:
        return self.version in _STATIC_QUORUM

    def _logs_with(self) -> str:
        return "log4j" if self.version == "kafka-3.9" else "log4j2"

    def _java(self) -> list[str]:
        logging = f"{LOGGING[self._logs_with()][0]}{self.directory / 'config' / 'logging.properties'}"
        return ["java", *JVM, logging, "-cp", classpath(self.version)]

    def _config(self, broker: _Broker) -> Path:
        return self.directory / "config" / f"server-{broker.id}.properties"

    def _properties(self, broker: _Broker) -> str:
        controllers = [(b.id, f"127.0.0.1:{b.controller_port}") for b in self._brokers.values()]
        if self._static_quorum:
            quorum = {"controller.quorum.voters": ",".join(f"{i}@{address}" for i, address in controllers)}
        else:
            quorum = {"controller.quorum.bootstrap.servers": ",".join(address for _, address in controllers)}
        own = {
            "process.roles": "broker,controller",
            "node.id": str(broker.id),
            **quorum,
            "listeners": f"EXTERNAL://127.0.0.1:{broker.external_port},INTERNAL://127.0.0.1:{broker.internal_port},"
            f"CONTROLLER://127.0.0.1:{broker.controller_port}",
            "advertised.listeners": f"EXTERNAL://127.0.0.1:{broker.external_port},"
            f"INTERNAL://127.0.0.1:{broker.proxy.port},CONTROLLER://127.0.0.1:{broker.controller_port}",
            "listener.security.protocol.map": "EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(map(str, broker.log_dirs)),
        }
        return "".join(f"{name}={value}\n" for name, value in {**own, **self._settings}.items())

    def _log(self, broker_id: int) -> Path:
        return self.directory / "logs" / f"broker-{broker_id}.log"

    def _launch(self, broker: _Broker) -> int:
        """Starts the process; returns where in its log this life begins."""
        if self.is_running(broker.id):
            raise RuntimeError(f"broker {broker.id} already runs")
        command = [*self._java(), "kafka.Kafka", str(self._config(broker))]
        with self._log(broker.id).open("ab") as log:
            begun = log.tell()
            broker.process = processes.start(command, output=log, env={**os.environ, "LOG_DIR": str(self.directory)})
        return begun

    def _wait_started(self, broker: _Broker, begun: int) -> None:
        def started() -> bool:
            if not self.is_running(broker.id):
                raise RuntimeError(f"broker {broker.id} died while it started:\n{self._last_words(broker.id)}")
            with self._log(broker.id).open("rb") as log:
                log.seek(begun)
                return _STARTED in log.read()

        wait_until(started, what=f"broker {broker.id} to start")

    def _registered(self) -> set[int]:
        try:
            return set(self.admin().list_topics(timeout=10).brokers)
        except KafkaException:
            return set()

    def _running(self, broker_id: int) -> "subprocess.Popen[bytes]":
        process = self._brokers[broker_id].process
        if process is None or process.poll() is not None:
            raise RuntimeError(f"broker {broker_id} does not run:\n{self._last_words(broker_id)}")
        return process

    def _last_words(self, broker_id: int) -> str:
        log = self._log(broker_id)
        return log.read_text(errors="replace")[-3000:] if log.exists() else "(it has written nothing)"


def _kafka_uuid() -> str:
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass  # A tool would take it for an option.
    return text
