"""What can happen to a world: messages that arrive, timers, calls of clients and operators, faults.

Nothing flows in or out here: an action is a value, and `engine.step` is the only thing that understands it. All that
ever happens to a world is one of these, so a world is a function of its seed and of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.stored_batch import NewRecord, StoredBatch
from tidegauge.sim_engine.network import Link


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message arrives."""

    source: str
    target: str
    message: object


class Timer(Enum):
    """A broker's periodic work. Each is set anew when it fires; a dead broker's is let go."""

    REGISTER = "register"
    HEARTBEAT = "heartbeat"
    FETCHERS = "fetchers"
    ISR = "isr"
    HIGH_WATERMARKS = "high-watermark-checkpoint"
    LOG_STARTS = "log-start-checkpoint"
    RECOVERY_POINTS = "recovery-point-checkpoint"
    RETENTION = "retention"
    CLEANER = "cleaner"
    PRODUCERS = "producer-expiration"
    COORDINATORS = "coordinators"
    REMOTE = "remote-log-manager"


@dataclass(frozen=True, slots=True)
class BrokerTick:
    """A broker's timer fires, if it is still the run that set it (`incarnation`)."""

    broker_id: int
    incarnation: int
    timer: Timer


@dataclass(frozen=True, slots=True)
class Loaded:
    """A broker has loaded its logs."""

    broker_id: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class HoldExpired:
    """A leader has held a follower's fetch for as long as it may."""

    broker_id: int
    incarnation: int
    follower: int
    correlation: int


@dataclass(frozen=True, slots=True)
class ProduceExpired:
    """A leader has held a producer's request for as long as the producer waits."""

    broker_id: int
    incarnation: int
    partition: TopicPartition
    number: int


@dataclass(frozen=True, slots=True)
class RemoteMoved:
    """The remote store has stored or removed a segment for a broker."""

    broker_id: int
    incarnation: int
    partition: TopicPartition
    number: int


@dataclass(frozen=True, slots=True)
class RemoteRetry:
    """A broker looks after what it has asked for on behalf of the remote tier, by its number."""

    broker_id: int
    incarnation: int
    number: int


@dataclass(frozen=True, slots=True)
class LogDirFailed:
    """A broker could not write a batch: there was no room for it."""

    broker_id: int
    incarnation: int
    partition: TopicPartition
    batch: StoredBatch


@dataclass(frozen=True, slots=True)
class ControllerTick:
    """The controller looks for brokers whose session has ended."""

    kind: str


@dataclass(frozen=True, slots=True)
class ClientTick:
    """A client's own timer: an answer that did not come, a pause that is over."""

    client: str
    kind: str
    number: int


# Calls of clients.


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProducer:
    """A producer begins. With a `producer_id` it does not ask for one. `max_in_flight`: requests to one partition that
    wait for an answer (Kafka counts a connection's).
    """

    client: str
    acks: int = -1
    idempotent: bool = False
    producer_id: int | None = None
    producer_epoch: int = 0
    first_sequence: int = 0
    codec: int = 0
    retries: int | None = None
    request_timeout_ms: int = 5_000
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    max_in_flight: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceCall:
    """A client sends one batch to one partition. A timestamp below 0 becomes the moment of the call."""

    client: str
    partition: TopicPartition
    records: tuple[NewRecord, ...]


@dataclass(frozen=True, slots=True)
class RestartProducer:
    """A producer loses its memory and begins anew with its id: the epoch rises, sequences start at 0 (KIP-360)."""

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartConsumer:
    """A consumer without a group. `reset` is auto.offset.reset: earliest, latest or none."""

    client: str
    partitions: tuple[TopicPartition, ...]
    read_committed: bool = False
    reset: str = "earliest"
    start_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    poll_interval_ms: int | None = 200


@dataclass(frozen=True, slots=True)
class Poll:
    """A consumer reads on."""

    client: str


@dataclass(frozen=True, slots=True)
class StopClient:
    """A client goes without a word."""

    client: str


# Calls of operators. They reach the controller, or the partition's leader, at once.


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """A topic with the given replicas of each partition."""

    name: str
    assignment: Sequence[Sequence[int]]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """A topic goes."""

    name: str


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """A topic's setting; of the whole cluster where `topic` is None. None as value takes it back."""

    topic: str | None
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Elect:
    """Preferred or unclean election of a partition's leader."""

    partition: TopicPartition
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class Reassign:
    """A partition gets other replicas."""

    partition: TopicPartition
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Records below an offset may go; -1 is the high watermark."""

    partition: TopicPartition
    before_offset: int


# Faults.


@dataclass(frozen=True, slots=True)
class Start:
    """A broker is switched on."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Stop:
    """A broker is stopped in good order."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Kill:
    """A broker's process dies; what it wrote is there."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class PowerCut:
    """A broker's machine loses power: what was not flushed may be gone."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A broker stands still (garbage collection, SIGSTOP)."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Resume:
    """It goes on, and finds all that came meanwhile."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Nothing gets from `source` to `target` any more."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Heal:
    """The way is open again."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class SetLink:
    """The way has other properties; the default of all ways where `source` and `target` are None."""

    source: str | None
    target: str | None
    link: Link


@dataclass(frozen=True, slots=True)
class Wipe:
    """A dead broker's log dir is emptied; of one partition alone, if one is named."""

    broker_id: int
    partition: TopicPartition | None = None
