"""A broker's life: start, registration, heartbeats, a stop in good order, and the ways to die.

In: what is done to it, and the controller's answers. Out: its memory made and lost, its disk as it leaves it. A kill
leaves all that was written; a power cut leaves what was flushed and as much more as chance will have it; a stop in good
order leaves everything, flushed and checkpointed, and says so with the broker's epoch.

Source: Kafka BrokerServer, BrokerLifecycleManager, LogManager, LogLoader; KIP-966.
"""

from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.log_dir import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.actions import (
    BrokerTick,
    Kill,
    Loaded,
    LogDirFailed,
    Pause,
    PowerCut,
    Resume,
    Start,
    Stop,
    Timer,
    Wipe,
)
from tidegauge.sim_engine.brokers import housekeeping, metadata_copy, waiting_files
from tidegauge.sim_engine.brokers.recovery import loaded_replica
from tidegauge.sim_engine.dice import uuid_for
from tidegauge.sim_engine.disks import disk_wiring
from tidegauge.sim_engine.disks.disk_faults import full_disk
from tidegauge.sim_engine.log.replica_log import LogConfig, ReplicaLog, new_log, stopped_cleanly, truncate
from tidegauge.sim_engine.messages import NONE, HeartbeatRequest, HeartbeatResponse, RegisterRequest, RegisterResponse
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import Broker, Running

CONTROLLED_SHUTDOWN_TIMEOUT_MS: Final = 30_000
_STOPPING_HEARTBEAT_MS: Final = 100


def start(turn: Turn, action: Start) -> None:
    """A dead broker is switched on."""
    broker = turn.broker(action.broker_id)
    if broker.running is not None:
        return
    incarnation = broker.incarnation + 1
    running = Running(
        incarnation=incarnation,
        incarnation_id=uuid_for(turn.seed, f"incarnation-{action.broker_id}-{incarnation}"),
        started_at_ms=turn.now_ms,
    )
    turn.put_broker(action.broker_id, Broker(disk=broker.disk, running=running, incarnation=incarnation))
    turn.after(turn.settings.load_ms, Loaded(action.broker_id, incarnation))


def loaded(turn: Turn, action: Loaded) -> None:
    """The logs are open: the broker registers, and begins its periodic work."""
    broker = turn.broker(action.broker_id)
    running = broker.running
    if running is None or running.incarnation != action.incarnation:
        return
    disk = waiting_files.found_by_start(broker.disk, now_ms=turn.now_ms)
    replicas = {}
    for partition, replica in disk.replicas.items():
        log = loaded_replica(disk, partition, now_ms=turn.now_ms)
        replicas[partition] = replace(replica, log=log)
    turn.put_disk(action.broker_id, replace(disk, replicas=replicas, clean_broker_epoch=None))
    turn.put_running(action.broker_id, replace(running, loaded=True, previous_broker_epoch=disk.clean_broker_epoch))
    for partition in sorted(replicas):
        # A loss is noted when somebody leads without it: others may have what this broker has not.
        before = disk.replicas[partition].log
        ledger.truncated(turn, action.broker_id, partition, before, replicas[partition].log, "recovery")
    metadata_copy.ask(turn, action.broker_id)
    housekeeping.begin(turn, action.broker_id)


def tick_register(turn: Turn, broker_id: int) -> int:
    """Registers, again and again until there is an answer."""
    broker = turn.broker(broker_id)
    assert broker.running is not None
    if broker.running.broker_epoch is not None:
        return 0
    request = RegisterRequest(
        broker_id=broker_id,
        incarnation_id=broker.running.incarnation_id,
        directory_id=broker.disk.directory_id,
        previous_broker_epoch=broker.running.previous_broker_epoch,
    )
    turn.to_controller(broker_id, request)
    return turn.settings.registration_retry_ms


def registration_answered(turn: Turn, broker_id: int, source: str, response: RegisterResponse) -> None:
    """The controller knows the broker, or still holds its former run for alive."""
    running = turn.running(broker_id)
    if running is None or running.incarnation_id != response.incarnation_id or running.broker_epoch is not None:
        return
    if response.error == NONE:
        turn.put_running(broker_id, replace(running, broker_epoch=response.broker_epoch))
        metadata_copy.apply_known(turn, broker_id)
        _beat(turn, broker_id)


def tick_heartbeat(turn: Turn, broker_id: int) -> int:
    """A heartbeat; the answer is when the next one is due."""
    running = turn.running(broker_id)
    assert running is not None
    if running.stopping_since_ms is not None:
        if turn.now_ms - running.stopping_since_ms > CONTROLLED_SHUTDOWN_TIMEOUT_MS:
            _finish_stop(turn, broker_id)
            return 0
        _beat(turn, broker_id)
        return _STOPPING_HEARTBEAT_MS
    _beat(turn, broker_id)
    return turn.settings.heartbeat_interval_ms


def _beat(turn: Turn, broker_id: int) -> None:
    broker = turn.broker(broker_id)
    running = broker.running
    if running is None or running.broker_epoch is None:
        return
    request = HeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=running.broker_epoch,
        metadata_end_offset=broker.disk.metadata.log_end_offset,
        wants_shutdown=running.stopping_since_ms is not None,
    )
    turn.to_controller(broker_id, request)


def heartbeat_answered(turn: Turn, broker_id: int, source: str, response: HeartbeatResponse) -> None:
    """What the controller makes of the broker."""
    running = turn.running(broker_id)
    if running is None or running.broker_epoch != response.broker_epoch or response.error != NONE:
        return
    if response.should_shut_down and running.stopping_since_ms is not None:
        _finish_stop(turn, broker_id)
    elif running.fenced != response.fenced:
        turn.put_running(broker_id, replace(running, fenced=response.fenced))


def stop(turn: Turn, action: Stop) -> None:
    """A broker is asked to stop: first its leaderships move."""
    running = turn.running(action.broker_id)
    if running is None or running.stopping_since_ms is not None:
        return
    if running.broker_epoch is None or running.paused:
        # Nobody knows it yet, or it cannot hear: it is shot.
        _die(turn, action.broker_id)
        return
    turn.put_running(action.broker_id, replace(running, stopping_since_ms=turn.now_ms))
    turn.after(0, BrokerTick(action.broker_id, running.incarnation, Timer.HEARTBEAT))


def _finish_stop(turn: Turn, broker_id: int) -> None:
    broker = turn.broker(broker_id)
    disk, running = waiting_files.swept(broker.disk, now_ms=turn.now_ms), broker.running
    assert running is not None
    replicas = {p: replace(r, log=stopped_cleanly(r.log)) for p, r in disk.replicas.items()}
    disk = replace(
        disk,
        replicas=replicas,
        high_watermarks={p: r.log.high_watermark for p, r in replicas.items()},
        recovery_points={p: r.log.log_end_offset for p, r in replicas.items()},
        log_starts=housekeeping.log_starts_of(replicas),
        clean_broker_epoch=running.broker_epoch,
    )
    disk = housekeeping.written(
        disk,
        turn.now_ms,
        REPLICATION_OFFSET_CHECKPOINT,
        RECOVERY_POINT_OFFSET_CHECKPOINT,
        LOG_START_OFFSET_CHECKPOINT,
    )
    turn.put_broker(broker_id, Broker(disk=disk, running=None, incarnation=broker.incarnation))


def kill(turn: Turn, action: Kill) -> None:
    """The process dies."""
    if turn.running(action.broker_id) is not None:
        turn.note_fault("kill", broker_node(action.broker_id))
        _die(turn, action.broker_id)


def _die(turn: Turn, broker_id: int) -> None:
    turn.put_disk(broker_id, waiting_files.swept(turn.broker(broker_id).disk, now_ms=turn.now_ms))
    waiting_files.half_cleaned(turn, broker_id)
    turn.put_running(broker_id, None)


def log_dir_failed(turn: Turn, action: LogDirFailed) -> None:
    """A broker's only log dir has failed: it halts."""
    broker = turn.broker(action.broker_id)
    running = broker.running
    if running is None or running.incarnation != action.incarnation or action.partition not in broker.disk.replicas:
        return
    made = full_disk(broker.disk, action.partition, action.batch, room_bytes=broker.disk.room_bytes or 0)
    if made is not None:
        disk, fault = made
        turn.put_disk(action.broker_id, replace(disk, room_bytes=0))
        disk_wiring.note(turn, fault)
    _die(turn, action.broker_id)


def power_cut(turn: Turn, action: PowerCut) -> None:
    """The machine goes dark: each log keeps what was flushed, and chance says how much more."""
    broker = turn.broker(action.broker_id)
    if broker.running is None:
        return
    lost = 0
    replicas = {}
    for partition, replica in sorted(broker.disk.replicas.items()):
        log = replica.log
        unflushed = log.batches_from(log.flushed_end_offset) if log.flushed_end_offset < log.log_end_offset else []
        kept = turn.below(len(unflushed) + 1, f"power-cut {partition}")
        if kept < len(unflushed):
            lost += 1
            log = without_unflushed(log, unflushed[kept].base_offset, now_ms=turn.now_ms)
            ledger.truncated(turn, action.broker_id, partition, replica.log, log, "power cut")
        replicas[partition] = replace(replica, log=log)
    turn.put_disk(action.broker_id, replace(turn.broker(action.broker_id).disk, replicas=replicas))
    turn.note_fault("power cut", broker_node(action.broker_id), detail=f"{lost} logs", on_disk=lost > 0)
    _die(turn, action.broker_id)


def without_unflushed(log: ReplicaLog, end: int, *, now_ms: int) -> ReplicaLog:
    """A log whose last batches never reached the disk; files that are flushed as they are written are as they were."""
    return replace(truncate(log, end, now_ms=now_ms), epochs=log.epochs, snapshots=log.snapshots)


def wipe(turn: Turn, action: Wipe) -> None:
    """A dead broker's replicas are gone."""
    broker = turn.broker(action.broker_id)
    if broker.running is not None:
        return
    disk = disk_before = broker.disk
    gone = [p for p in disk.replicas if action.partition in (None, p)]
    if action.partition is None:
        # A new disk: nothing is left, not even its own id.
        disk = replace(
            disk,
            directory_id=uuid_for(turn.seed, f"directory-{action.broker_id}-{broker.incarnation}"),
            metadata=new_log(LogConfig(), now_ms=turn.now_ms),
            high_watermarks={},
            recovery_points={},
            log_starts={},
            cleaner_offsets={},
            renamed=(),
            metadata_snapshots=None,
            waiting_files=(),
            written_at_ms={},
            clean_broker_epoch=None,
        )
    replicas = {p: r for p, r in disk.replicas.items() if p not in gone}
    turn.put_disk(action.broker_id, replace(disk, replicas=replicas))
    for partition in sorted(gone):
        log = disk_before.replicas[partition].log
        ledger.truncated(turn, action.broker_id, partition, log, new_log(log.config, now_ms=turn.now_ms), "wiped disk")
    where = f"{broker_node(action.broker_id)}/{action.partition or ''}"
    turn.note_fault("wiped directory", where, on_disk=bool(gone))


def pause(turn: Turn, action: Pause) -> None:
    """The broker stands still; what comes to it waits."""
    running = turn.running(action.broker_id)
    if running is not None and not running.paused:
        turn.note_fault("pause", broker_node(action.broker_id))
        turn.put_running(action.broker_id, replace(running, paused=True))


def resume(turn: Turn, action: Resume) -> None:
    """The broker goes on with all that waited, in order."""
    running = turn.running(action.broker_id)
    if running is None or not running.paused:
        return
    turn.put_running(action.broker_id, replace(running, paused=False, backlog=()))
    for waiting in running.backlog:
        turn.at(turn.now_ms, waiting)
