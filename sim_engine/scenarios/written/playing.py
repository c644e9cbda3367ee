"""A written scenario, played.

In: the scenario and a seed. Out: `Played`; and a `Scenario` like those that are written in Python. Raises
`ScenarioFileError` for a step whose time has not come: a broker that is told to start while it still runs, say.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from tidegauge.sim_engine.actions import StartProducer
from tidegauge.sim_engine.disks.disk_actions import HurtDisk
from tidegauge.sim_engine.engine import new_world, run, run_for, scheduled_all, step
from tidegauge.sim_engine.scenarios.scenario import Moment, Played, Scenario
from tidegauge.sim_engine.scenarios.written import claims
from tidegauge.sim_engine.scenarios.written.form import Act, Need, Step, WrittenMoment, WrittenScenario
from tidegauge.sim_engine.scenarios.written.places import shown_ms
from tidegauge.sim_engine.world import World

_UP_MS: Final = 5_000
_SETTLED_MS: Final = 1_000
_MOST_EARLIER: Final = 64


def as_scenario(written: WrittenScenario) -> Scenario:
    """The same as those that are written in Python."""
    return Scenario(name=written.name, about=written.about, play=partial(play, written), told=written.text)


def play(written: WrittenScenario, seed: int) -> Played:
    """Plays it from beginning to end."""
    world = begun(written, seed)
    begins_ms = world.now_ms
    moments: list[Moment] = []
    for each in written.steps:
        world = run(world, max(begins_ms + each.at_ms, world.now_ms))
        if isinstance(each.does, WrittenMoment):
            claims.hold(each.place, each.does, world)
            moments.append(_moment(each.does, world))
        else:
            _refuse(each, each.does, world)
            faults = len(world.truth.faults)
            for _, action in (event for event in each.does.events if event[0] == 0):
                world = step(world, action)
            later = [(world.now_ms + wait_ms, action) for wait_ms, action in each.does.events if wait_ms > 0]
            world = scheduled_all(world, later)
            if len(world.truth.faults) == faults and _is_to_hurt(each.does):
                raise each.place.error(
                    f"at {shown_ms(each.at_ms)} there is nothing of the kind to damage. Send records before it."
                )
    return Played(tuple(moments))


def begun(written: WrittenScenario, seed: int) -> World:
    """The world at a scenario's beginning: brokers are up, topics are there, producer ids were given out."""
    world = run_for(new_world(seed=seed, brokers=written.brokers, settings=written.settings), _UP_MS)
    for topic in written.topics:
        world = run_for(step(world, topic), _SETTLED_MS)
    highest = written.highest_producer_id
    for number in range(_MOST_EARLIER):
        if highest is None or world.controller.image.next_producer_id > highest:
            break
        # Producers have been here before, so that the id is one that the controller has given out.
        world = run_for(step(world, StartProducer(client=f"earlier-{number}", idempotent=True)), _SETTLED_MS)
    return world


def _moment(said: WrittenMoment, world: World) -> Moment:
    return Moment(
        name=said.name,
        what=said.what,
        world=world,
        losses=said.losses,
        findings=said.findings,
        previous=said.previous,
        unseen=said.unseen,
    )


def _is_to_hurt(act: Act) -> bool:
    return any(isinstance(action, HurtDisk) for _, action in act.events)


def _refuse(each: Step, act: Act, world: World) -> None:
    for need, whom in act.needs:
        problem = _NEEDS[need](world, whom)
        if problem is not None:
            raise each.place.error(f"at {shown_ms(each.at_ms)} {problem}")


def _runs(world: World, broker_id: int | str) -> str | None:
    assert isinstance(broker_id, int)
    if world.brokers[broker_id].running is not None:
        return None
    return f"broker {broker_id} is down. Start it before, or take this step out."


def _down(world: World, broker_id: int | str) -> str | None:
    assert isinstance(broker_id, int)
    running = world.brokers[broker_id].running
    if running is None:
        return None
    if running.stopping_since_ms is not None:
        return f"broker {broker_id} is still stopping. Wait longer, or kill it."
    return f"broker {broker_id} is running. Stop or kill it before."


def _paused(world: World, broker_id: int | str) -> str | None:
    assert isinstance(broker_id, int)
    running = world.brokers[broker_id].running
    return None if running is not None and running.paused else f"broker {broker_id} is not paused. Pause it before."


def _started(world: World, client: int | str) -> str | None:
    return None if client in world.clients else f"{client} has not begun, or is gone. Add `- start: {client}` before."


def _not_started(world: World, client: int | str) -> str | None:
    return f"{client} has begun already. Stop it before, or take this step out." if client in world.clients else None


_NEEDS: Final[dict[Need, Callable[[World, int | str], str | None]]] = {
    Need.RUNS: _runs,
    Need.DOWN: _down,
    Need.PAUSED: _paused,
    Need.STARTED: _started,
    Need.NOT_STARTED: _not_started,
}
