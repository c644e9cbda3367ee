"""What a cluster answered about itself while it was captured: `cluster-answers.json` beside the manifest.

In: values that `snapshots.ask` made of the Admin API's answers, or the file's text. Out: the same values, or JSON text.
The rule that must hold: what a cluster did not answer has a reason beside it and no value, so that silence is never
taken for an answer; a sensitive setting's value is never kept.

A live cluster moves on while it is copied. So it is asked twice, before the first log is read and after the last one,
and what the files say must lie between the two; where nothing moved, both are equal, and so must the files be.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeVar

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.fields import LARGEST_WHOLE
from tidegauge.snapshots.manifest import LAST_INSTANT_MS

ANSWERS_NAME: Final = "cluster-answers.json"
SCHEMA_VERSION: Final = 1

T = TypeVar("T")
U = TypeVar("U")
Rename = Callable[[str], str]

TOPIC_CONFIG: Final = "topic"
"""A config's source: set on the topic."""
BROKER_CONFIG: Final = "broker"
"""Set on one broker, dynamically."""
CLUSTER_CONFIG: Final = "cluster"
"""Set on all brokers at once, dynamically."""
STATIC_CONFIG: Final = "static"
"""Written in a broker's properties file."""
DEFAULT_CONFIG: Final = "default"
"""Kafka's own default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAnswer:
    """A setting in force, and where it comes from. `value` None: it has none, or it is sensitive and was not kept."""

    value: str | None
    source: str
    sensitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerAnswer:
    """A producer that a partition's leader remembers. -1 on the wire is None here."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    current_transaction_first_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAnswer:
    """A partition: by the brokers' metadata, and by its leader. `errors`: question -> why it has no answer.

    `high_watermark` is the end for read_uncommitted, `last_stable_offset` the end for read_committed.
    """

    partition: int
    leader_id: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_start_offset: int | None
    high_watermark: int | None
    last_stable_offset: int | None
    producers: tuple[ProducerAnswer, ...] | None
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAnswer:
    """A topic. `configs` None: not answered."""

    topic: str
    topic_id: str | None
    partitions: tuple[PartitionAnswer, ...]
    configs: Mapping[str, ConfigAnswer] | None
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAnswer:
    """A broker that takes part. `configs` None: not answered."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    configs: Mapping[str, ConfigAnswer] | None
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedAnswer:
    """A group's committed offset."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """A group. `type`: classic, consumer, share, streams. `offsets` None: not answered, or it commits none.

    `offsets_partition`: partition of `__consumer_offsets` that keeps them, as the group's own name gives it.
    """

    group: str
    type: str
    state: str | None
    members: int | None
    offsets: tuple[CommittedAnswer, ...] | None
    offsets_partition: int | None = None
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAnswer:
    """A transactional id at its coordinator. Where it was listed and not described, most of it is None.

    `state_partition`: partition of `__transaction_state` that keeps it, as the id itself gives it.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int | None
    timeout_ms: int | None
    started_at_ms: int | None
    partitions: tuple[TopicPartition, ...] | None
    state_partition: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAnswers:
    """One round of questions.

    `asked_at_ms`: question -> when it was asked, by the asker's clock. `unanswered`: question -> why nobody answered.
    `groups`, `transactions` None: not answered.
    """

    started_at_ms: int
    finished_at_ms: int
    cluster_id: str | None
    controller_id: int | None
    brokers: tuple[BrokerAnswer, ...]
    topics: tuple[TopicAnswer, ...]
    groups: tuple[GroupAnswer, ...] | None
    transactions: tuple[TransactionAnswer, ...] | None
    asked_at_ms: Mapping[str, int] = field(default_factory=dict)
    unanswered: Mapping[str, str] = field(default_factory=dict)

    def topic_named(self, name: str) -> TopicAnswer | None:
        """The answer about a topic."""
        return next((t for t in self.topics if t.topic == name), None)

    def partitions(self) -> Iterator[tuple[str, PartitionAnswer]]:
        """Every partition with its topic's name."""
        for topic in self.topics:
            for partition in topic.partitions:
                yield topic.topic, partition

    def renamed(self, topic: Rename, identifier: Rename) -> "ClusterAnswers":
        """The same answers, topics and what clients chose (groups, transactional ids) under other names.

        What a client wrote beside a commit goes; in a reason why something was not answered the names change, too.
        """
        reasons = self._renamed_reasons(topic, identifier)
        return replace(
            self,
            brokers=tuple(replace(b, errors=reasons(b.errors)) for b in self.brokers),
            unanswered=reasons(self.unanswered),
            topics=tuple(
                replace(
                    t,
                    topic=topic(t.topic),
                    partitions=tuple(replace(p, errors=reasons(p.errors)) for p in t.partitions),
                    errors=reasons(t.errors),
                )
                for t in self.topics
            ),
            groups=_each(
                self.groups,
                lambda g: replace(
                    g,
                    group=identifier(g.group),
                    errors=reasons(g.errors),
                    offsets=_each(g.offsets, lambda o: replace(o, topic=topic(o.topic), metadata=None)),
                ),
            ),
            transactions=_each(
                self.transactions,
                lambda t: replace(
                    t,
                    transactional_id=identifier(t.transactional_id),
                    partitions=_each(t.partitions, lambda p: TopicPartition(topic(p.topic), p.partition)),
                ),
            ),
        )

    def _renamed_reasons(self, topic: Rename, identifier: Rename) -> Callable[[Mapping[str, str]], dict[str, str]]:
        """A client's error may name what it was asked about."""
        names = {t.transactional_id: identifier(t.transactional_id) for t in self.transactions or ()}
        names |= {g.group: identifier(g.group) for g in self.groups or ()}
        names |= {o.topic: topic(o.topic) for g in self.groups or () for o in g.offsets or ()}
        names |= {t.topic: topic(t.topic) for t in self.topics}
        known = sorted((n for n, new in names.items() if n and new != n), key=len, reverse=True)
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)") if known else None

        def renamed(errors: Mapping[str, str]) -> dict[str, str]:
            return {q: pattern.sub(lambda m: names[m[0]], e) if pattern is not None else e for q, e in errors.items()}

        return renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedAnswers:
    """What the snapshot keeps: the round before the logs were copied, and the one after; None where none was asked."""

    before: ClusterAnswers | None
    after: ClusterAnswers | None

    def renamed(self, topic: Rename, identifier: Rename) -> "CapturedAnswers":
        """Both rounds under other names: see `ClusterAnswers.renamed`."""
        return CapturedAnswers(
            before=self.before.renamed(topic, identifier) if self.before is not None else None,
            after=self.after.renamed(topic, identifier) if self.after is not None else None,
        )


def _each(values: Iterable[T] | None, change: Callable[[T], U]) -> tuple[U, ...] | None:
    return tuple(map(change, values)) if values is not None else None


def to_json(answers: CapturedAnswers) -> str:
    """The answers as `cluster-answers.json` holds them."""
    return json.dumps({"schema_version": SCHEMA_VERSION, **asdict(answers)}, separators=(",", ":"), sort_keys=True)


def from_json(text: str, *, where: str) -> CapturedAnswers:
    """Reads `cluster-answers.json`. Raises `SnapshotError` that names the file and what is wrong with it."""
    try:
        value = json.loads(text)
        version = value["schema_version"]
        if version != SCHEMA_VERSION:
            raise SnapshotError(
                f"{where} has schema version {version}; this release reads version {SCHEMA_VERSION}. "
                "Take the snapshot again, or use the release that wrote it."
            )
        before, after = (_optional(value[name], _answers) for name in ("before", "after"))
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SnapshotError(
            f"{where} does not hold a cluster's answers that can be used ({type(error).__name__}: {error}). "
            "Take the snapshot again, or remove the file to audit the logs without them."
        ) from error
    return CapturedAnswers(before=before, after=after)


def _answers(value: Any) -> ClusterAnswers:
    return ClusterAnswers(
        started_at_ms=_instant(value["started_at_ms"]),
        finished_at_ms=_instant(value["finished_at_ms"]),
        cluster_id=_optional(value["cluster_id"], _text),
        controller_id=_optional(value["controller_id"], _int32),
        brokers=tuple(_broker(b) for b in _list(value["brokers"])),
        topics=tuple(_topic(t) for t in _list(value["topics"])),
        groups=_all(value["groups"], _group),
        transactions=_all(value["transactions"], _transaction),
        asked_at_ms={_text(name): _instant(at) for name, at in value["asked_at_ms"].items()},
        unanswered=_reasons(value["unanswered"]),
    )


def _broker(value: Any) -> BrokerAnswer:
    return BrokerAnswer(
        broker_id=_int32(value["broker_id"]),
        host=_text(value["host"]),
        port=_int32(value["port"]),
        rack=_optional(value["rack"], _text),
        configs=_optional(value["configs"], _configs),
        errors=_reasons(value["errors"]),
    )


def _topic(value: Any) -> TopicAnswer:
    return TopicAnswer(
        topic=_text(value["topic"]),
        topic_id=_optional(value["topic_id"], _text),
        partitions=tuple(_partition(p) for p in _list(value["partitions"])),
        configs=_optional(value["configs"], _configs),
        errors=_reasons(value["errors"]),
    )


def _partition(value: Any) -> PartitionAnswer:
    return PartitionAnswer(
        partition=_int32(value["partition"]),
        replicas=tuple(_int32(b) for b in _list(value["replicas"])),
        isr=tuple(_int32(b) for b in _list(value["isr"])),
        producers=_all(value["producers"], _producer),
        errors=_reasons(value["errors"]),
        **{name: _optional(value[name], _int32) for name in ("leader_id", "leader_epoch")},
        **{
            name: _optional(value[name], _int64)
            for name in ("log_start_offset", "high_watermark", "last_stable_offset")
        },
    )


def _producer(value: Any) -> ProducerAnswer:
    return ProducerAnswer(
        producer_id=_int64(value["producer_id"]),
        producer_epoch=_int32(value["producer_epoch"]),
        last_sequence=_optional(value["last_sequence"], _int32),
        last_timestamp_ms=_optional(value["last_timestamp_ms"], _int64),
        coordinator_epoch=_optional(value["coordinator_epoch"], _int32),
        current_transaction_first_offset=_optional(value["current_transaction_first_offset"], _int64),
    )


def _group(value: Any) -> GroupAnswer:
    return GroupAnswer(
        group=_text(value["group"]),
        type=_text(value["type"]),
        state=_optional(value["state"], _text),
        members=_optional(value["members"], _int32),
        offsets=_all(value["offsets"], _committed),
        offsets_partition=_optional(value["offsets_partition"], _int32),
        errors=_reasons(value["errors"]),
    )


def _committed(value: Any) -> CommittedAnswer:
    return CommittedAnswer(
        topic=_text(value["topic"]),
        partition=_int32(value["partition"]),
        offset=_int64(value["offset"]),
        leader_epoch=_optional(value["leader_epoch"], _int32),
        metadata=_optional(value["metadata"], _text),
    )


def _transaction(value: Any) -> TransactionAnswer:
    return TransactionAnswer(
        transactional_id=_text(value["transactional_id"]),
        state=_text(value["state"]),
        producer_id=_int64(value["producer_id"]),
        producer_epoch=_optional(value["producer_epoch"], _int32),
        timeout_ms=_optional(value["timeout_ms"], _int32),
        started_at_ms=_optional(value["started_at_ms"], _int64),
        partitions=_all(value["partitions"], lambda p: TopicPartition(_text(p[0]), _int32(p[1]))),
        state_partition=_optional(value["state_partition"], _int32),
    )


def _configs(value: Any) -> dict[str, ConfigAnswer]:
    return {
        _text(name): ConfigAnswer(
            value=None if c["sensitive"] else _optional(c["value"], _text),
            source=_text(c["source"]),
            sensitive=bool(c["sensitive"]),
        )
        for name, c in value.items()
    }


def _reasons(value: Any) -> dict[str, str]:
    return {_text(name): _text(reason) for name, reason in value.items()}


def _optional(value: Any, read: Callable[[Any], T]) -> T | None:
    return None if value is None else read(value)


def _all(value: Any, read: Callable[[Any], T]) -> tuple[T, ...] | None:
    return None if value is None else tuple(read(v) for v in _list(value))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list was due, not {type(value).__name__}")
    return value


def _int32(value: Any) -> int:
    """An id, an epoch, a count: what Kafka's protocol has 32 bits for, as the facts have."""
    return _integer(value, -(1 << 31), (1 << 31) - 1)


def _int64(value: Any) -> int:
    return _integer(value, -(1 << 63), LARGEST_WHOLE)


def _instant(value: Any) -> int:
    """When the asker's clock says that it asked, in milliseconds."""
    return _integer(value, 0, LAST_INSTANT_MS)


def _integer(value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a whole number was due, not {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"a whole number from {least} to {most} was due")
    return value


def _text(value: Any) -> str:
    """A text that can be printed and kept, which half of a surrogate pair cannot."""
    if not isinstance(value, str):
        raise TypeError(f"a text was due, not {type(value).__name__}")
    value.encode("utf-8")
    return value
