"""What an incident is, what belongs to it, and what it is made of.

In: nothing. Out: `Found`, all that one snapshot shows, and `Incident`. The rule that must hold: each breach, each loss
and each risk that is there now is a member of exactly one incident, so that no record is counted twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict

from tidegauge.expectations.verdicts import Breach
from tidegauge.relations import CommittedOffsetRow, LossRow, RiskRow

Place = tuple[str, int]
"""A topic and a partition."""


class Kind(StrEnum):
    """What an incident is of."""

    ELECTION = "election"
    """An election that gave records up, or a series of them within seconds."""
    DISK = "disk"
    """What one broker has on its disks."""
    BROKER = "broker"
    """What one broker did, or that brokers are away."""
    PRODUCER = "producer"
    """A client, by the most exact name that it has: a producer id, a transactional id, a group."""
    COORDINATOR = "coordinator"
    CONTROLLER = "controller"
    TOPIC = "topic"
    """What was done to one topic, by retention or by its settings."""
    CLUSTER = "cluster"
    """Answers of the cluster that its files contradict."""
    RECORDS = "records"
    """Records that are cut off, and nothing tells by what."""


class Rule(StrEnum):
    """By what a member was put where it is."""

    ELECTION = "election"
    """It names an election on record, or its records were written in an epoch that this election ended."""
    SERIES = "series"
    """The same of an election within seconds of another one of the incident."""
    CAUSE = "cause"
    """It points to the incident's cause, at the incident's broker, producer, topic or whatever its kind is of."""
    CONSEQUENCE = "consequence"
    """It follows from a breach of the incident."""
    SAME_RECORDS = "same_records"
    """It tells of records of which a loss or another breach of the incident tells."""
    BY_HAND = "by_hand"
    """Somebody put it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """A record of the metadata log that may have given records up: an election that was unclean, or of who led last."""

    topic: str
    partition: int
    metadata_offset: int
    at_ms: int | None
    election: str
    """unclean, last_known."""
    leader_id: int | None
    leader_epoch: int | None
    led_before: int | None
    """Who led last before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one snapshot shows. The order of its rows means nothing."""

    cluster: str
    breaches: Sequence[Breach] = ()
    losses: Sequence[LossRow] = ()
    risks: Sequence[RiskRow] = ()
    """Of which only those that are there now, without a failure, are members of an incident."""
    elections: Sequence[Election] = ()
    committed_offsets: Sequence[CommittedOffsetRow] = ()
    """Of groups that had read what is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A breach, a loss or a risk, and why it is here."""

    kind: str
    """breach, loss, risk."""
    breach_id: str | None = None
    topic: str | None = None
    """Of a loss or a risk."""
    partition: int | None = None
    leader_epoch: int | None = None
    """Of a loss: it is one with all ranges of its partition that were written in this epoch."""
    rule: Rule
    because: str
    """The evidence, one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """What went wrong. Two of the same kind, cause and place are one incident."""

    kind: Kind
    cause: str | None
    place: tuple[tuple[str, str | int], ...] = ()

    @property
    def order(self) -> tuple[bool, str, str, str]:
        """Of several that tell of the same records the first stays: an election before anything else."""
        return self.kind is not Kind.ELECTION, self.kind, self.cause or "", repr(self.place)


@dataclass(slots=True, kw_only=True)
class Group:
    """What belongs together, as it is gathered."""

    anchor: Anchor
    members: list[Member] = field(default_factory=list)
    breaches: list[Breach] = field(default_factory=list)
    losses: list[LossRow] = field(default_factory=list)
    risks: list[RiskRow] = field(default_factory=list)
    elections: set[Election] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the checklist."""

    step: str
    """Its name, the same in each run for the same thing to do."""
    sentence: str
    command: str | None = None
    """What a shell accepts as it stands."""
    to_complete: str | None = None
    """What has to be filled in first, and where from; None where nothing has to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Breaches, losses and risks of one cause and time: an element of the report's `incidents`."""

    incident_id: str
    """The same in each run that sees the same cause at the same anchor."""
    kind: Kind
    cause: str | None
    """A key of `causes.CAUSES`; None where nothing tells."""
    anchor: Mapping[str, str | int]
    """What its id is made of, besides cluster, kind and cause."""
    severity: str
    what: str
    """The beginning of its sentence: what went wrong, when, on which broker."""
    headline: str
    avoid: str
    """The one thing not to do."""
    began_at_ms: int | None
    """Its first election; None where nothing on record tells."""
    ended_at_ms: int | None
    """Its last election."""
    brokers: tuple[int, ...]
    partitions: Mapping[str, tuple[int, ...]]
    """By topic."""
    groups: tuple[str, ...]
    records_lost: int
    records_at_risk: int
    records_possible: int
    records_read: int | None
    """How many of these groups had read, at most; None where nothing tells."""
    believe: tuple[int, ...]
    members: tuple[Member, ...]
    steps: tuple[Step, ...] = ()
    """The checklist (`plan`)."""


class ToldMember(TypedDict):
    """A `Member` as a report has it."""

    kind: str
    breach_id: str | None
    topic: str | None
    partition: int | None
    leader_epoch: int | None
    rule: str
    because: str


class ToldStep(TypedDict):
    """A `Step` as a report has it."""

    step: str
    sentence: str
    command: str | None
    to_complete: str | None


class ToldIncident(TypedDict):
    """An `Incident` as a report has it."""

    incident_id: str
    kind: str
    cause: str | None
    anchor: dict[str, str | int]
    severity: str
    what: str
    headline: str
    avoid: str
    began_at_ms: int | None
    ended_at_ms: int | None
    brokers: list[int]
    partitions: dict[str, list[int]]
    groups: list[str]
    records_lost: int
    records_at_risk: int
    records_possible: int
    records_read: int | None
    believe: list[int]
    members: list[ToldMember]
    steps: list[ToldStep]
