"""The world's clockwork: a step, and a run of steps.

In: a world and an action, or a moment until which to run. Out: another world. The rule that must hold: `step` is a pure
function, and a world is a function of (seed, settings, the actions that were scheduled): same bytes in every process.

    new_world(seed=7, brokers=(1, 2, 3))    brokers are switched on at the first moment
    scheduled(world, at_ms, action)         something will happen then
    run(world, until_ms)                    the earliest event, its step, the next event, ...
    step(world, action)                     one action, now

Where to plug in: each action type has its handler in `ACTIONS`; each message in `BROKER_REQUESTS` (to a broker:
handler(turn, broker id, source, message)), `CONTROLLER_REQUESTS` (handler(turn, source, message)) or
`CLIENT_ANSWERS` (by client type, then message type: handler(turn, client name, message)); each timer of a broker in
`TIMERS` (handler(turn, broker id) -> milliseconds until it is due again, 0 for never). `world` says what else there is.
"""

import heapq
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tidegauge.kafka_log.control import Voter
from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.sim_engine import actions, coordinator_wiring, messages
from tidegauge.sim_engine.actions import BrokerTick, ControllerTick, Delivered, Timer
from tidegauge.sim_engine.brokers import (
    broker_life,
    broker_requests,
    follower_role,
    follower_service,
    held_fetches,
    housekeeping,
    leader_role,
    metadata_copy,
    remote_wiring,
)
from tidegauge.sim_engine.clients import consumer, producer
from tidegauge.sim_engine.controllers import controller_node
from tidegauge.sim_engine.dice import uuid_for
from tidegauge.sim_engine.disks import disk_wiring
from tidegauge.sim_engine.faults import remote_faults
from tidegauge.sim_engine.log.replica_log import LogConfig, new_log
from tidegauge.sim_engine.metadata.controller import ClusterImage, applied
from tidegauge.sim_engine.metadata.metadata_log import METADATA_VERSION, MetadataLog, begun, record, written
from tidegauge.sim_engine.network import CONTROLLER, Network
from tidegauge.sim_engine.settings import Generation, Settings
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import Broker, ControllerNode, Disk, World

# ------------------------------------------------------------------------------------------------ who handles what


def _start_client(turn: Turn, call: Any) -> None:
    (producer if isinstance(call, actions.StartProducer) else consumer).start(turn, call)


def _stop_client(turn: Turn, call: actions.StopClient) -> None:
    turn.put_client(call.client, None)


def _client_ticked(turn: Turn, tick: actions.ClientTick) -> None:
    handler = CLIENT_TIMERS.get(type(turn.client(tick.client)))
    if handler is not None:
        handler(turn, tick)


def _cut(turn: Turn, action: actions.Cut) -> None:
    turn.network = turn.network.with_cut(action.source, action.target)
    turn.note_fault("network cut", f"{action.source} -> {action.target}")


def _heal(turn: Turn, action: actions.Heal) -> None:
    turn.network = turn.network.with_heal(action.source, action.target)


def _set_link(turn: Turn, action: actions.SetLink) -> None:
    if action.source is None or action.target is None:
        turn.network = replace(turn.network, default=action.link)
    else:
        turn.network = turn.network.with_link(action.source, action.target, action.link)


def _broker_ticked(turn: Turn, tick: BrokerTick) -> None:
    running = turn.running(tick.broker_id)
    if running is None or running.incarnation != tick.incarnation:
        return
    if running.paused:
        turn.put_running(tick.broker_id, replace(running, backlog=(*running.backlog, tick)))
        return
    handler = TIMERS.get(tick.timer)
    delay_ms = handler(turn, tick.broker_id) if handler is not None else 0
    if delay_ms > 0:
        turn.after(delay_ms, tick)


def _controller_ticked(turn: Turn, tick: ControllerTick) -> None:
    CONTROLLER_TIMERS[tick.kind](turn, tick)


def _delivered(turn: Turn, delivered: Delivered) -> None:
    target, message = delivered.target, delivered.message
    if target == CONTROLLER:
        CONTROLLER_REQUESTS[type(message)](turn, delivered.source, message)
        return
    if not target.startswith("broker-"):
        name = target.removeprefix("client-")
        handler = CLIENT_ANSWERS.get(type(turn.client(name)), {}).get(type(message))
        if handler is not None:
            handler(turn, name, message)
        return
    broker_id = int(target.removeprefix("broker-"))
    running = turn.running(broker_id)
    if running is None or not running.loaded:
        return
    if running.paused:
        turn.put_running(broker_id, replace(running, backlog=(*running.backlog, delivered)))
        return
    BROKER_REQUESTS[type(message)](turn, broker_id, delivered.source, message)


ACTIONS: Final[dict[type, Callable[[Turn, Any], None]]] = {
    Delivered: _delivered,
    BrokerTick: _broker_ticked,
    ControllerTick: _controller_ticked,
    actions.ClientTick: _client_ticked,
    actions.Loaded: broker_life.loaded,
    actions.HoldExpired: held_fetches.hold_expired,
    actions.ProduceExpired: leader_role.produce_expired,
    actions.StartProducer: _start_client,
    actions.ProduceCall: producer.produce,
    actions.RestartProducer: producer.restart,
    actions.StartConsumer: _start_client,
    actions.Poll: consumer.poll,
    actions.StopClient: _stop_client,
    actions.CreateTopic: controller_node.on_create_topic,
    actions.DeleteTopic: controller_node.on_delete_topic,
    actions.AlterConfig: controller_node.on_alter_config,
    actions.Elect: controller_node.on_elect,
    actions.Reassign: controller_node.on_reassign,
    actions.DeleteRecords: broker_requests.on_delete_records,
    actions.Start: broker_life.start,
    actions.Stop: broker_life.stop,
    actions.Kill: broker_life.kill,
    actions.LogDirFailed: broker_life.log_dir_failed,
    actions.PowerCut: broker_life.power_cut,
    actions.Pause: broker_life.pause,
    actions.Resume: broker_life.resume,
    actions.Wipe: broker_life.wipe,
    actions.Cut: _cut,
    actions.Heal: _heal,
    actions.SetLink: _set_link,
}

BROKER_REQUESTS: Final[dict[type, Callable[[Turn, int, str, Any], None]]] = {
    messages.ProduceRequest: leader_role.produce,
    messages.FetchRequest: follower_service.follower_fetch,
    messages.FetchResponse: follower_role.fetch_answered,
    messages.EpochEndRequest: follower_service.epoch_end_asked,
    messages.EpochEndResponse: follower_role.epoch_end_answered,
    messages.ConsumeRequest: follower_service.consume,
    messages.ClientMetadataRequest: broker_requests.metadata,
    messages.InitProducerIdRequest: broker_requests.init_producer_id,
    messages.ProducerIdsResponse: broker_requests.producer_ids_answered,
    messages.RegisterResponse: broker_life.registration_answered,
    messages.HeartbeatResponse: broker_life.heartbeat_answered,
    messages.MetadataResponse: metadata_copy.answered,
    messages.AlterPartitionResponse: leader_role.isr_answered,
}

CONTROLLER_REQUESTS: Final[dict[type, Callable[[Turn, str, Any], None]]] = {
    messages.RegisterRequest: controller_node.registered,
    messages.HeartbeatRequest: controller_node.heartbeat,
    messages.AlterPartitionRequest: controller_node.alter_partition,
    messages.MetadataFetch: controller_node.metadata_fetch,
    messages.ProducerIdsRequest: controller_node.producer_ids,
}

CLIENT_ANSWERS: Final[dict[type, dict[type, Callable[[Turn, str, Any], None]]]] = {
    producer.ProducerClient: {
        messages.ProduceResponse: producer.answered,
        messages.ClientMetadataResponse: producer.metadata_answered,
        messages.InitProducerIdResponse: producer.id_answered,
    },
    consumer.Consumer: {
        messages.ConsumeResponse: consumer.answered,
        messages.ClientMetadataResponse: consumer.metadata_answered,
    },
}

CLIENT_TIMERS: Final[dict[type, Callable[[Turn, actions.ClientTick], None]]] = {
    producer.ProducerClient: producer.ticked,
    consumer.Consumer: consumer.ticked,
}

TIMERS: Final[dict[Timer, Callable[[Turn, int], int]]] = {
    Timer.REGISTER: broker_life.tick_register,
    Timer.HEARTBEAT: broker_life.tick_heartbeat,
    Timer.FETCHERS: metadata_copy.tick_fetchers,
    Timer.ISR: leader_role.tick_isr,
    Timer.HIGH_WATERMARKS: housekeeping.tick_high_watermarks,
    Timer.LOG_STARTS: housekeeping.tick_log_starts,
    Timer.RECOVERY_POINTS: housekeeping.tick_recovery_points,
    Timer.RETENTION: housekeeping.tick_retention,
    Timer.CLEANER: housekeeping.tick_cleaner,
    Timer.PRODUCERS: housekeeping.tick_producers,
}

CONTROLLER_TIMERS: Final[dict[str, Callable[[Turn, ControllerTick], None]]] = {
    "sessions": controller_node.check_sessions,
    "no-op": controller_node.no_op,
    "balance": controller_node.balance,
}

ACTIONS.update(coordinator_wiring.ACTIONS)
ACTIONS.update(disk_wiring.ACTIONS)
ACTIONS.update(remote_faults.ACTIONS)
ACTIONS.update(remote_wiring.ACTIONS)
BROKER_REQUESTS.update(coordinator_wiring.BROKER_REQUESTS)
BROKER_REQUESTS.update(remote_wiring.BROKER_REQUESTS)
CLIENT_ANSWERS.update(coordinator_wiring.CLIENT_ANSWERS)
CLIENT_TIMERS.update(coordinator_wiring.CLIENT_TIMERS)
TIMERS.update(coordinator_wiring.TIMERS)
TIMERS.update(remote_wiring.TIMERS)

# ---------------------------------------------------------------------------------------------------------- a world


def new_world(
    *,
    seed: int,
    brokers: Sequence[int] = (1, 2, 3),
    settings: Settings | None = None,
    network: Network | None = None,
) -> World:
    """A cluster that was formatted, and whose brokers are switched on at its first moment."""
    settings = settings if settings is not None else Settings()
    now_ms = settings.started_at_ms
    directories = {b: uuid_for(seed, f"directory-{b}") for b in brokers}
    metadata, first = _formatted(directories, settings)
    world = World(
        seed=seed,
        now_ms=now_ms,
        sequence=0,
        settings=settings,
        controller=ControllerNode(metadata=metadata, image=applied(ClusterImage(), first), quorum_leader_id=brokers[0]),
        brokers={
            b: Broker(
                disk=Disk(
                    broker_id=b,
                    directory_id=directories[b],
                    metadata=new_log(LogConfig(), now_ms=now_ms),
                    quorum_leader_id=None,
                    quorum_leader_epoch=0,
                ),
                running=None,
            )
            for b in brokers
        },
        network=network if network is not None else Network(),
    )
    for broker_id in brokers:
        world = scheduled(world, now_ms, actions.Start(broker_id))
    world = scheduled(world, now_ms + controller_node.SESSION_CHECK_MS, ControllerTick("sessions"))
    if settings.no_op_interval_ms is not None:
        world = scheduled(world, now_ms + settings.no_op_interval_ms, ControllerTick("no-op"))
    if settings.preferred_election_interval_ms is not None:
        world = scheduled(world, now_ms + settings.preferred_election_interval_ms, ControllerTick("balance"))
    return world


def _formatted(directories: Mapping[int, str], settings: Settings) -> tuple[MetadataLog, list[MetadataRecord]]:
    """The metadata log as `kafka-storage format` leaves it, and its first records. `directories`: of the voters, the
    first leader first.
    """
    voters = [
        Voter(
            voter_id=b,
            directory_id=directories[b],
            endpoints=(("CONTROLLER", "127.0.0.1", 29090 + b),),
            min_kraft_version=0,
            max_kraft_version=1,
        )
        for b in directories
    ]
    config = LogConfig(segment_bytes=settings.metadata_segment_bytes)
    metadata = begun(leader_id=next(iter(directories)), voters=voters, now_ms=settings.started_at_ms, config=config)
    first = [
        record("FeatureLevelRecord", 0, name=name, feature_level=level)
        for name, level in sorted(_features(settings.generation).items())
    ]
    first += [
        record("ConfigRecord", 0, resource_type=4, resource_name="", name=name, value=value)
        for name, value in sorted(settings.broker_config.items())
    ]
    return written(metadata, first, now_ms=settings.started_at_ms), first


def _features(generation: Generation) -> Mapping[str, int]:
    features = {"metadata.version": METADATA_VERSION, "group.version": 1, "transaction.version": 2}
    return {**features, "eligible.leader.replicas.version": 1} if generation >= Generation.ELR else features


def scheduled(world: World, at_ms: int, action: object) -> World:
    """The world in which this will happen then; not before now."""
    sequence = world.sequence + 1
    queue = list(world.queue)
    insort(queue, (max(at_ms, world.now_ms), sequence, action), key=_order)
    return replace(world, sequence=sequence, queue=tuple(queue))


def scheduled_all(world: World, events: Iterable[tuple[int, object]]) -> World:
    """The same for many, in the given order where their moments are equal."""
    sequence = world.sequence
    queue = list(world.queue)
    for at_ms, action in events:
        sequence += 1
        queue.append((max(at_ms, world.now_ms), sequence, action))
    return replace(world, sequence=sequence, queue=tuple(sorted(queue, key=_order)))


def step(world: World, action: object) -> World:
    """One action, now."""
    turn = Turn(world)
    ACTIONS[type(action)](turn, action)
    after = turn.done()
    return replace(after, queue=tuple(sorted((*world.queue, *turn.events), key=_order))) if turn.events else after


def run(world: World, until_ms: int) -> World:
    """All that happens until then, `until_ms` included; that is the time afterwards."""
    # Sorted by time and number, which is a heap; no two events have the same number, so actions are never compared.
    heap = list(world.queue)
    turn = Turn(world)
    while heap and heap[0][0] <= until_ms:
        turn.now_ms, _, action = heapq.heappop(heap)
        ACTIONS[type(action)](turn, action)
        for event in turn.taken():
            heapq.heappush(heap, event)
    after = turn.done()
    return replace(after, now_ms=max(after.now_ms, until_ms), queue=tuple(sorted(heap, key=_order)))


def run_for(world: World, duration_ms: int) -> World:
    """The same for a while."""
    return run(world, world.now_ms + duration_ms)


def _order(event: tuple[int, int, object]) -> tuple[int, int]:
    return event[0], event[1]
