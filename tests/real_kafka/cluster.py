"""A real Kafka cluster for the tests: brokers, each behind a proxy, and controllers, on this machine.

In: a directory, a version (a pom beside `tests/java/libraries.py`), a topology, settings. Out: a running cluster whose
nodes can be killed, paused, restarted and cut off. Everything that is started here is stopped, and each node's own
words stay in `logs/broker-<id>.log`. A node is a broker, a controller, or both; its directories are below
`broker-<id>/`. Where no node is a controller, a ZooKeeper stands beside the brokers; one may be added later.

    clients ---EXTERNAL---> broker <---INTERNAL--- proxy <--- the other brokers (replication)
                            broker <---CONTROLLER------------ the quorum, which a cut does not reach
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from tests.java.libraries import classpath, jars
from tests.real_kafka import processes
from tests.real_kafka.leader_requests import delete_records, end_offset, new_admin
from tests.real_kafka.nodes import Keeper, Node, first_voters, kafka_uuid, properties
from tests.real_kafka.patience import PATIENCE_S, until_taken, wait_until
from tests.real_kafka.proxy import METADATA_FETCHERS, Proxy
from tests.real_kafka.settings import DEFAULTS, JVM, LOGGING
from tests.real_kafka.topology import NodePlan, combined
from tests.real_kafka.zookeeper import ZooKeeper

DEFAULT_VERSION: Final = "kafka-4.4"
TOOLS: Final = "kafka-tools-4.3"
_STATIC_QUORUM: Final = frozenset({"kafka-3.9"})
"""Formatted with `controller.quorum.voters`, as clusters of that time were."""
STOP_S: Final = 2 * PATIENCE_S
"""One whose quorum has gone before it waits five minutes for a controller to let it go (BrokerServer#shutdown)."""
_STARTED: Final = re.compile(rb"Kafka Server started|KafkaServer id=\d+\] started")
"""In these words, or with a ZooKeeper in those."""


class KafkaCluster:
    """Use as a context manager: it formats and starts the brokers, and stops everything in the end."""

    def __init__(
        self,
        directory: Path,
        *,
        version: str = DEFAULT_VERSION,
        topology: Sequence[NodePlan] = combined(3),
        static_quorum: bool | None = None,
        settings: Mapping[str, str] | None = None,
        jvm: Sequence[str] = JVM,
    ) -> None:
        self.directory = directory
        self.version = version
        self.cluster_id = kafka_uuid()
        self._settings, self._jvm = {**DEFAULTS, **(settings or {})}, tuple(jvm)
        self._static_quorum = version in _STATIC_QUORUM if static_quorum is None else static_quorum
        self._stack = ExitStack()
        self._nodes: dict[int, Node] = {}
        self._admin: AdminClient | None = None
        self._zookeeper = None if any(p.is_controller for p in topology) else ZooKeeper(directory / "zookeeper")
        (directory / "logs").mkdir(parents=True, exist_ok=True)
        (directory / "config").mkdir(exist_ok=True)
        for plan in topology:
            self._add(plan, Keeper.QUORUM if self._zookeeper is None else Keeper.ZOOKEEPER)

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
        """Writes the configuration and formats every node's directories, all at once."""
        (self.directory / "config" / "logging.properties").write_text(LOGGING[self._logs_with()][1])
        self.configure({})
        if self._zookeeper is None:
            self._format(*self._nodes.values())
        else:  # Its brokers need no formatting, and it gives the cluster its id.
            self._zookeeper.start(self._java(), self.directory / "logs" / "zookeeper.log")

    def add(self, plan: NodePlan, keeper: Keeper = Keeper.QUORUM) -> None:
        """One node more, formatted and not started."""
        node = self._add(plan, keeper)
        self.configure({})
        self._format(node)

    def keep_metadata(self, keeper: Keeper, *node_ids: int) -> None:
        """Who keeps these nodes' metadata from their next start on."""
        for node_id in node_ids:
            self._nodes[node_id].keeper = keeper
        self.configure({})

    def close_zookeeper(self) -> None:
        """It is needed no more."""
        assert self._zookeeper is not None
        self._zookeeper.close()
        self._zookeeper = None

    def configure(self, settings: Mapping[str, str | None]) -> None:
        """Other settings of every node, from its next start on; None takes one away."""
        changed = {**self._settings, **settings}
        self._settings = {name: value for name, value in changed.items() if value is not None}
        nodes = list(self._nodes.values())
        connect = None if self._zookeeper is None else self._zookeeper.address
        for node in nodes:
            for name in node.plan.directories:
                (node.root / name).mkdir(parents=True, exist_ok=True)
            text = properties(node, nodes, static=self._static_quorum, zookeeper=connect, settings=self._settings)
            self._config(node).write_text(text)

    def start(self, *node_ids: int) -> None:
        """Starts these nodes (all, if none is named) and waits until they serve."""
        wanted = [self._nodes[node_id] for node_id in node_ids or self._nodes]
        begun = {node.id: self._launch(node) for node in wanted}
        for node in wanted:
            self._wait_started(node, begun[node.id])
        running = {broker_id for broker_id in self.broker_ids if self.is_running(broker_id)}
        wait_until(lambda: running <= self._registered(), what=f"brokers {sorted(running)} to be known to each other")
        if self._zookeeper is not None:
            self.cluster_id = str(self.admin().list_topics(timeout=30).cluster_id)

    def close(self) -> None:
        """Kills what still runs and takes the proxies down. What the brokers wrote stays."""
        for node in self._nodes.values():
            if node.process is not None:
                processes.kill(node.process)
        if self._zookeeper is not None:
            self._zookeeper.close()
        self._stack.close()

    # ------------------------------------------------------------------------------------------------ addresses

    @property
    def node_ids(self) -> list[int]:
        """All nodes, running or not."""
        return list(self._nodes)

    @property
    def broker_ids(self) -> list[int]:
        """All brokers, running or not."""
        return [node.id for node in self._nodes.values() if node.plan.is_broker]

    @property
    def controller_ids(self) -> list[int]:
        """All controllers, running or not, voters or not; some may be brokers, too."""
        return [node.id for node in self._nodes.values() if node.plan.is_controller]

    @property
    def has_quorum(self) -> bool:
        """Whether its brokers have their metadata from a log of its own; else from a ZooKeeper."""
        return all(node.keeper is Keeper.QUORUM for node in self._nodes.values() if node.plan.is_broker)

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""
        return ",".join(self.address(broker_id) for broker_id in self.broker_ids)

    def address(self, broker_id: int) -> str:
        """One broker's address for clients."""
        return f"127.0.0.1:{self._nodes[broker_id].external_port}"

    def controller_address(self, controller_id: int) -> str:
        """One controller's address."""
        return self._nodes[controller_id].controller_address

    def plan(self, node_id: int) -> NodePlan:
        """What a node was meant to be."""
        return self._nodes[node_id].plan

    def root(self, node_id: int) -> Path:
        """Where a node's directories are."""
        return self._nodes[node_id].root.resolve()

    def log_dirs(self, node_id: int) -> list[Path]:
        """One node's log directories."""
        node = self._nodes[node_id]
        return [(node.root / name).resolve() for name in node.plan.log_dirs]

    def directories(self, node_id: int) -> list[Path]:
        """The same, and the metadata log's own directory where there is one."""
        node = self._nodes[node_id]
        return [(node.root / name).resolve() for name in node.plan.directories]

    @property
    def release(self) -> str:
        """The brokers' version in full, as their jar is named."""
        (jar,) = jars(self.version).glob("kafka-server-common-*.jar")
        return jar.stem.rsplit("-", 1)[1]

    def config(self, node_id: int) -> Path:
        """One node's properties file."""
        return self._config(self._nodes[node_id])

    # ------------------------------------------------------------------------------------------------ faults

    def is_running(self, node_id: int) -> bool:
        """Whether its process lives (paused or not)."""
        process = self._nodes[node_id].process
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
                process.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired as error:
                raise RuntimeError(f"broker {broker_id} did not stop:\n{self._last_words(broker_id)}") from error

    def stop_all(self) -> None:
        """A clean shutdown of the whole cluster; controllers of their own go last, for a broker asks before it goes."""
        for those in (self.broker_ids, [i for i in self.node_ids if i not in self.broker_ids]):
            self.stop(*(node_id for node_id in those if self.is_running(node_id)))
        self._admin = None  # One that has lost every broker may not find a group's coordinator again.

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

    def fail_disk(self, broker_id: int, log_dir: Path) -> Path:
        """One log dir is no directory any more; returns where what it held is now. The broker notices at a write."""
        elsewhere = self.directory / "failed" / f"broker-{broker_id}" / log_dir.name
        elsewhere.parent.mkdir(parents=True, exist_ok=True)
        log_dir.rename(elsewhere)
        log_dir.touch()
        return elsewhere

    def cut(self, broker_id: int) -> None:
        """No other broker reaches this one, so nobody can follow it; it still follows others and serves clients."""
        self._nodes[broker_id].proxy.cut()

    def isolate(self, broker_id: int) -> None:
        """The broker follows nobody and nobody follows it; clients and controllers still reach it."""
        self.cut(broker_id)
        for other in self._nodes.values():
            if other.id != broker_id:
                other.proxy.cut_fetcher(broker_id)

    def deafen(self, broker_id: int) -> None:
        """The broker hears no news of the metadata; its heartbeats pass. Its controllers must not be brokers."""
        for controller_id in self.controller_ids:
            assert not self.plan(controller_id).is_broker
            self._nodes[controller_id].proxy.cut_fetcher(broker_id)

    def unfollow(self, broker_id: int, *, by: Iterable[int] | None = None) -> None:
        """These brokers (all, if none is named) do not fetch from this one; what else they ask of it passes."""
        for other in self.broker_ids if by is None else by:
            self._nodes[broker_id].proxy.cut_fetcher(other)

    def follow(self, broker_id: int) -> None:
        """Ends `unfollow`."""
        for other in self.broker_ids:
            self._nodes[broker_id].proxy.heal(other)

    def heal(self, broker_id: int) -> None:
        """Ends `cut` and `isolate` of this broker."""
        self._nodes[broker_id].proxy.heal()
        for other in self._nodes.values():
            other.proxy.heal(broker_id)

    # ------------------------------------------------------------------------------------------------ asking, waiting

    def admin(self) -> AdminClient:
        """An admin client, one for the cluster's life."""
        if self._admin is None:
            self._admin = new_admin(self.bootstrap)
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
        delete_records(self.bootstrap, topic, partition, before_offset)

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

    def end_offset(self, topic: str, partition: int) -> int:
        """The partition's high watermark, as its leader tells it."""
        return end_offset(self.bootstrap, topic, partition)

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

    def wait_said(self, node_id: int, words: str) -> None:
        """Waits until a node's own log says so."""
        wait_until(lambda: words in self._log(node_id).read_text(errors="replace"), what=f"node {node_id}: {words}")

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

    def _add(self, plan: NodePlan, keeper: Keeper) -> Node:
        internal_port, controller_port = processes.free_port(), processes.free_port()
        proxy = Proxy(internal_port) if plan.is_broker else Proxy(controller_port, fetchers=METADATA_FETCHERS)
        self._nodes[plan.id] = node = Node(
            plan=plan,
            root=self.directory / f"broker-{plan.id}",
            external_port=processes.free_port(),
            internal_port=internal_port,
            controller_port=controller_port,
            directory_id=kafka_uuid(),
            keeper=keeper,
            proxy=self._stack.enter_context(proxy),
        )
        return node

    def _format(self, *those: Node) -> None:
        """All at once."""
        formatting, nodes = [], list(self._nodes.values())
        for node in those:
            voters = [] if self._static_quorum else first_voters(node, nodes)
            arguments = ["format", "-t", self.cluster_id, "-c", str(self._config(node)), *voters]
            command = [*self._java(), "kafka.tools.StorageTool", *arguments]
            formatting.append((node, processes.start(command, output=subprocess.PIPE)))
        for node, process in formatting:
            said, _ = process.communicate(timeout=PATIENCE_S)
            if process.returncode != 0:
                raise RuntimeError(f"node {node.id} of {self.version} could not be formatted:\n{said.decode()}")

    def _logs_with(self) -> str:
        return "log4j" if self.version == "kafka-3.9" else "log4j2"

    def _java(self) -> list[str]:
        logging = f"{LOGGING[self._logs_with()][0]}{self.directory / 'config' / 'logging.properties'}"
        return ["java", *self._jvm, logging, "-cp", classpath(self.version)]

    def _config(self, node: Node) -> Path:
        return self.directory / "config" / f"server-{node.id}.properties"

    def _log(self, broker_id: int) -> Path:
        return self.directory / "logs" / f"broker-{broker_id}.log"

    def _launch(self, node: Node) -> int:
        """Starts the process; returns where in its log this life begins."""
        if self.is_running(node.id):
            raise RuntimeError(f"node {node.id} already runs")
        command = [*self._java(), "kafka.Kafka", str(self._config(node))]
        with self._log(node.id).open("ab") as log:
            begun = log.tell()
            node.process = processes.start(command, output=log, env={**os.environ, "LOG_DIR": str(self.directory)})
        return begun

    def _wait_started(self, node: Node, begun: int) -> None:
        def started() -> bool:
            if not self.is_running(node.id):
                raise RuntimeError(f"node {node.id} died while it started:\n{self._last_words(node.id)}")
            with self._log(node.id).open("rb") as log:
                log.seek(begun)
                return _STARTED.search(log.read()) is not None

        wait_until(started, what=f"node {node.id} to start")

    def _registered(self) -> set[int]:
        try:
            return set(self.admin().list_topics(timeout=10).brokers)
        except KafkaException:
            return set()

    def _running(self, broker_id: int) -> "subprocess.Popen[bytes]":
        process = self._nodes[broker_id].process
        if process is None or process.poll() is not None:
            raise RuntimeError(f"broker {broker_id} does not run:\n{self._last_words(broker_id)}")
        return process

    def _last_words(self, broker_id: int) -> str:
        log = self._log(broker_id)
        return log.read_text(errors="replace")[-3000:] if log.exists() else "(it has written nothing)"
