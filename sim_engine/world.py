"""A cluster in miniature, at one moment of virtual time.

In: nothing. Out: the values that a step reads and makes anew. The rule that must hold: a `World` is never changed;
`engine.step` gives another one, which shares all that stayed as it was.

    World       settings, clock, queue, controller, brokers, clients, network, remote store, truth
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

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import Delivered
from tidegauge.sim_engine.files.render import RenamedReplica, Replica
from tidegauge.sim_engine.log.remote_metadata import RemoteSegment, RemoteView
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.tiering import RemoteObject, RemoteStore
from tidegauge.sim_engine.messages import FetchRequest, MetadataFetch
from tidegauge.sim_engine.metadata.controller import ClusterImage
from tidegauge.sim_engine.metadata.metadata_log import MetadataLog
from tidegauge.sim_engine.metadata.metadata_snapshot import MetadataSnapshot
from tidegauge.sim_engine.network import Network
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.truth import Truth

Event = tuple[int, int, object]
"""When, its number (which orders what happens at once), and the action."""


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A file that is to be removed, by its path below the log dir."""

    path: str
    data: bytes
    since_ms: int


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
    renamed: tuple[RenamedReplica, ...] = ()
    metadata_snapshots: tuple[MetadataSnapshot, ...] | None = None
    """Of the metadata log, oldest first; None before the node has got anything of it."""
    waiting_files: tuple[WaitingFile, ...] = ()
    """Of the metadata log, to be removed."""
    room_bytes: int | None = None
    """How much more fits; None for enough."""
    written_at_ms: Mapping[str, int] = field(default_factory=dict)
    """When checkpoint files were last written, by their names."""
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
class RemoteWrite:
    """A record about a segment, for a partition of the metadata topic; it waits there for those before it.

    From `due_at_ms` on it is sent again.
    """

    number: int
    metadata_partition: int
    segment: RemoteSegment
    is_first: bool
    due_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTask:
    """What the leader of a tiered partition is about: a segment that gets into its next state.

    `moving`: the store is at work; else the record of `segment`'s state is on its way, until the view shows it.
    `doomed` are the segments to be deleted after this one.
    """

    number: int
    leader_epoch: int
    segment: RemoteSegment
    copy: RemoteObject | None = None
    moving: bool = False
    doomed: tuple[RemoteSegment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWork:
    """A broker's RemoteLogManager: what it has read of the metadata topic, what it writes there, its tasks.

    `reads` are the next offsets by partition of the metadata topic, `asked` the requests under way there with when they
    were sent, `sequences` the producer's next sequence numbers. `started` holds the leader epochs of partitions whose
    log start was looked up in the tier.
    """

    ticking: bool = False
    view: RemoteView = field(default_factory=RemoteView)
    reads: Mapping[int, int] = field(default_factory=dict)
    asked: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    producer_id: int = -1
    producer_epoch: int = -1
    producer_asked: int = -1
    sequences: Mapping[int, int] = field(default_factory=dict)
    writes: tuple[RemoteWrite, ...] = ()
    tasks: Mapping[TopicPartition, RemoteTask] = field(default_factory=dict)
    started: Mapping[TopicPartition, int] = field(default_factory=dict)


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
    metadata_bytes: int = 0
    """Read of the metadata log since the last snapshot, or since the start."""
    snapshot_at_ms: int = 0
    metadata_correlation: int = -1
    metadata_asked_at_ms: int = 0
    leading: Mapping[TopicPartition, Leadership] = field(default_factory=dict)
    following: Mapping[TopicPartition, Following] = field(default_factory=dict)
    fetchers: Mapping[int, Fetcher] = field(default_factory=dict)
    held_fetches: Mapping[int, HeldFetch] = field(default_factory=dict)
    last_fetches: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    coordinators: Mapping[str, object] = field(default_factory=dict)
    remote: RemoteWork = field(default_factory=RemoteWork)


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
    remote: RemoteStore = field(default_factory=RemoteStore)
    truth: Truth = field(default_factory=Truth)
    queue: tuple[Event, ...] = ()
