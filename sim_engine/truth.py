"""What truly happened in a world: the ledger that an audit is scored against.

In: notes of those who know, at the moment they know. Out: `Truth`, and its JSON. The rule that must hold: nothing here
is ever read by a broker, a controller or a client, and no entry is ever changed.

    acknowledged   a batch as its client was told: partition, offsets, values' digests, producer, transaction
    watermarks     true high watermark and last stable offset, each time one of them moves
    elections      each decision about a leader, as the controller wrote it
    losses         records that were committed, or acknowledged, and that the log's lineage no longer has
    truncations    each cut of a follower's log
    faults         what was done to the cluster, and whether its trace is on a disk

The true high watermark of a partition is what its leaders declared; it falls only by a loss. A record is committed if
it is below it. What follows is kept per partition in `Lineage`: the committed batches themselves, and acknowledged
ones that are not committed yet (acks 1).
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.persistent import Trail
from tidegauge.sim_engine.log.stored_batch import StoredBatch

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """A batch that a client was told is written. `digests` are CRC-32s of its records' values, one a record."""

    at_ms: int
    client: str
    partition: TopicPartition
    base_offset: int
    last_offset: int
    leader_epoch: int
    acks: int
    digests: tuple[int, ...]
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """A batch that a consumer was given."""

    at_ms: int
    client: str
    partition: TopicPartition
    base_offset: int
    last_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An error that ended a client's call, or an outcome of a transaction."""

    at_ms: int
    client: str
    partition: TopicPartition | None
    what: str
    offset: int = -1
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The true offsets of a partition from a moment on."""

    at_ms: int
    partition: TopicPartition
    high_watermark: int
    last_stable_offset: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """A leader (-1 for none) with a new epoch.

    `kind` is first, clean (from the ISR), elr, preferred, last_known (nobody was eligible, and who had led last leads
    again; KIP-966), unclean, same (the epoch rose, the leader stayed) or none.
    """

    at_ms: int
    partition: TopicPartition
    kind: str
    leader: int
    leader_epoch: int
    isr_before: tuple[int, ...]
    elr_before: tuple[int, ...]
    isr: tuple[int, ...]
    metadata_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Offsets [start, end) that the lineage lost. `committed`, or else only acknowledged (acks 1)."""

    at_ms: int
    partition: TopicPartition
    start_offset: int
    end_offset: int
    leader_epoch: int
    cause: str
    broker_id: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """A replica was cut: [start, end) is no longer on it."""

    at_ms: int
    partition: TopicPartition
    broker_id: int
    start_offset: int
    end_offset: int
    leader_epoch: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that was done to the cluster. `on_disk`: whether a disk shows it, so far as is known at once."""

    at_ms: int
    kind: str
    where: str
    detail: str = ""
    partition: TopicPartition | None = None
    on_disk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What a partition's log must hold: committed batches in order; acknowledged ones above; its current epoch."""

    leader: int = -1
    leader_epoch: int = -1
    high_watermark: int = 0
    last_stable_offset: int = 0
    committed: Trail[StoredBatch] = field(default_factory=Trail)
    waiting: tuple[Acknowledged, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The ledger. `transactions` and `groups` are their coordinators' notes."""

    acknowledged: Trail[Acknowledged] = field(default_factory=Trail)
    consumed: Trail[Consumed] = field(default_factory=Trail)
    told: Trail[Told] = field(default_factory=Trail)
    watermarks: Trail[Watermark] = field(default_factory=Trail)
    elections: Trail[Elected] = field(default_factory=Trail)
    losses: Trail[Lost] = field(default_factory=Trail)
    truncations: Trail[Truncated] = field(default_factory=Trail)
    faults: Trail[Fault] = field(default_factory=Trail)
    transactions: Trail[object] = field(default_factory=Trail)
    groups: Trail[object] = field(default_factory=Trail)
    lineages: Mapping[TopicPartition, Lineage] = field(default_factory=dict)

    def lineage(self, partition: TopicPartition) -> Lineage:
        """A partition's lineage."""
        return self.lineages.get(partition) or Lineage()

    def high_watermark(self, partition: TopicPartition) -> int:
        """The true high watermark."""
        return self.lineage(partition).high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int:
        """The true last stable offset."""
        return self.lineage(partition).last_stable_offset

    def with_lineage(self, partition: TopicPartition, lineage: Lineage) -> "Truth":
        """The ledger with a partition's lineage as it is now."""
        return replace(self, lineages={**self.lineages, partition: lineage})

    def to_json(self) -> dict[str, Any]:
        """The ledger in plain values, schema version 1: a list per kind of note, a map of partitions' offsets."""
        return {
            "schema_version": SCHEMA_VERSION,
            "acknowledged": _plain(self.acknowledged),
            "consumed": _plain(self.consumed),
            "told": _plain(self.told),
            "watermarks": _plain(self.watermarks),
            "elections": _plain(self.elections),
            "losses": _plain(self.losses),
            "truncations": _plain(self.truncations),
            "faults": _plain(self.faults),
            "transactions": _plain(self.transactions),
            "groups": _plain(self.groups),
            "partitions": {
                str(partition): {
                    "leader": lineage.leader,
                    "leader_epoch": lineage.leader_epoch,
                    "high_watermark": lineage.high_watermark,
                    "last_stable_offset": lineage.last_stable_offset,
                }
                for partition, lineage in sorted(self.lineages.items())
            },
        }


def digest_of(value: bytes | None) -> int:
    """A value's CRC-32, -1 for none."""
    return -1 if value is None else zlib.crc32(value)


def _plain(notes: Iterable[object]) -> list[Any]:
    return [plain(note) for note in notes]


def plain(value: object) -> Any:
    """A note in values that JSON knows."""
    if isinstance(value, TopicPartition):
        return str(value)
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    return value
