"""What replaying the metadata log gives, with everything that a snapshot of it must say again.

In: metadata records in their order. Out: a `MetadataImage`; and the records of an image, in the order in which a node
writes them into a snapshot. The rule that must hold: replaying an image's records gives the same image. The controller
keeps a smaller one, for its decisions (`sim_engine.metadata.controller`), which is inside this one.

    features (metadata.version first), brokers, controllers, topics with their partitions, configs, producer ids

Where a node's order is that of a Java hash table, it is that order here; where it is a new one in every process (which
resource's configs come first, by an enum's identity), it is that of the names.

Source: Kafka MetadataImage#write, FeaturesImage, ClusterImage, TopicsImage, ConfigurationsImage, ProducerIdsImage.
"""

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidegauge.kafka_log.java_hash import string_hash
from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.sim_engine.java_order import topics_in_order
from tidegauge.sim_engine.metadata.controller import ClusterImage, PartitionImage, TopicImage, applied
from tidegauge.sim_engine.metadata.metadata_log import record

_METADATA_VERSION: Final = "metadata.version"
_NO_BROKER: Final = -1
_TOPIC: Final = 2
_PASSED_OVER: Final = frozenset({"NoOpRecord", "BeginTransactionRecord", "EndTransactionRecord"})
"""Records that leave the image as it is. An aborted transaction would not; nobody simulates one."""

_Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """`brokers` and `controllers` are the fields of their registrations as they stand now, by id."""

    cluster: ClusterImage = field(default_factory=ClusterImage)
    brokers: Mapping[int, _Fields] = field(default_factory=dict)
    controllers: Mapping[int, _Fields] = field(default_factory=dict)
    configs: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)


def replayed(image: MetadataImage, records: Iterable[MetadataRecord]) -> MetadataImage:
    """The image after these records. Raises ValueError for a record that nobody simulates."""
    for each in records:
        image = _replay(image, each)
    return image


def image_records(image: MetadataImage) -> list[MetadataRecord]:
    """The records of a snapshot of this image."""
    return [
        *_features(image.cluster.features),
        *(record("RegisterBrokerRecord", 4, **_registered(fields)) for _, fields in sorted(image.brokers.items())),
        *(record("RegisterControllerRecord", 0, **fields) for _, fields in sorted(image.controllers.items())),
        *_topics(image.cluster.topics.values()),
        *_configs(image.configs),
        *_producer_ids(image.cluster.next_producer_id),
    ]


def _replay(image: MetadataImage, each: MetadataRecord) -> MetadataImage:
    said: Mapping[str, Any] = each.fields
    match each.name:
        case "RegisterBrokerRecord":
            image = replace(image, brokers={**image.brokers, said["broker_id"]: {**_BROKER_DEFAULTS, **said}})
        case "BrokerRegistrationChangeRecord":
            changed = _changed_registration(image.brokers[said["broker_id"]], said)
            image = replace(image, brokers={**image.brokers, said["broker_id"]: changed})
        case "UnregisterBrokerRecord":
            return replace(
                image,
                brokers={k: v for k, v in image.brokers.items() if k != said["broker_id"]},
                cluster=replace(
                    image.cluster,
                    brokers={k: v for k, v in image.cluster.brokers.items() if k != said["broker_id"]},
                ),
            )
        case "RegisterControllerRecord":
            return replace(image, controllers={**image.controllers, said["controller_id"]: said})
        case "UnregisterControllerRecord":
            left = {k: v for k, v in image.controllers.items() if k != said["controller_id"]}
            return replace(image, controllers=left)
        case "ConfigRecord":
            image = replace(image, configs=_changed_configs(image.configs, said))
        case "RemoveTopicRecord":
            names = [t.name for t in image.cluster.topics.values() if t.topic_id == said["topic_id"]]
            image = replace(image, configs={k: v for k, v in image.configs.items() if k not in _resources(names)})
        case "ClearElrRecord":
            cleared = applied(image.cluster, _cleared_elrs(image.cluster, said["topic_name"]))
            return replace(image, cluster=cleared)
        case name if name in _PASSED_OVER or name in _KNOWN_TO_THE_CONTROLLER:
            pass
        case name:
            raise ValueError(f"no simulated cluster writes a {name}")
    cluster = image.cluster
    if each.name == "ConfigRecord" and said["resource_type"] == _TOPIC and said["resource_name"] not in cluster.topics:
        return image  # In a snapshot's image the topic comes first; in a log a config may outlive its topic.
    cluster = applied(cluster, [each])
    if each.name == "PartitionRecord":
        cluster = _with_eligible(cluster, said)
    return replace(image, cluster=cluster)


_KNOWN_TO_THE_CONTROLLER: Final = frozenset(
    {"TopicRecord", "PartitionRecord", "PartitionChangeRecord", "FeatureLevelRecord", "ProducerIdsRecord"}
)
_BROKER_DEFAULTS: Final[_Fields] = {"is_migrating_zk_broker": False, "in_controlled_shutdown": False}


def _registered(broker: _Fields) -> _Fields:
    """A node keeps a broker's endpoints and features in tables; of two that share a place the later is told first."""
    told = dict(broker)
    for name in ("end_points", "features"):
        by_name = {each["name"]: each for each in reversed(broker[name])}
        told[name] = tuple(by_name[key] for key in topics_in_order(by_name))
    return told


def _changed_registration(broker: _Fields, said: _Fields) -> _Fields:
    changed = dict(broker)
    if said.get("fenced", 0):
        changed["fenced"] = said["fenced"] == 1
    if said.get("in_controlled_shutdown", 0):
        changed["in_controlled_shutdown"] = True
    if said.get("log_dirs"):
        changed["log_dirs"] = said["log_dirs"]
    if said.get("cordoned_log_dirs") is not None:
        changed["cordoned_log_dirs"] = said["cordoned_log_dirs"]
    return changed


def _changed_configs(
    configs: Mapping[tuple[int, str], Mapping[str, str]], said: _Fields
) -> Mapping[tuple[int, str], Mapping[str, str]]:
    resource = (said["resource_type"], said["resource_name"])
    values = {**configs.get(resource, {}), said["name"]: said["value"]}
    if said["value"] is None:
        del values[said["name"]]
    others = {k: v for k, v in configs.items() if k != resource}
    return {**others, resource: values} if values else others


def _resources(topics: Iterable[str]) -> set[tuple[int, str]]:
    return {(_TOPIC, name) for name in topics}


def _cleared_elrs(cluster: ClusterImage, topic_name: str) -> Iterator[MetadataRecord]:
    """A topic's partitions, or all if none is named, lose their ELRs (TopicsDelta#replay(ClearElrRecord))."""
    for topic in cluster.topics.values():
        for number, partition in topic.partitions.items():
            if topic_name in ("", topic.name) and (partition.elr or partition.last_known_elr):
                yield record(
                    "PartitionChangeRecord",
                    2,
                    partition_id=number,
                    topic_id=topic.topic_id,
                    eligible_leader_replicas=(),
                    last_known_elr=(),
                )


def _with_eligible(cluster: ClusterImage, said: _Fields) -> ClusterImage:
    """A partition as a snapshot has it may be recovering, reassigned, and have ELRs already."""
    topic = next(t for t in cluster.topics.values() if t.topic_id == said["topic_id"])
    partition = replace(
        topic.partitions[said["partition_id"]],
        recovering=said.get("leader_recovery_state", 0) == 1,
        elr=said.get("eligible_leader_replicas") or (),
        last_known_elr=said.get("last_known_elr") or (),
        adding=said.get("adding_replicas", ()),
        removing=said.get("removing_replicas", ()),
    )
    topic = replace(topic, partitions={**topic.partitions, said["partition_id"]: partition})
    return replace(cluster, topics={**cluster.topics, topic.name: topic})


def _features(levels: Mapping[str, int]) -> Iterator[MetadataRecord]:
    for name in sorted(_packed(levels), key=lambda n: n != _METADATA_VERSION):
        yield record("FeatureLevelRecord", 0, name=name, feature_level=levels[name])


def _topics(topics: Iterable[TopicImage]) -> Iterator[MetadataRecord]:
    """Topics by the hash of their ids, as the tree that holds them is ordered (pcollections' IntTree)."""
    for topic in sorted(topics, key=lambda t: _uuid_hash(t.topic_id)):
        yield record("TopicRecord", 0, name=topic.name, topic_id=topic.topic_id)
        for number in sorted(topic.partitions):
            yield partition_record(topic.topic_id, number, topic.partitions[number])


def partition_record(topic_id: str, number: int, partition: PartitionImage) -> MetadataRecord:
    """All of a partition in one record."""
    return record(
        "PartitionRecord",
        2,
        partition_id=number,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=int(partition.recovering),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )


def _configs(configs: Mapping[tuple[int, str], Mapping[str, str]]) -> Iterator[MetadataRecord]:
    for (resource_type, resource_name), values in sorted(configs.items()):
        for name in _packed(topics_in_order(reversed(list(values)))):
            yield record(
                "ConfigRecord",
                0,
                resource_type=resource_type,
                resource_name=resource_name,
                name=name,
                value=values[name],
            )


def _producer_ids(next_producer_id: int) -> Iterator[MetadataRecord]:
    if next_producer_id > 0:
        yield record("ProducerIdsRecord", 0, broker_id=_NO_BROKER, broker_epoch=-1, next_producer_id=next_producer_id)


def _packed(names: Collection[str]) -> list[str]:
    """Names in the order of a HashMap that began with one place and doubled as it filled."""
    places = 1
    while len(names) * 4 > places * 3:
        places *= 2

    def place(name: str) -> int:
        code = string_hash(name) & 0xFFFFFFFF
        return (code ^ code >> 16) & (places - 1)

    return sorted(names, key=place)


def _uuid_hash(uuid: str) -> int:
    """Uuid#hashCode, signed."""
    bits = base64.urlsafe_b64decode(uuid + "==")
    high, low = int.from_bytes(bits[:8], "big"), int.from_bytes(bits[8:], "big")
    code = ((high ^ low) >> 32 ^ (high ^ low)) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code
