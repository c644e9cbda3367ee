"""What clients, coordinators and leaders say to one another about transactions and groups.

Nothing flows in or out here. As in `sim_engine.messages`, an answer names its request.

A client finds its coordinator by itself: the leader of the partition that its id's hash names, as the image says.
Source: Kafka's request schemas of the same names, as far as coordinators read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.classic_group import ClassicMember
from tidegauge.sim_engine.coordinators.consumer_group import ConsumerMember
from tidegauge.sim_engine.coordinators.coordinator_effects import NONE
from tidegauge.sim_engine.coordinators.group_records import CommittedOffset
from tidegauge.sim_engine.coordinators.transaction_metadata import NO_EPOCH, NO_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class InitTransactionsRequest:
    """InitProducerId with a transactional id; producer id and epoch of who goes on after an error."""

    correlation: int
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsRequest:
    """AddPartitionsToTxn and AddOffsetsToTxn of a V1 client; of a leader, which adds (V2) or only asks (`verify`)."""

    correlation: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    client_version: int
    verify: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRequest:
    """EndTxn."""

    correlation: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAnswer:
    """A transaction coordinator's answer to any of these."""

    correlation: int
    error: str = NONE
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersRequest:
    """WriteTxnMarkers: one transaction's end for partitions of one leader."""

    correlation: int
    transactional_id: str
    coordinator_epoch: int
    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersResponse:
    """What became of each marker."""

    correlation: int
    transactional_id: str
    coordinator_epoch: int
    errors: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """OffsetCommit; with a producer id TxnOffsetCommit."""

    correlation: int
    group: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    member_id: str = ""
    generation: int = -1
    transactional_id: str | None = None
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """OffsetFetch; None asks for all partitions."""

    correlation: int
    group: str
    partitions: tuple[TopicPartition, ...] | None = None
    require_stable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """JoinGroup of a classic member."""

    correlation: int
    group: str
    member: ClassicMember


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """SyncGroup; the leader brings the assignments."""

    correlation: int
    group: str
    member_id: str
    generation: int
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHeartbeatRequest:
    """Heartbeat of a classic member; LeaveGroup if it `leaves`."""

    correlation: int
    group: str
    member_id: str
    generation: int
    leaves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatRequest:
    """ConsumerGroupHeartbeat; epoch 0 joins, -1 leaves."""

    correlation: int
    group: str
    member: ConsumerMember
    member_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupRequest:
    """DeleteGroups of one group; with topics OffsetDelete."""

    correlation: int
    group: str
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """A group coordinator's answer to any of these; `body` as the coordinator's functions say."""

    correlation: int
    error: str = NONE
    body: object = None


TransactionRequest = InitTransactionsRequest | AddPartitionsRequest | EndTransactionRequest
GroupRequest = (
    CommitRequest
    | OffsetFetchRequest
    | JoinRequest
    | SyncRequest
    | GroupHeartbeatRequest
    | ConsumerHeartbeatRequest
    | DeleteGroupRequest
)
