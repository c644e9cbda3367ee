"""Who takes part: brokers, topics, clients.

In: the parts `cluster`, `topics` and `clients` of a file. Out: settings, topics to be created, and for each client the
action with which it begins. A name that nobody has is an error where it is used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import CreateTopic, StartConsumer, StartProducer
from tidegauge.sim_engine.coordinators.coordinator_actions import StartGroupConsumer, StartTransactionalProducer
from tidegauge.sim_engine.network import CONTROLLER, broker_node, client_node
from tidegauge.sim_engine.scenarios.written.places import Place
from tidegauge.sim_engine.settings import Generation, Settings

MOST_BROKERS: Final = 20
MOST_TOPICS: Final = 50
MOST_PARTITIONS: Final = 200
MOST_CLIENTS: Final = 50
LONGEST_MS: Final = 86_400_000
_IDS_A_BROKER: Final = 1_000
"""The controller gives out producer ids in blocks of so many, and a broker of a young cluster has one."""

GENERATIONS: Final = {
    "high-watermark": Generation.HIGH_WATERMARK,
    "kip-101": Generation.KIP_101,
    "kip-279": Generation.KIP_279,
    "kip-320": Generation.KIP_320,
    "elr": Generation.ELR,
}
CODECS: Final = {kind.name.lower(): int(kind) for kind in CompressionType}
_ACKS: Final = {"0": 0, "1": 1, "all": -1}
_BOOLEANS: Final = {"true": "true", "false": "false"}
_POLICIES: Final = {word: word for word in ("delete", "compact", "compact,delete")}
_CHOICES: Final = {
    "cleanup.policy": _POLICIES,
    "unclean.leader.election.enable": _BOOLEANS,
    "remote.storage.enable": _BOOLEANS,
}
_LEAST: Final = {
    "min.insync.replicas": 1,
    "segment.bytes": 500,
    "segment.ms": 1,
    "segment.index.bytes": 100,
    "index.interval.bytes": 0,
    "delete.retention.ms": 0,
    "min.compaction.lag.ms": 0,
    "file.delete.delay.ms": 0,
    "retention.ms": -1,
    "retention.bytes": -1,
    "max.compaction.lag.ms": 1,
    "local.retention.ms": -2,
    "local.retention.bytes": -2,
}
_RATIO: Final = "min.cleanable.dirty.ratio"
_RATIOS: Final = {f"{hundredths / 100:g}": f"{hundredths / 100:g}" for hundredths in range(101)}
CONFIG: Final = (*_CHOICES, *_LEAST, _RATIO)
"""Settings of topics that the simulator knows; another would do nothing, and that must not go unsaid."""

Start = StartProducer | StartConsumer | StartGroupConsumer | StartTransactionalProducer


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """All who take part."""

    brokers: tuple[int, ...]
    topics: Mapping[str, CreateTopic]
    clients: Mapping[str, Start]

    def broker(self, place: Place) -> int:
        """A broker that is named."""
        broker_id = place.whole()
        if broker_id not in self.brokers:
            raise place.error(f"there is no broker {broker_id}. The cluster has {_listed(self.brokers)}.")
        return broker_id

    def some_brokers(self, place: Place) -> tuple[int, ...]:
        """One broker, or a list of them."""
        named = place.items(MOST_BROKERS) if place.is_list else (place,)
        return each_once(place, [self.broker(each) for each in named])

    def partition(self, place: Place) -> TopicPartition:
        """A partition that is named, as `orders-0`."""
        topic, _, number = place.text().rpartition("-")
        created = self.topics.get(topic)
        if created is None or not number.isdecimal() or int(number) >= len(created.assignment):
            there = [f"{t.name}-{n}" for t in self.topics.values() for n in range(len(t.assignment))]
            raise place.error(f"there is no partition {place.text()!r}. There are {_listed(there)}.")
        return TopicPartition(topic, int(number))

    def topic(self, place: Place) -> str:
        """A topic that is named."""
        if place.text() not in self.topics:
            raise place.error(f"there is no topic {place.text()!r}. There are {_listed(self.topics)}.")
        return place.text()

    def client(self, place: Place, *kinds: type) -> str:
        """A client that is named, of one of these kinds."""
        name = place.text()
        if name not in self.clients:
            raise place.error(f"there is no client {name!r}. Under clients are {_listed(self.clients)}.")
        if kinds and not isinstance(self.clients[name], kinds):
            wanted = " or ".join(_KINDS_BY_TYPE[kind] for kind in kinds)
            raise place.error(f"{name} is a {_KINDS_BY_TYPE[type(self.clients[name])]}; this is for a {wanted}.")
        return name

    def node(self, place: Place) -> str:
        """A broker, a client or the controller, as it is called on the network."""
        name = place.text()
        if name == CONTROLLER:
            return CONTROLLER
        return broker_node(self.broker(place)) if name.isdecimal() else client_node(self.client(place))


def each_once(place: Place, brokers: Sequence[int]) -> tuple[int, ...]:
    """Brokers that a list names, none of them twice."""
    if len(set(brokers)) < len(brokers):
        raise place.error("names a broker twice. Leave one of them.")
    return tuple(brokers)


def cluster_of(place: Place) -> tuple[tuple[int, ...], Settings]:
    """Brokers and settings."""
    said = place.mapping(("brokers",), ("generation", "config"))
    brokers = said["brokers"]
    if brokers.is_list:
        ids = each_once(brokers, [each.whole(1, 9_999) for each in brokers.items(MOST_BROKERS)])
    else:
        ids = tuple(range(1, brokers.whole(1, MOST_BROKERS) + 1))
    generation = said["generation"].one_of(GENERATIONS) if "generation" in said else Generation.ELR
    config = _config(said["config"]) if "config" in said else {}
    return ids, Settings(generation=generation, broker_config=config)


def topics_of(place: Place, brokers: tuple[int, ...]) -> dict[str, CreateTopic]:
    """Topics, by name, in their order."""
    named = place.named()
    if not 1 <= len(named) <= MOST_TOPICS:
        raise place.error(f"has {len(named):,} topics; 1 to {MOST_TOPICS} are played.")
    topics = {name: _topic(name, each, brokers) for name, each in named.items()}
    partitions = sum(len(topic.assignment) for topic in topics.values())
    if partitions > MOST_PARTITIONS:
        raise place.error(f"has {partitions:,} partitions in all; at most {MOST_PARTITIONS} are played.")
    return topics


def clients_of(place: Place | None, brokers: tuple[int, ...], topics: dict[str, CreateTopic]) -> dict[str, Start]:
    """Clients, by name. Kafka's own topics that they need come to the topics, where the file does not have them."""
    named = place.named() if place is not None else {}
    if place is not None and not 1 <= len(named) <= MOST_CLIENTS:
        raise place.error(f"has {len(named):,} clients; 1 to {MOST_CLIENTS} are played.")
    cast = Cast(brokers=brokers, topics=topics, clients={})
    clients: dict[str, Start] = {}
    for name, each in named.items():
        if not name or not name[0].isalpha() or not name.replace("-", "").isalnum() or not name.isascii():
            raise each.error("a client's name begins with a letter and has letters, digits and hyphens.")
        if name == CONTROLLER:
            raise each.error("the controller's name is taken. Give the client another one.")
        kind = each.named().get("kind")
        if kind is None:
            raise each.error(f"kind is missing. It is one of {', '.join(_KINDS)}.")
        clients[name] = kind.one_of(_KINDS)(name, each, cast)
    own: dict[type, str] = {StartGroupConsumer: CONSUMER_OFFSETS, StartTransactionalProducer: TRANSACTION_STATE}
    for call in clients.values():
        topic = own.get(type(call))
        if topic is not None and topic not in topics:
            topics[topic] = CreateTopic(name=topic, assignment=(brokers[:3],), config={"cleanup.policy": "compact"})
    return clients


def config_of(place: Place, name: str) -> str:
    """A topic's setting, as Kafka has it."""
    if name in _CHOICES:
        return place.one_of(_CHOICES[name])
    if name == _RATIO:
        return place.one_of(_RATIOS)
    return str(place.whole(_LEAST[name]))


def _config(place: Place) -> dict[str, str]:
    return {name: config_of(each, name) for name, each in place.mapping((), CONFIG).items()}


def _topic(name: str, place: Place, brokers: tuple[int, ...]) -> CreateTopic:
    if len(name) > 100 or not name.isascii() or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise place.error("a topic's name has letters, digits, dots, underscores and hyphens, at most 100.")
    said = place.mapping((), ("replicas", "partitions", "assignment", "config"))
    if ("assignment" in said) == ("replicas" in said):
        raise place.error(
            "wants replicas (how many) or assignment (a list of brokers for each partition), one of them."
        )
    if "assignment" in said:
        if "partitions" in said:
            raise said["partitions"].error("the assignment says how many partitions there are. Leave partitions out.")
        assignment = tuple(_replicas(each, brokers) for each in said["assignment"].items(MOST_PARTITIONS))
    else:
        wanted = said["replicas"].whole(1)
        if wanted > len(brokers):
            has = f"{len(brokers)} broker{'s' if len(brokers) > 1 else ''}"
            raise said["replicas"].error(
                f"topic {name} wants {wanted:,} replicas, and the cluster has {has}. "
                "Ask for fewer replicas, or add brokers under cluster."
            )
        count = said["partitions"].whole(1, MOST_PARTITIONS) if "partitions" in said else 1
        around = (*brokers, *brokers)
        assignment = tuple(around[n % len(brokers) : n % len(brokers) + wanted] for n in range(count))
    return CreateTopic(name=name, assignment=assignment, config=_config(said["config"]) if "config" in said else {})


def _replicas(place: Place, brokers: tuple[int, ...]) -> tuple[int, ...]:
    return Cast(brokers=brokers, topics={}, clients={}).some_brokers(place)


def _producer(name: str, place: Place, cast: Cast) -> StartProducer:
    said = place.mapping(
        ("kind",),
        ("acks", "idempotent", "id", "epoch", "first_sequence", "codec", "retries", "request_timeout",
         "delivery_timeout", "max_in_flight"),
    )  # fmt: skip
    idempotent = said["idempotent"].flag() if "idempotent" in said else False
    acks = said["acks"].one_of(_ACKS) if "acks" in said else -1
    if idempotent and acks != -1:
        raise said["acks"].error("an idempotent producer waits for all (acks: all). Take idempotent or acks out.")
    for key in ("id", "epoch", "first_sequence"):
        if key in said and not (idempotent and "id" in said):
            raise said[key].error(
                "only an idempotent producer that brings its id has this. Add idempotent: true and id."
            )
    flying = said["max_in_flight"].whole(1, 5 if idempotent else 100) if "max_in_flight" in said else 5
    return StartProducer(
        client=name,
        acks=acks,
        idempotent=idempotent,
        producer_id=said["id"].whole(0, _IDS_A_BROKER * len(cast.brokers) - 1) if "id" in said else None,
        producer_epoch=said["epoch"].whole(0, 32_000) if "epoch" in said else 0,
        first_sequence=said["first_sequence"].whole(0, 2**31 - 1) if "first_sequence" in said else 0,
        codec=said["codec"].one_of(CODECS) if "codec" in said else 0,
        retries=said["retries"].whole(0, 1_000_000) if "retries" in said else None,
        request_timeout_ms=_timeout(said, "request_timeout", 2_000),
        delivery_timeout_ms=_timeout(said, "delivery_timeout", 120_000),
        max_in_flight=flying,
    )


def _consumer(name: str, place: Place, cast: Cast) -> StartConsumer:
    said = place.mapping(("kind", "reads"), ("reset", "read_committed"))
    return StartConsumer(
        client=name,
        partitions=tuple(cast.partition(each) for each in said["reads"].items(MOST_PARTITIONS)),
        reset=said["reset"].one_of({w: w for w in ("earliest", "latest", "none")}) if "reset" in said else "earliest",
        read_committed=said["read_committed"].flag() if "read_committed" in said else False,
    )


def _member(name: str, place: Place, cast: Cast) -> StartGroupConsumer:
    said = place.mapping(("kind", "group", "reads"), ("protocol", "read_committed"))
    return StartGroupConsumer(
        client=name,
        group=said["group"].name(),
        topics=tuple(cast.topic(each) for each in said["reads"].items(MOST_TOPICS)),
        protocol=said["protocol"].one_of({w: w for w in ("classic", "consumer")}) if "protocol" in said else "classic",
        read_committed=said["read_committed"].flag() if "read_committed" in said else False,
    )


def _transactional(name: str, place: Place, cast: Cast) -> StartTransactionalProducer:
    said = place.mapping(("kind", "id"), ("version", "timeout"))
    return StartTransactionalProducer(
        client=name,
        transactional_id=said["id"].name(),
        version=said["version"].whole(1, 2) if "version" in said else 2,
        timeout_ms=_timeout(said, "timeout", 60_000),
    )


def _timeout(said: Mapping[str, Place], key: str, default_ms: int) -> int:
    return said[key].duration(LONGEST_MS, 1) if key in said else default_ms


def _listed(names: object) -> str:
    assert isinstance(names, (tuple, list, Mapping))
    shown = [str(name) for name in names]
    return ", ".join(shown[:20]) + (" and more" if len(shown) > 20 else "") if shown else "none"


_KINDS: Final[Mapping[str, Callable[[str, Place, Cast], Start]]] = {
    "producer": _producer,
    "consumer": _consumer,
    "member": _member,
    "transactional": _transactional,
}
_KINDS_BY_TYPE: Final[Mapping[type, str]] = {
    StartProducer: "producer",
    StartConsumer: "consumer",
    StartGroupConsumer: "member",
    StartTransactionalProducer: "transactional",
}
