"""A cluster in miniature, at one moment of virtual time.

In: nothing. Out: the values that a step reads and makes anew. The rule that must hold: a `World` is never changed;
`engine.step` gives another one, which shares all that stayed as it was.

    World       settings, clock, queue, controller, brokers, clients, network, truth
    Broker      Disk (survives death) + Running (memory; None while it is dead)
    Disk        logs, checkpoint files as they were last written, the broker's copy of the metadata log
    Running     the image it applied, partitions it leads and follows, requests it holds, coordinators

Where to plug in
    coordinators     `Running.coordinators` is a map of names to frozen values of their own;
                     `leader_role.LEADERSHIP_LISTENERS` hear when a partition of their topic came or went,
                     `leader_role.WRITTEN` what became of `append_local`; requests come
                     through `engine.BROKER_REQUESTS`, time through `Timer.COORDINATORS`
    cleaner, disks   functions on `ReplicaLog` or `Disk` (`cleaner`, `recovery`, `disk_faults`), called from
                     `disk_wiring`, and when logs are loaded from `broker_life`
    clients, faults  an action type of their own and its handler in `engine.ACTIONS`
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_log.types import TopicPartition
from sim_engine.actions import Delivered
from sim_engine.log.replica_log import ReplicaLog
from sim_engine.messages import FetchRequest, MetadataFetch
from sim_engine.metadata.controller import ClusterImage
from sim_engine.metadata.metadata_log import MetadataLog
from sim_engine.network import Network
from sim_engine.rendering.render import Replica
from sim_engine.settings import Settings
from sim_engine.truth import Truth

Event = tuple[int, int, object]
"""When, its number (which orders what happens at once), and the action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """What a broker's death leaves. Checkpoints are as last written to their files."""

    broker_id: int
    directory_id: str
    metadata: ReplicaLog
    quorum_leader_id: int | None
    quorum_leader_epoch: int
    replicas: Mapping[TopicPartition, Replica] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)
    recovery_points: Mapping[TopicPartition, int] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    cleaner_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    clean_broker_epoch: int | None = None
    """In .kafka_cleanshutdown: the epoch of a broker that stopped in good order; None while it runs or if it died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerState:
    """What a leader knows of a follower (Replica#ReplicaState). -1 where it knows nothing yet."""

    log_end_offset: int = -1
    last_caught_up_ms: int = 0
    last_fetch_ms: int = 0
    leader_end_at_last_fetch: int = -1
    broker_epoch: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingIsr:
    """An ISR that a leader asked for and has no answer about."""

    isr: tuple[int, ...]
    asked_at_ms: int
    partition_epoch: int
    recovered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldProduce:
    """A producer that waits until its batch is replicated."""

    number: int
    source: str
    correlation: int
    required_offset: int
    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """One partition that a broker leads."""

    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    epoch_start_offset: int
    recovering: bool = False
    followers: Mapping[int, FollowerState] = field(default_factory=dict)
    pending: PendingIsr | None = None
    held: tuple[HeldProduce, ...] = ()

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR with whoever may be in it already (Partition#maximalIsr)."""
        if self.pending is None:
            return self.isr
        return (*self.isr, *(b for b in self.pending.isr if b not in self.isr))


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """One partition that a broker follows. `truncating`: it waits to learn where its newest epoch ended."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    truncating: bool = False
    retry_at_ms: int = 0
    asked_at_ms: int = -1
    correlation: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """A follower's loop of fetches from one leader: one request at a time."""

    correlation: int
    sent_at_ms: int
    waiting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFetch:
    """A follower's fetch that found nothing yet."""

    request: FetchRequest
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIds:
    """A broker's block of producer ids, and who waits for the next one."""

    next_id: int = 0
    end: int = 0
    waiting: tuple[Delivered, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A broker's memory. `incarnation` counts its runs; `broker_epoch` is None until it is registered.

    `image` is what it has acted on; `known_image` is the newest in its copy of the metadata log.
    """

    incarnation: int
    incarnation_id: str
    started_at_ms: int
    loaded: bool = False
    previous_broker_epoch: int | None = None
    broker_epoch: int | None = None
    fenced: bool = True
    stopping_since_ms: int | None = None
    paused: bool = False
    backlog: tuple[object, ...] = ()
    image: ClusterImage = field(default_factory=ClusterImage)
    known_image: ClusterImage = field(default_factory=ClusterImage)
    metadata_correlation: int = -1
    metadata_asked_at_ms: int = 0
    leading: Mapping[TopicPartition, Leadership] = field(default_factory=dict)
    following: Mapping[TopicPartition, Following] = field(default_factory=dict)
    fetchers: Mapping[int, Fetcher] = field(default_factory=dict)
    held_fetches: Mapping[int, HeldFetch] = field(default_factory=dict)
    last_fetches: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    coordinators: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker. `incarnation` is that of its last run."""

    disk: Disk
    running: Running | None
    incarnation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """When the controller last heard of a broker, with which epoch, and what that had applied."""

    broker_epoch: int
    heard_at_ms: int
    metadata_end_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerNode:
    """The active controller: the metadata log, its image, brokers' sessions, who waits for metadata."""

    metadata: MetadataLog
    image: ClusterImage
    quorum_leader_id: int
    sessions: Mapping[int, Session] = field(default_factory=dict)
    waiting: Mapping[int, MetadataFetch] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything. `sequence` numbers events; `queue` is sorted by time, then number."""

    seed: int
    now_ms: int
    sequence: int
    settings: Settings
    controller: ControllerNode
    brokers: Mapping[int, Broker]
    clients: Mapping[str, object] = field(default_factory=dict)
    network: Network = field(default_factory=Network)
    truth: Truth = field(default_factory=Truth)
    queue: tuple[Event, ...] = ()
