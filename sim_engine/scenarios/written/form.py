"""What a written scenario says, as values.

Nothing flows in or out here. A step's `at_ms` counts from the moment at which the brokers are up and the topics are
there; what a step does is a list of the engine's actions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import CreateTopic
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange
from tidegauge.sim_engine.scenarios.written.places import Place
from tidegauge.sim_engine.settings import Settings


class Need(Enum):
    """What must be so before a step, of a broker or a client."""

    RUNS = "runs"
    DOWN = "down"
    PAUSED = "paused"
    STARTED = "started"
    NOT_STARTED = "not started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a step does: actions so many milliseconds after it begins, and what must be so before."""

    events: tuple[tuple[int, object], ...]
    needs: tuple[tuple[Need, int | str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidOfReplica:
    """What a broker's replica holds. None is not said."""

    place: Place
    broker_id: int
    partition: TopicPartition
    log_end_offset: int | None
    epochs: Mapping[int, int] | None
    values: tuple[str, ...] | None
    sequences: tuple[int, int, int, int] | None
    """Producer id and epoch, and [first, end) of its sequences: each once, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidOfClient:
    """What a client was told, in this order, or given; or what it was not told. None is not said."""

    place: Place
    client: str
    told: tuple[str, ...] | None
    read: tuple[TopicPartition, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidOfPartition:
    """Who leads a partition with which epoch (-1: nobody), and how far it is committed. None is not said."""

    place: Place
    partition: TopicPartition
    leader: int | None
    leader_epoch: int | None
    high_watermark: int | None
    last_stable_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenMoment:
    """A moment: what is copied, and what is said of it."""

    name: str
    what: str
    previous: str | None
    losses: tuple[LostRange, ...]
    findings: tuple[Finding, ...]
    unseen: str | None
    said: tuple[SaidOfReplica | SaidOfClient | SaidOfPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: at what time, and an act or a moment."""

    place: Place
    at_ms: int
    does: Act | WrittenMoment


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenScenario:
    """A whole file. `highest_producer_id`: the highest id that a client brings along, which somebody must have given
    out before.
    """

    name: str
    about: str
    text: str
    brokers: tuple[int, ...]
    settings: Settings
    topics: tuple[CreateTopic, ...]
    steps: tuple[Step, ...]
    highest_producer_id: int | None
