"""What can happen to a world on account of transactions and groups: calls of clients, and faults.

Nothing flows in or out here. As in `sim_engine.actions`, an action is a value.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.share_coordinator import StateBatch
from tidegauge.sim_engine.log.stored_batch import NewRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTransactionalProducer:
    """A producer with a transactional id begins, and fences all before it. `version` 1 is a client before KIP-890."""

    client: str
    transactional_id: str
    version: int = 2
    timeout_ms: int = 60_000
    request_timeout_ms: int = 5_000
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """A transaction begins."""

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendInTransaction:
    """One batch for one partition. A timestamp below 0 becomes the moment of the call."""

    client: str
    partition: TopicPartition
    records: tuple[NewRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOffsetsInTransaction:
    """A group's offsets become part of the transaction."""

    client: str
    group: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """A producer commits or aborts. One that never does is abandoned: its transaction times out."""

    client: str
    commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StartGroupConsumer:
    """A member of a group. `protocol` is classic or consumer (KIP-848)."""

    client: str
    group: str
    topics: tuple[str, ...]
    protocol: str = "classic"
    read_committed: bool = False
    commit_interval_ms: int = 5_000
    poll_interval_ms: int = 200
    heartbeat_interval_ms: int = 3_000


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """A member commits what it has read, and goes."""

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordShareState:
    """A share group's partition leader writes down how far the group got: `batches` as in its records (KIP-932)."""

    group: str
    partition: TopicPartition
    start_offset: int
    batches: tuple[StateBatch, ...]
    complete_count: int = 0


@dataclass(frozen=True, slots=True)
class LoseMarkers:
    """Every coordinator takes markers for this partition as written and sends none, until told otherwise."""

    partition: TopicPartition
    lost: bool = True


@dataclass(frozen=True, slots=True)
class DoubleMarker:
    """The leader of a partition writes its newest marker again, as for a coordinator that did not hear its answer."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteUnverified:
    """The leader takes a transactional batch of whose transaction no coordinator knows: it hangs.

    Without an epoch and sequence it is what the producer, as the leader knows it, would send next. Not
    `transactional`, it is a batch whose sequence the leader does not look at.
    """

    partition: TopicPartition
    producer_id: int
    records: tuple[NewRecord, ...]
    producer_epoch: int | None = None
    base_sequence: int | None = None
    transactional: bool = True
