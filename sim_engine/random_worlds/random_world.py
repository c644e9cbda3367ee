"""A random world: planned, lived through, copied at one or two moments, and what an audit should find there.

In: a seed, kinds of faults, hours of virtual time. Out: `RandomWorld`. The rule that must hold: it is a pure function,
the same bytes in every process; without kinds of faults nothing happens that a sound cluster need not bear, and nothing
but facts (severity info) may be reported.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import new_world, run, run_for, scheduled_all, step
from tidegauge.sim_engine.files.render import BrokerDisk
from tidegauge.sim_engine.random_worlds.chance import Chance
from tidegauge.sim_engine.random_worlds.expected import Expected
from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.random_worlds.file_damage import CHANGES, hurt_file, told_with
from tidegauge.sim_engine.random_worlds.lawful import happened, shared
from tidegauge.sim_engine.random_worlds.plan import BEGIN_MS, TOPICS_MS, Plan, plan
from tidegauge.sim_engine.random_worlds.seen import expected
from tidegauge.sim_engine.random_worlds.strikes import STRIKES, strike
from tidegauge.sim_engine.random_worlds.struck import Struck
from tidegauge.sim_engine.random_worlds.traffic import traffic
from tidegauge.sim_engine.rendering.live_copy import LiveCopy, live_copy
from tidegauge.sim_engine.rendering.live_copy import Moment as Instant
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.settings import Generation
from tidegauge.sim_engine.truth import Truth
from tidegauge.sim_engine.world import World

DEFAULT_HOURS: Final = 0.025
"""A minute and a half: some hundred batches, half a dozen happenings."""
_SHORTEST_MS: Final = 30_000
_SETTLE_MS: Final = 20_000
_STOP_MS: Final = 45_000
_SLOT_MS: Final = 14_000

_TIERED: Final = frozenset(
    {WorldFault.REMOTE_TIER_GAP, WorldFault.LOST_REMOTE_SEGMENT, WorldFault.WRONG_REMOTE_DELETION}
)
_OLD: Final = (Generation.HIGH_WATERMARK, Generation.KIP_101, Generation.KIP_279)

CopyKind = Literal["running", "stopped", "live"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomMoment:
    """A copy of the cluster: of one instant while it runs or after it stopped, or of many (`live`).

    `previous` names the earlier moment with which an audit should compare it. `disks` are those of the last instant.
    """

    name: str
    what: str
    kind: CopyKind
    world: World
    disks: tuple[BrokerDisk, ...]
    live: LiveCopy | None = None
    previous: str | None = None
    expected: Expected = field(default_factory=Expected)

    @property
    def truth(self) -> Truth:
        """What truly happened until then."""
        return self.world.truth


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomWorld:
    """What chance made of a seed."""

    seed: int
    faults: tuple[WorldFault, ...]
    hours: float
    moments: tuple[RandomMoment, ...]


def random_world(
    seed: int,
    *,
    faults: Sequence[WorldFault] = (),
    hours: float = DEFAULT_HOURS,
    heard: Callable[[int], None] = lambda lived_ms: None,
) -> RandomWorld:
    """Of the kinds of faults that are given, chance takes up to three. `heard`: how much longer the world has lived."""
    chance, fate = Chance(seed, "life"), Chance(seed, "faults")
    kinds = fate.some_of(faults, fate.between(1, 3))
    old = fate.one_of(_OLD) if WorldFault.OLD_PROTOCOL in kinds else None
    planned = plan(seed, generation=old, tiered=not _TIERED.isdisjoint(kinds))
    length_ms = max(int(hours * 3_600_000), _SHORTEST_MS)
    life = _Life(
        planned=planned,
        chance=chance,
        world=_begun(planned, seed, length_ms - (_SETTLE_MS if chance.percent(50) else 0)),
        due=_due(fate, [kind for kind in kinds if kind in STRIKES], length_ms),
    )
    begun_ms = life.world.now_ms
    first_ms = length_ms * chance.between(35, 65) // 100 if chance.percent(50) else None
    at_ms = BEGIN_MS + chance.below(_SLOT_MS)
    while at_ms < length_ms - _SETTLE_MS:
        if first_ms is not None and not life.moments and at_ms >= first_ms:
            life.copy("first", ("running", "live"))
        life.go_on(begun_ms + at_ms)
        slot_ms = chance.between(_SLOT_MS // 2, _SLOT_MS * 3 // 2)
        at_ms += slot_ms
        heard(slot_ms)
    while life.due:
        life.go_on(begun_ms + max(at_ms, life.due[0][0]))
    life.world = run(life.world, begun_ms + length_ms)
    last = "second" if life.moments else "first"
    of_files = [kind for kind in kinds if kind in CHANGES]
    if of_files:
        # Who copies a file while it is written may find anything in it.
        life.copy(last, ("running", "stopped"))
        life.hurt_files(of_files, fate)
    else:
        life.copy(last, ("running", "stopped", "live"))
    return RandomWorld(seed=seed, faults=tuple(faults), hours=hours, moments=tuple(life.moments))


def _begun(planned: Plan, seed: int, calm_ms: int) -> World:
    """The cluster with all that its clients will do."""
    world = new_world(seed=seed, brokers=planned.brokers, settings=planned.settings)
    calls = traffic(planned, seed=seed, begin_ms=BEGIN_MS, end_ms=calm_ms)
    events: list[tuple[int, object]] = [(TOPICS_MS, topic) for topic in planned.topics]
    events += sorted(calls, key=lambda call: call[0])
    return scheduled_all(world, [(world.now_ms + at_ms, action) for at_ms, action in events])


def _due(chance: Chance, kinds: Sequence[WorldFault], length_ms: int) -> list[tuple[int, WorldFault]]:
    """When which faults strike, from the beginning on."""
    first_ms, last_ms = BEGIN_MS + length_ms // 5, max(length_ms - _SETTLE_MS, BEGIN_MS + length_ms // 4)
    return sorted((chance.between(first_ms, last_ms), kind) for kind in kinds)


@dataclass(slots=True)
class _Life:
    """A world while it lives: what is still to strike it, what did, and the copies that were made."""

    planned: Plan
    chance: Chance
    world: World
    due: list[tuple[int, WorldFault]]
    struck: list[Struck] = field(default_factory=list)
    moments: list[RandomMoment] = field(default_factory=list)
    copied: tuple[World, ...] = ()
    """Between which moments the first copy was made."""

    def go_on(self, at_ms: int) -> None:
        """Time passes until then; then comes a fault that is due, or something lawful."""
        self.world = shared(run(self.world, at_ms), self.planned, self.chance)
        since_ms = self.world.now_ms - self.world.settings.started_at_ms
        if self.due and self.due[0][0] <= since_ms:
            self.world, struck = strike(self.due.pop(0)[1], self.world, self.planned, self.chance)
            self.struck += struck
        else:
            self.world = happened(self.world, self.planned, self.chance)

    def hurt_files(self, kinds: Sequence[WorldFault], chance: Chance) -> None:
        """Files of the last copy say something wrong."""
        for kind in kinds:
            moment = self.moments[-1]
            hurt = hurt_file(moment.disks, kind, chance, world=moment.world)
            if hurt is not None:
                self.moments[-1] = replace(moment, disks=hurt.disks, expected=told_with(moment.expected, hurt))

    def copy(self, name: str, kinds: Sequence[CopyKind]) -> None:
        """A moment; what is expected of it is seen at its beginning and at its end."""
        begun = self.world
        self.world, moment = _copied(begun, self.chance, name=name, kinds=kinds)
        if self.moments:
            moment = replace(moment, previous=self.moments[0].name)
        worlds = (begun, self.world) if moment.kind == "live" else (self.world,)
        self.moments.append(replace(moment, expected=expected(self.struck, worlds, self.copied)))
        self.copied = self.copied or worlds


def _copied(world: World, chance: Chance, *, name: str, kinds: Sequence[CopyKind]) -> tuple[World, RandomMoment]:
    kind = chance.one_of(kinds)
    live: LiveCopy | None = None
    if kind == "live":
        world, live = _copied_live(world, chance)
    elif kind == "stopped":
        world = _stopped(world, chance)
    what = {
        "running": "All disks at one instant, while brokers run.",
        "stopped": "All brokers were stopped in good order.",
        "live": "The cluster went on while it was copied.",
    }[kind]
    disks = tuple(snapshot_of(world))
    return world, RandomMoment(name=name, what=what, kind=kind, world=world, disks=disks, live=live)


def _copied_live(world: World, chance: Chance) -> tuple[World, LiveCopy]:
    instants = [_instant(world)]
    step_ms = chance.one_of((50, 300, 1_500))
    for _ in range(chance.between(2, 6)):
        world = run_for(world, step_ms)
        instants.append(_instant(world))
    return world, live_copy(instants)


def _instant(world: World) -> Instant:
    return Instant(at_ms=world.now_ms, disks=tuple(snapshot_of(world)))


def _stopped(world: World, chance: Chance) -> World:
    """Brokers stop one after the other."""
    for broker_id in chance.some_of(sorted(world.brokers), len(world.brokers)):
        world = run_for(step(world, actions.Stop(broker_id)), 2_000)
    return run_for(world, _STOP_MS)
