"""What goes over the network: requests and answers, as whole values.

Nothing flows in or out here. An answer names the request it belongs to (`correlation`), so that a late or doubled one
can be told from the one that is waited for. Errors are Kafka's names; "NONE" is none.

Source: Kafka's request schemas of the same names, as far as replication reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.stored_batch import NewRecord, Producer, StoredBatch
from tidegauge.sim_engine.metadata.controller import ClusterImage
from tidegauge.sim_engine.metadata.metadata_snapshot import MetadataSnapshot

NONE = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """One batch for one partition. `acks` is 0, 1 or -1 (all)."""

    correlation: int
    partition: TopicPartition
    records: tuple[NewRecord, ...]
    acks: int
    timeout_ms: int
    producer: Producer | None = None
    codec: CompressionType = CompressionType.NONE
    transactional_id: str | None = None
    transaction_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponse:
    """Where the batch is, or why it is not."""

    correlation: int
    partition: TopicPartition
    error: str = NONE
    base_offset: int = -1
    leader_epoch: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """One partition of a fetch. Epochs are -1 where they are not told."""

    partition: TopicPartition
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A follower's fetch of all that it follows from one leader."""

    correlation: int
    follower: int
    broker_epoch: int
    partitions: tuple[FetchPartition, ...]


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """One partition of an answer. `diverging`: the largest epoch that both know, and where it ends on the leader.

    `local_start` is told with OFFSET_MOVED_TO_TIERED_STORAGE: where the leader's local log begins, and the epoch of
    the record before that (Kafka's follower asks for both with requests of their own).
    """

    partition: TopicPartition
    fetch_offset: int
    leader_epoch: int
    error: str = NONE
    batches: tuple[StoredBatch, ...] = ()
    high_watermark: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    diverging: tuple[int, int] | None = None
    local_start: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """A leader's answer to a follower."""

    correlation: int
    leader: int
    partitions: tuple[FetchedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndRequest:
    """Where an epoch ends on the leader (OffsetsForLeaderEpoch)."""

    correlation: int
    follower: int
    partition: TopicPartition
    current_leader_epoch: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndResponse:
    """The epoch that the leader knows at or below the asked one (-1 before KIP-279), and its end; -1 if none."""

    correlation: int
    partition: TopicPartition
    error: str = NONE
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeRequest:
    """A consumer's fetch of one partition."""

    correlation: int
    partition: TopicPartition
    fetch_offset: int
    current_leader_epoch: int = -1
    read_committed: bool = False
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeResponse:
    """Batches below the high watermark, or below the last stable offset; `aborted` are (producer id, first offset)."""

    correlation: int
    partition: TopicPartition
    error: str = NONE
    batches: tuple[StoredBatch, ...] = ()
    aborted: tuple[tuple[int, int], ...] = ()
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetadataRequest:
    """A client asks who leads what."""

    correlation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetadataResponse:
    """What the asked broker knows."""

    correlation: int
    image: ClusterImage


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    """An idempotent producer without a transactional id asks for an id."""

    correlation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdResponse:
    """The id, and epoch 0."""

    correlation: int
    error: str = NONE
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterRequest:
    """A broker that has started (BrokerRegistration)."""

    broker_id: int
    incarnation_id: str
    directory_id: str
    previous_broker_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterResponse:
    """Its new epoch."""

    incarnation_id: str
    error: str = NONE
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A broker is alive and has applied the metadata log up to an offset."""

    broker_id: int
    broker_epoch: int
    metadata_end_offset: int
    wants_shutdown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """What the controller holds of it."""

    broker_epoch: int
    error: str = NONE
    fenced: bool = True
    should_shut_down: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionRequest:
    """A leader asks for another ISR; `broker_epochs` of its members as it knows them."""

    broker_id: int
    broker_epoch: int
    partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: Mapping[int, int]
    recovered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponse:
    """The partition as it is now. `asked_partition_epoch` is that of the request."""

    partition: TopicPartition
    asked_partition_epoch: int
    error: str = NONE
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFetch:
    """A broker has the metadata log up to an offset and waits for more."""

    correlation: int
    broker_id: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    """The committed metadata log, and the image that replaying it gives.

    With a `snapshot` for a node that ends before the leader's log begins (Kafka's node fetches it with requests of its
    own).
    """

    correlation: int
    log: ReplicaLog
    image: ClusterImage
    quorum_leader: int
    quorum_epoch: int
    snapshot: MetadataSnapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRequest:
    """A broker's block of producer ids is used up (AllocateProducerIds)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsResponse:
    """The next block."""

    first: int
    end: int
