"""The controller: who is alive, who leads, who is in sync; and the metadata records in which it says so.

In: an image of the cluster and an event (a broker registers, goes, comes back, asks for another ISR; an operator wants
a topic, an election). Out: the records of one batch; `applied` gives the image after them. A decision is only its
records. What is not in them did not happen, and who replays them has the same image.

    target ISR      the ISR without brokers that are fenced or shutting down
    ELR             who left the ISR while it was below min.insync.replicas, and holds all that is committed (KIP-966)
    clean election  a member of the ISR, or of the ELR while the ISR is empty; in the order of the replicas
    unclean         anybody who is alive; leaves the partition marked as recovering

Source: Kafka ReplicationControlManager, PartitionChangeBuilder, PartitionRegistration, ClusterControlManager.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.sim_engine.metadata.metadata_log import FEATURES, record

NO_LEADER: Final = -1
_NO_LEADER_CHANGE: Final = -2
_TOPIC: Final = 2
_RECOVERED: Final = 0
_RECOVERING: Final = 1
_UNCHANGED: Final = -1


class Election(Enum):
    """What an election may do."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A broker as the controller knows it."""

    broker_id: int
    broker_epoch: int
    incarnation_id: str
    log_dirs: tuple[str, ...]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False

    @property
    def may_lead(self) -> bool:
        """Alive, and not on its way out."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """A partition's registration (PartitionRegistration)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[str, ...]
    recovering: bool = False
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic: its id, its partitions by number, its settings."""

    name: str
    topic_id: str
    partitions: Mapping[int, PartitionImage]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """What replaying the metadata log gives."""

    brokers: Mapping[int, Registration] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    cluster_config: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0

    def min_insync_replicas(self, topic: str) -> int:
        """The topic's own setting, else the cluster's, else 1."""
        own = self.topics[topic].config.get("min.insync.replicas")
        return int(own or self.cluster_config.get("min.insync.replicas", "1"))

    def unclean_allowed(self, topic: str) -> bool:
        """Whether this topic may be led by a replica that was not in sync."""
        own = self.topics[topic].config.get("unclean.leader.election.enable")
        return (own or self.cluster_config.get("unclean.leader.election.enable", "false")) == "true"

    @property
    def eligible_leader_replicas(self) -> bool:
        """Whether the quorum keeps ELRs (KIP-966)."""
        return self.features.get("eligible.leader.replicas.version", 0) >= 1

    def may_lead(self, broker_id: int) -> bool:
        """Whether this broker may be elected now."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.may_lead


def register(
    image: ClusterImage,
    *,
    broker_id: int,
    broker_epoch: int,
    incarnation_id: str,
    log_dirs: Sequence[str],
    previous_broker_epoch: int | None,
    rack: str | None = None,
    endpoints: Sequence[tuple[str, str, int]] | None = None,
) -> list[MetadataRecord]:
    """A broker comes (back). `broker_epoch` is the offset that its record will have; endpoints: listener, host, port.

    One that cannot show the epoch of its last registration did not stop in good order: it leaves every ISR and ELR,
    because its disk may lack what it had acknowledged (KIP-966, ReplicationControlManager#handleUncleanBrokerShutdown).
    """
    records = [
        record(
            "RegisterBrokerRecord",
            4,
            broker_id=broker_id,
            incarnation_id=incarnation_id,
            broker_epoch=broker_epoch,
            end_points=tuple(
                {"name": name, "host": host, "port": port, "security_protocol": 0}
                for name, host, port in endpoints or (("INTERNAL", "127.0.0.1", 39090 + broker_id),)
            ),
            features=tuple(
                {"name": name, "min_supported_version": low, "max_supported_version": high}
                for name, low, high in FEATURES
            ),
            rack=rack,
            fenced=True,
            log_dirs=tuple(log_dirs),
        )
    ]
    before = image.brokers.get(broker_id)
    clean = before is None or previous_broker_epoch == before.broker_epoch
    gone = applied(image, records)
    for topic, number, _ in _partitions(image):
        records += _change(gone, topic, number, unclean_shutdown=() if clean else (broker_id,))
    return records


def unfence(image: ClusterImage, broker_id: int) -> list[MetadataRecord]:
    """A broker has caught up with the metadata log: it may lead now."""
    broker = image.brokers[broker_id]
    records = [
        record("BrokerRegistrationChangeRecord", 0, broker_id=broker_id, broker_epoch=broker.broker_epoch, fenced=-1)
    ]
    after = applied(image, records)
    for topic, number, partition in _partitions(image):
        if partition.leader == NO_LEADER:
            records += _change(after, topic, number)
    return records


def fence(image: ClusterImage, broker_id: int) -> list[MetadataRecord]:
    """A broker's heartbeats stopped: it leaves every ISR, its partitions get other leaders, and that it is fenced."""
    broker = image.brokers[broker_id]
    last = record("BrokerRegistrationChangeRecord", 0, broker_id=broker_id, broker_epoch=broker.broker_epoch, fenced=1)
    return [*_without(applied(image, [last]), broker_id), last]


def begin_shutdown(image: ClusterImage, broker_id: int) -> list[MetadataRecord]:
    """A broker asks to go: its leaderships move before it stops."""
    broker = image.brokers[broker_id]
    records = [
        record(
            "BrokerRegistrationChangeRecord",
            1,
            broker_id=broker_id,
            broker_epoch=broker.broker_epoch,
            in_controlled_shutdown=1,
        )
    ]
    return records + _without(applied(image, records), broker_id)


def alter_isr(
    image: ClusterImage,
    topic: str,
    number: int,
    *,
    leader_id: int,
    leader_epoch: int,
    partition_epoch: int,
    isr: Sequence[int],
    broker_epochs: Mapping[int, int],
) -> list[MetadataRecord] | str:
    """A leader asks for another ISR; the error that it gets where it may not have it (AlterPartition, KIP-903)."""
    partition = image.topics[topic].partitions[number] if topic in image.topics else None
    if partition is None:
        return "UNKNOWN_TOPIC_ID"
    if leader_epoch > partition.leader_epoch or partition_epoch > partition.partition_epoch:
        return "NOT_CONTROLLER"
    if leader_epoch < partition.leader_epoch:
        return "FENCED_LEADER_EPOCH"
    if leader_id != partition.leader:
        return "INVALID_REQUEST"
    if partition_epoch < partition.partition_epoch:
        return "INVALID_UPDATE_VERSION"
    if not set(isr) <= set(partition.replicas) or leader_id not in isr:
        return "INVALID_REQUEST"
    if partition.recovering and len(isr) > 1:
        return "INVALID_REQUEST"
    for member in isr:
        broker = image.brokers.get(member)
        if (
            broker is None
            or not broker.may_lead
            or broker_epochs.get(member, broker.broker_epoch) != broker.broker_epoch
        ):
            return "INELIGIBLE_REPLICA"
    return _change(image, topic, number, isr=tuple(isr))


def elect(image: ClusterImage, topic: str, number: int, election: Election) -> list[MetadataRecord]:
    """An operator's election, or the one that happens when a broker comes back; nothing where nothing changes."""
    return _change(image, topic, number, election=election)


def recovered(image: ClusterImage, topic: str, number: int) -> list[MetadataRecord]:
    """The leader of an unclean election says that it is through; it repaired nothing (Partition#makeLeader)."""
    partition = image.topics[topic].partitions[number]
    return _records(topic, image, number, replace(partition, recovering=False)) if partition.recovering else []


def create_topic(
    image: ClusterImage,
    name: str,
    topic_id: str,
    assignment: Sequence[Sequence[int]],
    *,
    config: Mapping[str, str],
    first_number: int = 0,
) -> list[MetadataRecord]:
    """A topic with its settings and partitions; each is led by the first of its replicas that may."""
    records = [record("TopicRecord", 0, name=name, topic_id=topic_id)] if first_number == 0 else []
    records += [
        record("ConfigRecord", 0, resource_type=_TOPIC, resource_name=name, name=key, value=value)
        for key, value in sorted(config.items())
    ]
    for number, replicas in enumerate(assignment, first_number):
        isr = tuple(b for b in replicas if image.may_lead(b))
        records.append(
            record(
                "PartitionRecord",
                2,
                partition_id=number,
                topic_id=topic_id,
                replicas=tuple(replicas),
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(image.brokers[b].log_dirs[0] for b in replicas),
            )
        )
    return records


def delete_topic(image: ClusterImage, name: str) -> list[MetadataRecord]:
    """A topic goes."""
    return [record("RemoveTopicRecord", 0, topic_id=image.topics[name].topic_id)]


def applied(image: ClusterImage, records: Iterable[MetadataRecord]) -> ClusterImage:
    """The image after these records."""
    for each in records:
        image = _replay(image, each)
    return image


def _partitions(image: ClusterImage) -> list[tuple[str, int, PartitionImage]]:
    return [(t.name, n, t.partitions[n]) for t in image.topics.values() for n in sorted(t.partitions)]


def _without(image: ClusterImage, broker_id: int) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    for topic, number, partition in _partitions(image):
        if broker_id in partition.isr or partition.leader == broker_id:
            records += _change(image, topic, number)
    return records


def _change(
    image: ClusterImage,
    topic: str,
    number: int,
    *,
    isr: tuple[int, ...] | None = None,
    election: Election | None = None,
    unclean_shutdown: tuple[int, ...] = (),
) -> list[MetadataRecord]:
    """What becomes of a partition now: its ISR, its ELR, its leader (PartitionChangeBuilder#build)."""
    partition = image.topics[topic].partitions[number]
    wanted = partition.isr if isr is None else isr
    target_isr = tuple(b for b in wanted if image.may_lead(b) and b not in unclean_shutdown)
    minimum = min(image.min_insync_replicas(topic), len(partition.replicas))
    elr, last_known = _eligible(image, partition, target_isr, minimum, unclean_shutdown)
    target = replace(partition, isr=target_isr, elr=elr, last_known_elr=last_known)
    target = _elected(image, topic, target, election or Election.ONLINE)
    return _records(topic, image, number, target)


def _eligible(
    image: ClusterImage,
    partition: PartitionImage,
    target_isr: tuple[int, ...],
    minimum: int,
    unclean_shutdown: tuple[int, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """ELR and last known ELR that go with a target ISR (PartitionChangeBuilder#maybePopulateTargetElr)."""
    if not image.eligible_leader_replicas or len(target_isr) >= minimum:
        return (), ()
    held_all = dict.fromkeys((*partition.elr, *partition.isr))
    elr = tuple(b for b in held_all if b not in target_isr and b not in unclean_shutdown)
    elr = elr[: max(0, minimum - len(target_isr))] if not target_isr and len(elr) > minimum else elr
    last_known = (partition.leader,) if not target_isr and partition.leader != NO_LEADER else partition.last_known_elr
    return elr, last_known if not target_isr else ()


def _elected(image: ClusterImage, topic: str, target: PartitionImage, election: Election) -> PartitionImage:
    """The leader of a partition whose ISR and ELR are settled."""

    def valid(broker: int) -> bool:
        in_sync = broker in target.isr or (not target.isr and broker in target.elr)
        return in_sync and image.may_lead(broker)

    preferred = target.replicas[0]
    if election is Election.PREFERRED:
        return replace(target, leader=preferred) if valid(preferred) else target
    if valid(target.leader):
        return target
    leader = next((b for b in target.replicas if valid(b)), None)
    if leader is not None:
        isr = target.isr or (leader,)
        elr = tuple(b for b in target.elr if b not in isr)
        # Who led last matters only while nobody leads (PartitionChangeBuilder#maybeUpdateLastKnownLeader).
        return replace(target, leader=leader, isr=isr, elr=elr, last_known_elr=())
    if image.eligible_leader_replicas and not target.isr and not target.elr and len(target.last_known_elr) == 1:
        # Nobody is known to hold everything; who led last is taken even so (canElectLastKnownLeader).
        leader = next((b for b in target.last_known_elr if image.may_lead(b)), None)
    if leader is None and (election is Election.UNCLEAN or image.unclean_allowed(topic)):
        leader = next((b for b in target.replicas if image.may_lead(b)), None)
    if leader is not None:
        return replace(target, leader=leader, isr=(leader,), elr=(), last_known_elr=(), recovering=True)
    # The last member of an ISR without ELRs stays in it, or nobody could ever be elected cleanly again.
    isr = target.isr or (() if image.eligible_leader_replicas else target.isr)
    return replace(target, leader=NO_LEADER, isr=isr)


def _records(topic: str, image: ClusterImage, number: int, target: PartitionImage) -> list[MetadataRecord]:
    """The one record that turns a partition into its target; none if it is that already."""
    topic_image = image.topics[topic]
    now = topic_image.partitions[number]
    if not target.isr and not image.eligible_leader_replicas:
        target = replace(target, isr=now.isr)
    fields: dict[str, Any] = {}
    if target.leader != now.leader:
        fields["leader"] = target.leader
    if target.isr != now.isr:
        fields["isr"] = target.isr
    if target.recovering != now.recovering:
        fields["leader_recovery_state"] = _RECOVERING if target.recovering else _RECOVERED
    if target.elr != now.elr:
        fields["eligible_leader_replicas"] = target.elr
    if target.last_known_elr != now.last_known_elr:
        fields["last_known_elr"] = target.last_known_elr
    for name, value, before in (
        ("replicas", target.replicas, now.replicas),
        ("adding_replicas", target.adding, now.adding),
        ("removing_replicas", target.removing, now.removing),
        ("directories", target.directories, now.directories),
    ):
        if value != before:
            fields[name] = value
    if not fields:
        return []
    return [record("PartitionChangeRecord", 2, partition_id=number, topic_id=topic_image.topic_id, **fields)]


def _replay(image: ClusterImage, each: MetadataRecord) -> ClusterImage:
    said: Mapping[str, Any] = each.fields
    match each.name:
        case "RegisterBrokerRecord":
            broker = Registration(
                broker_id=said["broker_id"],
                broker_epoch=said["broker_epoch"],
                incarnation_id=said["incarnation_id"],
                log_dirs=tuple(said["log_dirs"]),
                rack=said.get("rack"),
                fenced=said["fenced"],
            )
            return replace(image, brokers={**image.brokers, broker.broker_id: broker})
        case "BrokerRegistrationChangeRecord":
            broker = image.brokers[said["broker_id"]]
            fenced = {1: True, -1: False}.get(said.get("fenced", 0), broker.fenced)
            leaving = broker.in_controlled_shutdown or said.get("in_controlled_shutdown", 0) == 1
            broker = replace(broker, fenced=fenced, in_controlled_shutdown=leaving)
            return replace(image, brokers={**image.brokers, broker.broker_id: broker})
        case "TopicRecord":
            topic = TopicImage(name=said["name"], topic_id=said["topic_id"], partitions={})
            return replace(image, topics={**image.topics, topic.name: topic})
        case "RemoveTopicRecord":
            left = {name: t for name, t in image.topics.items() if t.topic_id != said["topic_id"]}
            return replace(image, topics=left)
        case "PartitionRecord" | "PartitionChangeRecord":
            return _replay_partition(image, each.name, said)
        case "ConfigRecord":
            return _replay_config(image, said)
        case "FeatureLevelRecord":
            return replace(image, features={**image.features, said["name"]: said["feature_level"]})
        case "ProducerIdsRecord":
            return replace(image, next_producer_id=said["next_producer_id"])
        case _:
            return image


def _replay_partition(image: ClusterImage, name: str, said: Mapping[str, Any]) -> ClusterImage:
    topic = next(t for t in image.topics.values() if t.topic_id == said["topic_id"])
    if name == "PartitionRecord":
        partition = PartitionImage(
            replicas=said["replicas"],
            isr=said["isr"],
            leader=said["leader"],
            leader_epoch=said["leader_epoch"],
            partition_epoch=said["partition_epoch"],
            directories=said["directories"],
        )
    else:
        now = topic.partitions[said["partition_id"]]
        leader = said.get("leader", _NO_LEADER_CHANGE)
        state = said.get("leader_recovery_state", _UNCHANGED)
        names = ("replicas", "isr", "directories")
        kept = {name: said[name] for name in names if said.get(name) is not None}
        for name, field_name in (
            ("elr", "eligible_leader_replicas"),
            ("last_known_elr", "last_known_elr"),
            ("adding", "adding_replicas"),
            ("removing", "removing_replicas"),
        ):
            if said.get(field_name) is not None:
                kept[name] = said[field_name]
        partition = replace(
            now,
            leader=now.leader if leader == _NO_LEADER_CHANGE else leader,
            leader_epoch=now.leader_epoch + (leader != _NO_LEADER_CHANGE),
            partition_epoch=now.partition_epoch + 1,
            recovering=now.recovering if state == _UNCHANGED else state == _RECOVERING,
            **kept,
        )
    topic = replace(topic, partitions={**topic.partitions, said["partition_id"]: partition})
    return replace(image, topics={**image.topics, topic.name: topic})


def _replay_config(image: ClusterImage, said: Mapping[str, Any]) -> ClusterImage:
    key, value, resource = said["name"], said["value"], said["resource_name"]

    def changed(config: Mapping[str, str]) -> dict[str, str]:
        left = {k: v for k, v in config.items() if k != key}
        return left if value is None else {**left, key: value}

    if said["resource_type"] != _TOPIC:
        return replace(image, cluster_config=changed(image.cluster_config)) if resource == "" else image
    topic = image.topics[resource]
    return replace(image, topics={**image.topics, resource: replace(topic, config=changed(topic.config))})
