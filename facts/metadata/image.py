"""The metadata image: everything that the metadata log says at an offset, entry by entry.

In: metadata records, in offset order, as they come into force. Out: `MetadataImage`: (kind, name) -> `Entry`. The rule
that must hold: two nodes that replay the same records have the same image, by way of a snapshot or without; how a
record was written (its version, the order of its parts) does not show. Salts, keys and passwords do not leave this
module: an entry tells a digest of them, or no more than that there is one.

    kind            name
    feature         transaction.version
    broker          1
    controller      1
    topic           orders
    partition       orders-0
    config          topic/orders/cleanup.policy
    quota           user=alice,client-id=<default>/producer_byte_rate
    producer ids    next
    acl             its id
    scram           alice/SCRAM-SHA-512
    token           its id

Source: MetadataImage and its parts (FeaturesImage, ClusterImage, TopicsImage, ConfigurationsImage, …), DynamicConfig.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidegauge.facts.metadata.history import LoggedRecord

KINDS: Final = (
    "feature",
    "broker",
    "controller",
    "topic",
    "partition",
    "config",
    "quota",
    "producer ids",
    "acl",
    "scram",
    "token",
)
PRINCIPAL_KINDS: Final = frozenset({"acl", "scram", "token", "quota"})
"""What is said of principals and of quotas (K20)."""

HIDDEN: Final = "<hidden>"
_RESOURCES: Final = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
"""ConfigResource.Type."""
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""ScramMechanism."""
_SECRET: Final = re.compile(r"password|secret|jaas|credential|keystore\.key|\.private", re.IGNORECASE)
"""Names of configs whose values nobody is shown."""

Key = tuple[str, str]
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry: what may be told of it, and what of it is compared and never told."""

    value: Mapping[str, Any]
    metadata_offset: int
    """The record that last wrote it; of one out of a metadata snapshot the snapshot's end."""
    at_ms: int | None
    secret: bytes = b""

    def same(self, other: "Entry | None") -> bool:
        """Whether both say the same."""
        return other is not None and (self.value, self.secret) == (other.value, other.secret)


@dataclass(slots=True)
class MetadataImage:
    """The image at some offset. It moves on as records are applied."""

    entries: dict[Key, Entry] = field(default_factory=dict)
    _topics: dict[str, str] = field(default_factory=dict)
    """Topic id -> name."""
    _of_topic: dict[str, set[Key]] = field(default_factory=dict)
    """Topic id -> its partitions' keys, so that they go with it."""
    _configs_of: dict[str, set[Key]] = field(default_factory=dict)
    """Topic name -> its configs' keys, likewise."""

    def apply(self, records: Iterable[LoggedRecord]) -> None:
        """Brings these records into force."""
        for logged in records:
            self._apply(logged)

    def _apply(self, logged: LoggedRecord) -> None:
        said: Fields = logged.record.fields
        match logged.record.name:
            case "FeatureLevelRecord":
                value = {"level": said["feature_level"]} if said["feature_level"] else None
                self._put(logged, "feature", said["name"], value)
            case "RegisterBrokerRecord":
                self._put(logged, "broker", str(said["broker_id"]), _registered(said))
            case "BrokerRegistrationChangeRecord":
                self._change(logged, ("broker", str(said["broker_id"])), _broker_changes(said))
            case "FenceBrokerRecord":
                self._change(logged, ("broker", str(said["id"])), {"fenced": True})
            case "UnfenceBrokerRecord":
                self._change(logged, ("broker", str(said["id"])), {"fenced": False})
            case "UnregisterBrokerRecord":
                self._put(logged, "broker", str(said["broker_id"]), None)
            case "RegisterControllerRecord":
                self._put(logged, "controller", str(said["controller_id"]), _registered(said))
            case "UnregisterControllerRecord":
                self._put(logged, "controller", str(said["controller_id"]), None)
            case "TopicRecord":
                self._topics[said["topic_id"]] = said["name"]
                self._put(logged, "topic", said["name"], {"topic_id": said["topic_id"]})
            case "RemoveTopicRecord":
                self._remove_topic(said["topic_id"])
            case "PartitionRecord":
                if said["topic_id"] in self._topics:
                    self._put_partition(logged, said["topic_id"], said["partition_id"], _partition(said))
            case "PartitionChangeRecord":
                self._change_partition(logged, said)
            case "ClearElrRecord":
                self._clear_elr(logged, said["topic_name"])
            case "ConfigRecord":
                self._config(logged, said)
            case "ClientQuotaRecord":
                name = f"{_quota_entity(said['entity'])}/{said['key']}"
                self._put(logged, "quota", name, None if said["remove"] else {"value": said["value"]})
            case "ProducerIdsRecord":
                self._put(logged, "producer ids", "next", {"next_producer_id": said["next_producer_id"]})
            case "AccessControlEntryRecord":
                self._put(logged, "acl", said["id"], {k: v for k, v in said.items() if k != "id"})
            case "RemoveAccessControlEntryRecord":
                self._put(logged, "acl", said["id"], None)
            case "UserScramCredentialRecord":
                self._put(logged, "scram", _scram_name(said), _scram(said), secret=_scram_secret(said))
            case "RemoveUserScramCredentialRecord":
                self._put(logged, "scram", _scram_name(said), None)
            case "DelegationTokenRecord":
                self._put(logged, "token", said["token_id"], {k: v for k, v in said.items() if k != "token_id"})
            case "RemoveDelegationTokenRecord":
                self._put(logged, "token", said["token_id"], None)

    def _put(
        self, logged: LoggedRecord, kind: str, name: str, value: Mapping[str, Any] | None, *, secret: bytes = b""
    ) -> None:
        if value is None:
            self.entries.pop((kind, name), None)
            return
        self.entries[kind, name] = Entry(
            value=value, metadata_offset=logged.offset, at_ms=logged.timestamp_ms, secret=secret
        )

    def _change(self, logged: LoggedRecord, key: Key, changes: Mapping[str, Any]) -> None:
        entry = self.entries.get(key)
        if entry is not None and changes:
            self.entries[key] = replace(
                entry,
                value={**entry.value, **changes},
                metadata_offset=logged.offset,
                at_ms=logged.timestamp_ms,
            )

    def _remove_topic(self, topic_id: str) -> None:
        name = self._topics.pop(topic_id, None)
        for key in self._of_topic.pop(topic_id, ()):
            self.entries.pop(key, None)
        if name is not None:
            topic = self.entries.get(("topic", name))
            if topic is not None and topic.value["topic_id"] == topic_id:
                del self.entries["topic", name]
            for key in self._configs_of.pop(name, ()):
                self.entries.pop(key, None)

    def _put_partition(self, logged: LoggedRecord, topic_id: str, partition: int, value: Mapping[str, Any]) -> None:
        name = f"{self._topics[topic_id]}-{partition}"
        self._of_topic.setdefault(topic_id, set()).add(("partition", name))
        self._put(logged, "partition", name, value)

    def _change_partition(self, logged: LoggedRecord, said: Fields) -> None:
        topic = self._topics.get(said["topic_id"])
        entry = self.entries.get(("partition", f"{topic}-{said['partition_id']}"))
        if topic is None or entry is None:
            return
        changes = {name: list(said[name]) for name in _SETS if said[name] is not None}
        if said["leader_recovery_state"] >= 0:
            changes["leader_recovery_state"] = said["leader_recovery_state"]
        changes["partition_epoch"] = entry.value["partition_epoch"] + 1
        if said["leader"] != _NO_CHANGE:
            changes |= {"leader": said["leader"], "leader_epoch": entry.value["leader_epoch"] + 1}
        self._change(logged, ("partition", f"{topic}-{said['partition_id']}"), changes)

    def _clear_elr(self, logged: LoggedRecord, topic_name: str) -> None:
        """An empty name is every topic."""
        for topic_id, keys in self._of_topic.items():
            if topic_name not in ("", self._topics.get(topic_id)):
                continue
            for key in keys:
                value = self.entries[key].value
                if value["eligible_leader_replicas"] or value["last_known_elr"]:
                    cleared: dict[str, Any] = {"eligible_leader_replicas": [], "last_known_elr": []}
                    self._change(logged, key, {**cleared, "partition_epoch": value["partition_epoch"] + 1})

    def _config(self, logged: LoggedRecord, said: Fields) -> None:
        resource = _RESOURCES.get(said["resource_type"], str(said["resource_type"]))
        name = f"{resource}/{said['resource_name']}/{said['name']}"
        if resource == "topic":
            self._configs_of.setdefault(said["resource_name"], set()).add(("config", name))
        if said["value"] is None:
            self._put(logged, "config", name, None)
        elif _SECRET.search(said["name"]):
            self._put(logged, "config", name, {"value": HIDDEN}, secret=said["value"].encode())
        else:
            self._put(logged, "config", name, {"value": said["value"]})


_NO_CHANGE: Final = -2
_SETS: Final = (
    "replicas",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
    "directories",
)


def _partition(said: Fields) -> dict[str, Any]:
    return {
        "leader": said["leader"],
        "leader_epoch": said["leader_epoch"],
        "partition_epoch": said["partition_epoch"],
        "leader_recovery_state": said["leader_recovery_state"],
        **{name: list(said[name] or ()) for name in _SETS},
    }


def _registered(said: Fields) -> dict[str, Any]:
    """A registration, its parts in the order of their names; a part that is named twice counts once, as on a node."""
    value = {k: v for k, v in said.items() if k not in ("broker_id", "controller_id")}
    for part in ("end_points", "features"):
        value[part] = [dict(by_name) for _, by_name in sorted({p["name"]: p for p in said[part]}.items())]
    for ids in ("log_dirs", "cordoned_log_dirs"):
        if ids in value:
            value[ids] = sorted(value[ids] or ())
    return value


def _broker_changes(said: Fields) -> dict[str, Any]:
    """1 is so, -1 is not so any more, 0 is no change (BrokerRegistrationFencingChange)."""
    changes: dict[str, Any] = {}
    if said["fenced"]:
        changes["fenced"] = said["fenced"] > 0
    if said["in_controlled_shutdown"]:
        changes["in_controlled_shutdown"] = said["in_controlled_shutdown"] > 0
    if said["log_dirs"]:
        changes["log_dirs"] = sorted(said["log_dirs"])
    if said["cordoned_log_dirs"] is not None:
        changes["cordoned_log_dirs"] = sorted(said["cordoned_log_dirs"])
    return changes


def _quota_entity(entity: Iterable[Fields]) -> str:
    parts = sorted((e["entity_type"], e["entity_name"]) for e in entity)
    return ",".join(f"{type_}={'<default>' if name is None else name}" for type_, name in parts)


def _scram_name(said: Fields) -> str:
    return f"{said['name']}/{_MECHANISMS.get(said['mechanism'], said['mechanism'])}"


def _scram_secret(said: Fields) -> bytes:
    return b"\0".join((said["salt"], said["stored_key"], said["server_key"]))


def _scram(said: Fields) -> dict[str, Any]:
    digest = hashlib.sha256(_scram_secret(said)).hexdigest()
    return {"iterations": said["iterations"], "digest": digest[:16]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An entry that two images tell differently; None where one lacks it."""

    kind: str
    name: str
    ours: Entry | None
    theirs: Entry | None


def differences(ours: MetadataImage, theirs: MetadataImage) -> Iterator[Difference]:
    """Every entry that the two images tell differently, by kind and name."""
    changed = [key for key, entry in ours.entries.items() if not entry.same(theirs.entries.get(key))]
    added = [key for key in theirs.entries if key not in ours.entries]
    for kind, name in sorted([*changed, *added], key=lambda key: (KINDS.index(key[0]), key[1])):
        yield Difference(
            kind=kind, name=name, ours=ours.entries.get((kind, name)), theirs=theirs.entries.get((kind, name))
        )
