"""Asking a running cluster about itself, through the Admin API.

In: bootstrap servers and how to reach them. Out: `ClusterAnswers`. Every question has an end in time, and one that
fails (a broker that is down, a right that is missing) leaves its reason and not its silence; only a cluster that cannot
be reached at all is an error.

confluent-kafka asks all but two questions. Producers and transactions have no call there (librdkafka has none), so
kafka-python asks these (`snapshots.ask_producers`). Both are imported when they are needed: to read a snapshot takes
neither.

The order is part of the answer. Offsets are asked before the ISR: a member of the ISR then holds everything below a
high watermark asked earlier.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.kafka_log.java_hash import coordinator_partition
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.ask_producers import ask_producers_and_transactions, now_ms
from tidegauge.snapshots.client_config import ClientConfig
from tidegauge.snapshots.cluster_answers import (
    BROKER_CONFIG,
    CLUSTER_CONFIG,
    DEFAULT_CONFIG,
    STATIC_CONFIG,
    TOPIC_CONFIG,
    BrokerAnswer,
    ClusterAnswers,
    CommittedAnswer,
    ConfigAnswer,
    GroupAnswer,
    PartitionAnswer,
    TopicAnswer,
)
from tidegauge.snapshots.errors import ClusterError

TIMEOUT_S: Final = 10.0
"""How long one question may take."""

_SOURCES: Final = {1: TOPIC_CONFIG, 2: BROKER_CONFIG, 3: CLUSTER_CONFIG, 4: STATIC_CONFIG, 5: DEFAULT_CONFIG}
"""By ConfigSource's number."""
_TOPICS_AT_ONCE: Final = 500
_GROUPS_WITH_OFFSETS: Final = ("classic", "consumer", "streams", "unknown")
_SILENT: Final = logging.getLogger("tidegauge.librdkafka")


def connect(bootstrap: str, config: ClientConfig | None = None, *, timeout_s: float = TIMEOUT_S) -> str | None:
    """Makes sure that the cluster answers; its cluster id. Raises `ClusterError` if it doesn't."""
    _, metadata = _reached(bootstrap, config or ClientConfig(), timeout_s)
    return metadata.cluster_id or None


def ask(bootstrap: str, config: ClientConfig | None = None, *, timeout_s: float = TIMEOUT_S) -> ClusterAnswers:
    """Asks everything once. Raises `ClusterError` if the cluster cannot be reached."""
    config = config or ClientConfig()
    started = now_ms()
    client, metadata = _reached(bootstrap, config, timeout_s)
    round_ = _Round(client, metadata, timeout_s)
    offsets = round_.offsets()
    producers, transactions, unanswered, asked = ask_producers_and_transactions(
        bootstrap, config, leaders=round_.leaders(), brokers=list(metadata.brokers), timeout_s=timeout_s
    )
    if transactions is not None:
        transactions = tuple(
            replace(t, state_partition=round_.keeper(TRANSACTION_STATE, t.transactional_id)) for t in transactions
        )
    groups = round_.groups()
    topics = round_.topics(offsets, producers)
    brokers = round_.brokers()
    return ClusterAnswers(
        started_at_ms=started,
        finished_at_ms=now_ms(),
        cluster_id=metadata.cluster_id or None,
        controller_id=metadata.controller_id if metadata.controller_id >= 0 else None,
        brokers=brokers,
        topics=topics,
        groups=groups,
        transactions=transactions,
        asked_at_ms={**round_.asked_at_ms, **asked},
        unanswered={**round_.unanswered, **unanswered},
    )


def _reached(bootstrap: str, config: ClientConfig, timeout_s: float) -> tuple[Any, Any]:
    """An admin client and the cluster's metadata."""
    from confluent_kafka import KafkaException

    said: list[str] = []
    _SILENT.propagate = False
    _SILENT.handlers = [logging.NullHandler()]
    properties: dict[str, Any] = {
        "client.id": "tidegauge",
        **config.librdkafka,
        "bootstrap.servers": bootstrap,
        "error_cb": lambda error: said.append(error.str()),
        "log_level": 0,
    }
    try:
        client = _admin().AdminClient(properties, logger=_SILENT)
    except KafkaException as error:
        raise ClusterError(
            f"{bootstrap} cannot be asked: the client's settings are refused ({_reason(error)}). "
            "Correct the file given by --client-config."
        ) from None
    try:
        return client, client.list_topics(timeout=timeout_s)
    except KafkaException as error:
        client.poll(0)
        last = next((s for s in reversed(said) if "brokers are down" not in s), None)
        raise ClusterError(
            f"No broker of {bootstrap} answers within {timeout_s:g} s: {last or _reason(error)}. Check the address, "
            "that its listener is reachable from here, and --client-config if it wants TLS or a password; or capture "
            "without --bootstrap."
        ) from None


class _Round:
    """One round of questions to confluent-kafka's admin client."""

    def __init__(self, client: Any, metadata: Any, timeout_s: float) -> None:
        self.client, self.metadata, self.timeout_s = client, metadata, timeout_s
        self.asked_at_ms: dict[str, int] = {"metadata": now_ms()}
        self.unanswered: dict[str, str] = {}

    def leaders(self) -> dict[TopicPartition, int]:
        """Partition -> leader, of those that have one."""
        return {
            TopicPartition(name, number): p.leader
            for name, topic in self.metadata.topics.items()
            for number, p in topic.partitions.items()
            if p.leader >= 0
        }

    def keeper(self, internal_topic: str, name: str) -> int | None:
        """The partition of a coordinator's topic that keeps this name."""
        topic = self.metadata.topics.get(internal_topic)
        return coordinator_partition(name, len(topic.partitions)) if topic is not None and topic.partitions else None

    def offsets(self) -> dict[str, dict[TopicPartition, Any]]:
        """Question -> partition -> (offset, leader epoch), or why not."""
        import confluent_kafka
        from confluent_kafka import IsolationLevel

        self.asked_at_ms["offsets"] = now_ms()
        partitions = sorted(self.leaders())
        earliest, latest = _admin().OffsetSpec.earliest(), _admin().OffsetSpec.latest()
        questions = {
            "log_start_offset": (earliest, IsolationLevel.READ_UNCOMMITTED),
            "last_stable_offset": (latest, IsolationLevel.READ_COMMITTED),
            "high_watermark": (latest, IsolationLevel.READ_UNCOMMITTED),
        }
        # All at once: a leader that does not answer costs one time-out, not three.
        asked = {
            name: self._futures(
                self.client.list_offsets,
                {confluent_kafka.TopicPartition(t, p): spec for t, p in partitions},
                isolation_level=isolation,
            )
            for name, (spec, isolation) in questions.items()
            if partitions
        }
        found: dict[str, dict[TopicPartition, Any]] = {name: {} for name in questions}
        for name, futures in asked.items():
            refused = futures.reason if isinstance(futures, _Refused) else "not answered"
            found[name] = dict.fromkeys(partitions, refused) | {
                TopicPartition(key.topic, key.partition): self._result(future) for key, future in futures.items()
            }
        return found

    def topics(
        self, offsets: Mapping[str, Mapping[TopicPartition, Any]], producers: Mapping[TopicPartition, Any]
    ) -> tuple[TopicAnswer, ...]:
        """The topics, their partitions and their configs."""
        from confluent_kafka import TopicCollection

        self.asked_at_ms["topics"] = now_ms()
        metadata = self._call(self.client.list_topics, timeout=self.timeout_s)
        listed = self.metadata.topics if isinstance(metadata, str) else metadata.topics
        names = sorted(listed)
        described: dict[str, Any] = {}
        for part in _parts(names):
            described |= _every(part, self._futures(self.client.describe_topics, TopicCollection(part)))
        configs = self._configs("TOPIC", names)
        return tuple(
            _topic_answer(listed[name], self._result(described[name]), configs[name], offsets, producers)
            for name in names
        )

    def brokers(self) -> tuple[BrokerAnswer, ...]:
        """The brokers that take part, and their configs."""
        self.asked_at_ms["brokers"] = now_ms()
        nodes = self._result(self._call(self.client.describe_cluster))
        if isinstance(nodes, str):
            self.unanswered["racks"] = nodes
        racks = {} if isinstance(nodes, str) else {n.id: n.rack or None for n in nodes.nodes}
        configs = self._configs("BROKER", [str(b) for b in sorted(self.metadata.brokers)])
        return tuple(
            BrokerAnswer(
                broker_id=broker.id,
                host=broker.host,
                port=broker.port,
                rack=racks.get(broker.id),
                configs=None if isinstance(found := configs[str(broker.id)], str) else found,
                errors={"configs": found} if isinstance(found, str) else {},
            )
            for broker in sorted(self.metadata.brokers.values(), key=lambda b: b.id)
        )

    def groups(self) -> tuple[GroupAnswer, ...] | None:
        """The groups with what they have committed; None if nobody could list them."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        self.asked_at_ms["groups"] = now_ms()
        listed = self._result(self._call(self.client.list_consumer_groups))
        if isinstance(listed, str):
            self.unanswered["groups"] = listed
            return None
        if listed.errors:
            self.unanswered["groups"] = "; ".join(sorted({_reason(e) for e in listed.errors}))
        found = sorted(listed.valid, key=lambda g: g.group_id)
        types = {g.group_id: g.type.name.lower() for g in found}
        asked = [g for g, type_ in types.items() if type_ in _GROUPS_WITH_OFFSETS]
        offsets = {
            group: self._futures(self.client.list_consumer_group_offsets, [ConsumerGroupTopicPartitions(group)])
            for group in asked
        }
        described: dict[str, Any] = {}
        for part in _parts(asked):
            described |= _every(part, self._futures(self.client.describe_consumer_groups, part))
        return tuple(
            _group_answer(
                group,
                self.keeper(CONSUMER_OFFSETS, group.group_id),
                self._result(offsets[group.group_id][group.group_id]) if group.group_id in offsets else None,
                self._result(described[group.group_id]) if group.group_id in described else None,
            )
            for group in found
        )

    def _configs(self, kind: str, names: Iterable[str]) -> dict[str, "dict[str, ConfigAnswer] | str"]:
        """Resource -> its settings, or why not. A broker answers for itself, so each is asked on its own."""
        type_ = getattr(_admin().ResourceType, kind)
        every = list(names)
        asked: dict[str, Any] = {}
        for part in [[n] for n in every] if kind == "BROKER" else _parts(every):
            futures = self._futures(self.client.describe_configs, [_admin().ConfigResource(type_, n) for n in part])
            asked |= _every(part, futures if isinstance(futures, _Refused) else {r.name: f for r, f in futures.items()})
        results = {name: self._result(asked.get(name, "not answered")) for name in every}
        return {name: found if isinstance(found, str) else _settings(found) for name, found in results.items()}

    def _futures(self, question: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What a question gives: futures by key; where it is refused at once, every key leads to the reason."""
        made = self._call(question, *arguments, **options)
        return _Refused(made) if isinstance(made, str) else made

    def _call(self, question: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        from confluent_kafka import KafkaException

        if "timeout" not in options:
            options["request_timeout"] = self.timeout_s
        try:
            return question(*arguments, **options)
        except (KafkaException, ValueError, TypeError) as error:
            return _reason(error)

    def _result(self, future: Any) -> Any:
        """A question's answer, or the reason why there is none as a text."""
        from confluent_kafka import KafkaException

        if not isinstance(future, Future):
            return future
        try:
            return future.result(timeout=self.timeout_s + 1)
        except (KafkaException, TimeoutError, ValueError) as error:
            return _reason(error)


class _Refused(dict[str, str]):
    """No futures: every key leads to the same reason."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def __missing__(self, _: str) -> str:
        return self.reason


def _every(keys: Iterable[str], futures: Any) -> dict[str, Any]:
    """A future, or a reason, for each key."""
    refused = futures.reason if isinstance(futures, _Refused) else "not answered"
    return {key: futures.get(key, refused) for key in keys}


def _admin() -> Any:
    """The library's admin module, of which it exports less than it documents."""
    return import_module("confluent_kafka.admin")


def _topic_answer(
    listed: Any,
    described: Any,
    configs: "dict[str, ConfigAnswer] | str",
    offsets: Mapping[str, Mapping[TopicPartition, Any]],
    producers: Mapping[TopicPartition, Any],
) -> TopicAnswer:
    """A topic, of which only its id needs a description."""
    errors = {"configs": configs} if isinstance(configs, str) else {}
    topic_id = None
    if isinstance(described, str):
        errors["topic_id"] = described
    else:
        # librdkafka writes plain base64, Kafka the form that suits file names.
        topic_id = str(described.topic_id).translate(str.maketrans("+/", "-_")).rstrip("=")
    name = listed.topic
    return TopicAnswer(
        topic=name,
        topic_id=topic_id,
        partitions=tuple(
            _partition_answer(
                p,
                {n: of.get(TopicPartition(name, p.id)) for n, of in offsets.items()},
                producers.get(TopicPartition(name, p.id)),
            )
            for p in sorted(listed.partitions.values(), key=lambda p: p.id)
        ),
        configs=None if isinstance(configs, str) else configs,
        errors=errors,
    )


def _partition_answer(listed: Any, offsets: Mapping[str, Any], producers: Any) -> PartitionAnswer:
    errors = {n: of if isinstance(of, str) else "no answer" for n, of in offsets.items() if of is None or _failed(of)}
    if isinstance(producers, str):
        errors["producers"] = producers
    known = {n: of for n, of in offsets.items() if n not in errors}
    epochs = {of.leader_epoch for of in known.values() if of.leader_epoch is not None}
    high_watermark = known.get("high_watermark")
    return PartitionAnswer(
        partition=listed.id,
        leader_id=listed.leader if listed.leader >= 0 else None,
        leader_epoch=high_watermark.leader_epoch if high_watermark is not None else max(epochs, default=None),
        replicas=tuple(listed.replicas),
        isr=tuple(sorted(listed.isrs)),
        producers=None if isinstance(producers, str) else producers,
        errors=errors,
        **{n: known[n].offset if n in known else None for n in offsets},
    )


def _failed(answer: Any) -> bool:
    return isinstance(answer, str) or answer.offset < 0


def _group_answer(listed: Any, keeper: int | None, offsets: Any, described: Any) -> GroupAnswer:
    errors = {}
    if isinstance(offsets, str):
        errors["offsets"] = offsets
    if isinstance(described, str):
        errors["members"] = described
    committed = None
    if offsets is not None and not isinstance(offsets, str):
        committed = tuple(
            CommittedAnswer(
                topic=p.topic, partition=p.partition, offset=p.offset,
                leader_epoch=p.leader_epoch if p.leader_epoch is not None and p.leader_epoch >= 0 else None,
                metadata=p.metadata or None,
            )
            for p in sorted(offsets.topic_partitions or (), key=lambda p: (p.topic, p.partition))
            if p.offset >= 0 and p.error is None
        )  # fmt: skip
    return GroupAnswer(
        group=listed.group_id,
        type=listed.type.name.lower(),
        state=listed.state.name.lower() if listed.state is not None else None,
        members=len(described.members) if described is not None and not isinstance(described, str) else None,
        offsets=committed,
        offsets_partition=keeper,
        errors=errors,
    )


def _settings(entries: Mapping[str, Any]) -> dict[str, ConfigAnswer]:
    return {
        name: ConfigAnswer(
            value=None if entry.is_sensitive else entry.value,
            source=_SOURCES.get(int(entry.source), "unknown"),
            sensitive=bool(entry.is_sensitive),
        )
        for name, entry in sorted(entries.items())
    }


def _parts(names: list[str]) -> list[list[str]]:
    return [names[at : at + _TOPICS_AT_ONCE] for at in range(0, len(names), _TOPICS_AT_ONCE)]


def _reason(error: Any) -> str:
    """An error of a client as a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    arguments = getattr(error, "args", ())  # What a list of errors holds is no exception.
    first = arguments[0] if arguments else error
    text = first.str() if hasattr(first, "str") else str(first)
    return " ".join(text.split()) or type(error).__name__
