"""Small files of a log dir: `meta.properties`, `partition.metadata`, `quorum-state`, `.kafka_cleanshutdown`.

In: a file's bytes. Out: what they say, None for what they don't, and a `Corruption` for what cannot be right. What is
larger than any of them is not taken apart, since a line of it takes a hundred times its bytes. Sources: MetaProperties,
PartitionMetadataFile, FileQuorumStateStore, CleanShutdownFileHandler.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidegauge.kafka_log.corruption import Corruption, Damage

_MAX_INT32: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1

_MAX_BYTES: Final = 1 << 20
"""They have some hundred bytes; quorum-state names each voter where the quorum is static."""

_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """`meta.properties`: which broker, which cluster, which log dir."""

    version: int | None
    node_id: int | None
    directory_id: str | None
    cluster_id: str | None
    corruptions: tuple[Corruption, ...]

    @property
    def of_kraft(self) -> bool:
        """Its node copies a metadata log. A broker that came from a ZooKeeper keeps version 0 for ever (its migration
        gives the directory an id, which nothing did before: KafkaServer, MetaPropertiesVersion).
        """
        return self.version == 1 or (self.version == 0 and self.directory_id is not None)

    @property
    def of_zookeeper(self) -> bool:
        """Its broker has its metadata from a ZooKeeper."""
        return self.version == 0 and not self.of_kraft


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """`partition.metadata`: the topic id a partition directory belongs to."""

    version: int | None
    topic_id: str | None
    corruptions: tuple[Corruption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """`quorum-state`: the voter's memory. No leader and no vote are None."""

    leader_id: int | None
    leader_epoch: int | None
    voted_id: int | None
    data_version: int | None
    corruptions: tuple[Corruption, ...]
    voted_directory_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanShutdown:
    """`.kafka_cleanshutdown`; releases before 3.7 wrote it empty."""

    version: int | None
    broker_epoch: int | None
    corruptions: tuple[Corruption, ...]


def parse_meta_properties(data: bytes) -> MetaProperties:
    """Reads `meta.properties`."""
    values, bad = _properties(data, "=")
    node = values.get("node.id", values.get("broker.id"))
    return MetaProperties(
        version=_integer(values.get("version"), bad, data, "version"),
        node_id=_integer(node, bad, data, "node.id"),
        directory_id=values.get("directory.id"),
        cluster_id=values.get("cluster.id"),
        corruptions=tuple(bad),
    )


def parse_partition_metadata(data: bytes) -> PartitionMetadata:
    """Reads `partition.metadata`."""
    values, bad = _properties(data, ":")
    topic_id = values.get("topic_id")
    if topic_id is None or _UUID.fullmatch(topic_id) is None:
        bad.append(_damage(data, Damage.FORM, "no topic id"))
        topic_id = None
    return PartitionMetadata(
        version=_integer(values.get("version"), bad, data, "version"), topic_id=topic_id, corruptions=tuple(bad)
    )


def parse_quorum_state(data: bytes) -> QuorumState:
    """Reads `quorum-state`."""
    value, bad = _json(data)
    voted = value.get("votedDirectoryId")
    if voted is not None and not (isinstance(voted, str) and _UUID.fullmatch(voted)):
        bad.append(_damage(data, Damage.VALUE, "votedDirectoryId is no directory's id"))
        voted = None
    return QuorumState(
        leader_id=_known(value, "leaderId", _MAX_INT32, bad, data),
        leader_epoch=_known(value, "leaderEpoch", _MAX_INT32, bad, data),
        voted_id=_known(value, "votedId", _MAX_INT32, bad, data),
        data_version=_known(value, "data_version", _MAX_INT32, bad, data),
        corruptions=tuple(bad),
        voted_directory_id=voted,
    )


def parse_clean_shutdown(data: bytes) -> CleanShutdown:
    """Reads `.kafka_cleanshutdown`."""
    if len(data) <= _MAX_BYTES and not data.strip():
        return CleanShutdown(version=None, broker_epoch=None, corruptions=())
    value, bad = _json(data)
    return CleanShutdown(
        version=_known(value, "version", _MAX_INT32, bad, data),
        broker_epoch=_known(value, "brokerEpoch", _MAX_INT64, bad, data),
        corruptions=tuple(bad),
    )


def write_meta_properties(*, node_id: int, directory_id: str, cluster_id: str) -> bytes:
    """The bytes of `meta.properties` version 1 as a broker formats it, without the comment that holds the time."""
    lines = (f"node.id={node_id}", f"directory.id={directory_id}", "version=1", f"cluster.id={cluster_id}")
    return "".join(f"{line}\n" for line in lines).encode()


def write_partition_metadata(topic_id: str) -> bytes:
    """The bytes of `partition.metadata`."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def write_quorum_state(
    *,
    leader_id: int | None,
    leader_epoch: int,
    voted_id: int | None,
    voted_directory_id: str = "AAAAAAAAAAAAAAAAAAAAAA",
) -> bytes:
    """The bytes of `quorum-state` of data version 1, that of a dynamic quorum."""
    value = {
        "leaderId": -1 if leader_id is None else leader_id,
        "leaderEpoch": leader_epoch,
        "votedId": -1 if voted_id is None else voted_id,
        "votedDirectoryId": voted_directory_id,
        "data_version": 1,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def write_clean_shutdown(broker_epoch: int) -> bytes:
    """The bytes of `.kafka_cleanshutdown`."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def _damage(data: bytes, kind: Damage, detail: str) -> Corruption:
    return Corruption(kind=kind, position=0, end_position=len(data), detail=detail)


def _too_large(data: bytes) -> Corruption:
    return _damage(
        data, Damage.NOT_READ, f"{len(data)} bytes are more than the {_MAX_BYTES} that are read of such a file"
    )


def _properties(data: bytes, separator: str) -> tuple[dict[str, str], list[Corruption]]:
    if len(data) > _MAX_BYTES:
        return {}, [_too_large(data)]
    values: dict[str, str] = {}
    bad: list[Corruption] = []
    position = 0
    for raw in data.splitlines(keepends=True):
        line = raw.decode("utf-8", "replace").strip()
        end = position + len(raw)
        if line and not line.startswith(("#", "!")):
            key, found, text = line.partition(separator)
            if found:
                values[key.strip()] = text.strip().replace("\\", "")
            else:
                detail = f"{line[:60]!r} is no property"
                bad.append(Corruption(kind=Damage.FORM, position=position, end_position=end, detail=detail))
        position = end
    return values, bad


def _integer(text: str | None, bad: list[Corruption], data: bytes, name: str) -> int | None:
    if text is not None and text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _MAX_INT32:
        return int(text)
    bad.append(_damage(data, Damage.FORM, f"{name} is {'missing' if text is None else repr(text[:40])}"))
    return None


def _json(data: bytes) -> tuple[dict[str, Any], list[Corruption]]:
    if len(data) > _MAX_BYTES:
        return {}, [_too_large(data)]
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}, [_damage(data, Damage.FORM, "not JSON")]
    if not isinstance(value, dict):
        return {}, [_damage(data, Damage.FORM, "not a JSON object")]
    return value, []


def _known(values: Mapping[str, object], name: str, largest: int, bad: list[Corruption], data: bytes) -> int | None:
    """A number; None where it is left out or -1, which says that there is none."""
    if name not in values:
        return None
    value = values[name]
    if isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= largest:
        return value if value >= 0 else None
    shown = repr(value)[:40] if isinstance(value, bool | int | float | str) else type(value).__name__
    bad.append(_damage(data, Damage.VALUE, f"{name} is {shown}, not a number that fits"))
    return None
