"""What a scenario is: a story, its moments, and what is true and should be found at each.

In: a seed. Out: `Played`. A moment's losses are those of its truth ledger, and its findings are all critical and
warning breaches that an audit may report; it may always report facts (severity info).
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.render import BrokerDisk
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.truth import Truth
from tidegauge.sim_engine.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A breach that an audit should report: where, and about which offsets, as far as that is told."""

    code: str
    partition: TopicPartition | None = None
    broker_id: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRange:
    """Records [start, end) that the partition lost. `committed`, or else only acknowledged under acks 1."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The cluster as it is copied at one point of the story.

    `previous` names an earlier moment that an audit should compare it with. `unseen` says what is wrong and leaves no
    trace in this copy, or none that an invariant looks at.
    """

    name: str
    what: str
    world: World
    losses: tuple[LostRange, ...] = ()
    findings: tuple[Finding, ...] = ()
    previous: str | None = None
    unseen: str | None = None

    @property
    def disks(self) -> list[BrokerDisk]:
        """Every broker's disk."""
        return snapshot_of(self.world)

    @property
    def truth(self) -> Truth:
        """What truly happened until then."""
        return self.world.truth


@dataclass(frozen=True, slots=True)
class Played:
    """A scenario that was played: its moments in order."""

    moments: tuple[Moment, ...]

    def moment(self, name: str) -> Moment:
        """The moment of this name."""
        return next(m for m in self.moments if m.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A named story. Its text is `told`, else what `play` says of itself: the story, the truth, what an audit finds."""

    name: str
    about: str
    play: Callable[[int], Played]
    told: str | None = None

    @property
    def text(self) -> str:
        """All three paragraphs."""
        return self.told if self.told is not None else inspect.getdoc(self.play) or ""
