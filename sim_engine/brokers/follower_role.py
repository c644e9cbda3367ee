"""A broker as follower: it cuts what its leader does not have, fetches what it lacks, and learns the high watermark.

In: what the metadata log says of leaders, and their answers. Out: its log. An answer counts only if it belongs to the
request that is waited for, and to where the log ends now; what is appended is what the leader sent, byte for byte.

    HIGH_WATERMARK   cut to the own high watermark, fetch
    KIP_101, KIP_279 ask where the own newest epoch ended, cut, perhaps ask again, fetch
    KIP_320, ELR     fetch with the newest epoch; the leader says where the paths part; cut, fetch again

Source: Kafka ReplicaFetcherThread, AbstractFetcherThread, ReplicaManager#makeFollowers.
"""

from dataclasses import replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.brokers import leader_role, tier_reads
from tidegauge.sim_engine.brokers.disk_room import took_room
from tidegauge.sim_engine.log.replica_log import append, start_anew, truncate, with_high_watermark, with_log_start
from tidegauge.sim_engine.log.truncation import cut_for
from tidegauge.sim_engine.messages import (
    NONE,
    EpochEndRequest,
    EpochEndResponse,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from tidegauge.sim_engine.metadata.controller import NO_LEADER, PartitionImage
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.settings import Generation
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import Fetcher, Following


def follow(turn: Turn, broker_id: int, partition: TopicPartition, image: PartitionImage) -> None:
    """The metadata log names another broker the leader, or nobody (Partition#makeFollower)."""
    running = turn.running(broker_id)
    assert running is not None
    leader_role.leave(turn, broker_id, partition)
    now = running.following.get(partition)
    if now is not None and now.leader_epoch == image.leader_epoch:
        turn.put_following(broker_id, partition, replace(now, partition_epoch=image.partition_epoch))
        return
    log = turn.log(broker_id, partition)
    truncating = False
    if image.leader != NO_LEADER:
        if turn.generation == Generation.HIGH_WATERMARK or not log.epochs:
            cut(turn, broker_id, partition, log.high_watermark, "high watermark")
        elif turn.generation < Generation.KIP_320:
            truncating = True
    following = Following(
        leader=image.leader,
        leader_epoch=image.leader_epoch,
        partition_epoch=image.partition_epoch,
        truncating=truncating,
    )
    turn.put_following(broker_id, partition, following)


def cut(turn: Turn, broker_id: int, partition: TopicPartition, offset: int, cause: str) -> None:
    """Truncates a log, and notes what went."""
    log = turn.log(broker_id, partition)
    if offset >= log.log_end_offset:
        return
    shorter = truncate(log, offset, now_ms=turn.now_ms)
    ledger.truncated(turn, broker_id, partition, log, shorter, cause)
    turn.put_log(broker_id, partition, shorter)
    flushed(turn, broker_id)


def flushed(turn: Turn, broker_id: int) -> None:
    """Writes recovery-point-offset-checkpoint, as a broker does as soon as it has cut a log (LogManager#truncateTo)."""
    disk = turn.broker(broker_id).disk
    points = {p: r.log.flushed_end_offset for p, r in disk.replicas.items()}
    turn.put_disk(broker_id, replace(disk, recovery_points=points))


# The loop of fetches, one for each leader.


def fetch_from_all(turn: Turn, broker_id: int) -> None:
    """Sets every loop going that is not, and asks for the ends of epochs where that is due."""
    running = turn.running(broker_id)
    assert running is not None
    for leader in sorted({f.leader for f in running.following.values() if f.leader != NO_LEADER}):
        fetch_from(turn, broker_id, leader)
    if turn.generation in (Generation.KIP_101, Generation.KIP_279):
        for partition, following in sorted(running.following.items()):
            _ask_for_epoch_end(turn, broker_id, partition, following)


def fetch_from(turn: Turn, broker_id: int, leader: int) -> None:
    """Sends the next fetch to a leader, unless one is under way or there is nothing to ask for."""
    broker = turn.broker(broker_id)
    running = broker.running
    assert running is not None
    if running.broker_epoch is None:
        return
    fetcher = running.fetchers.get(leader)
    patient = fetcher is not None and turn.now_ms - fetcher.sent_at_ms < turn.settings.fetch_timeout_ms
    if fetcher is not None and fetcher.waiting and patient:
        return
    replicas = broker.disk.replicas
    epochs_told = turn.generation >= Generation.KIP_320
    asked = []
    for partition, following in sorted(running.following.items()):
        if following.leader == leader and not following.truncating and following.retry_at_ms <= turn.now_ms:
            log = replicas[partition].log
            asked.append(
                FetchPartition(
                    partition,
                    log.log_end_offset,
                    following.leader_epoch if epochs_told else -1,
                    log.latest_epoch if epochs_told else -1,
                    log.log_start_offset,
                )
            )
    if not asked:
        return
    correlation = fetcher.correlation + 1 if fetcher is not None else 0
    sent = Fetcher(correlation=correlation, sent_at_ms=turn.now_ms, waiting=True)
    turn.put_running(broker_id, replace(running, fetchers={**running.fetchers, leader: sent}))
    request = FetchRequest(
        correlation=correlation,
        follower=broker_id,
        broker_epoch=running.broker_epoch,
        partitions=tuple(asked),
    )
    turn.from_broker(broker_id, broker_node(leader), request)


def fetch_answered(turn: Turn, broker_id: int, source: str, response: FetchResponse) -> None:
    """A leader's answer: each partition for itself, then the next fetch."""
    running = turn.running(broker_id)
    assert running is not None
    fetcher = running.fetchers.get(response.leader)
    if fetcher is None or not fetcher.waiting or fetcher.correlation != response.correlation:
        return
    fetchers = {**running.fetchers, response.leader: replace(fetcher, waiting=False)}
    turn.put_running(broker_id, replace(running, fetchers=fetchers))
    for found in response.partitions:
        following = running.following.get(found.partition)
        if following is None or following.leader != response.leader or following.truncating:
            continue
        if turn.log(broker_id, found.partition).log_end_offset != found.fetch_offset:
            continue
        of_other_epoch = turn.generation >= Generation.KIP_320 and found.leader_epoch != following.leader_epoch
        if of_other_epoch and found.error == NONE:
            continue
        if found.error != NONE:
            _refused(turn, broker_id, following, found)
        elif found.diverging is not None:
            log = turn.log(broker_id, found.partition)
            decided = cut_for(log, epoch=found.diverging[0], end_offset=found.diverging[1])
            cut(turn, broker_id, found.partition, decided.offset, "diverging epoch")
        else:
            _take(turn, broker_id, found)
    fetch_from(turn, broker_id, response.leader)


def _take(turn: Turn, broker_id: int, found: FetchedPartition) -> None:
    log = before = turn.log(broker_id, found.partition)
    for batch in found.batches:
        if batch.base_offset >= log.log_end_offset:
            if not took_room(turn, broker_id, found.partition, batch):
                break
            log = append(log, batch, now_ms=turn.now_ms)
    log = with_high_watermark(log, found.high_watermark)
    if found.log_start_offset > log.log_start_offset:
        log = with_log_start(log, min(found.log_start_offset, log.high_watermark))
    if log is not before:
        turn.put_log(broker_id, found.partition, log)


def _refused(turn: Turn, broker_id: int, following: Following, found: FetchedPartition) -> None:
    """The leader sent an error (AbstractFetcherThread#processFetchRequest, #handleOutOfRangeError)."""
    partition = found.partition
    if found.error == "OFFSET_OUT_OF_RANGE":
        log = turn.log(broker_id, partition)
        if found.log_end_offset < log.log_end_offset:
            cut(turn, broker_id, partition, found.log_end_offset, "leader's log end")
        elif found.log_start_offset > log.log_end_offset:
            anew = start_anew(log, found.log_start_offset, now_ms=turn.now_ms)
            turn.put_log(broker_id, partition, anew)
            flushed(turn, broker_id)
        return
    if found.local_start is not None and tier_reads.start_behind_tier(turn, broker_id, found):
        return
    retry_at_ms = turn.now_ms + turn.settings.fetch_backoff_ms
    turn.put_following(broker_id, partition, replace(following, retry_at_ms=retry_at_ms))


# Epochs' ends, before fetches carried epochs.


def _ask_for_epoch_end(turn: Turn, broker_id: int, partition: TopicPartition, following: Following) -> None:
    waited = turn.now_ms - following.asked_at_ms
    if not following.truncating or (following.asked_at_ms >= 0 and waited < turn.settings.fetch_backoff_ms):
        return
    log = turn.log(broker_id, partition)
    correlation = following.correlation + 1
    turn.put_following(broker_id, partition, replace(following, asked_at_ms=turn.now_ms, correlation=correlation))
    request = EpochEndRequest(
        correlation=correlation,
        follower=broker_id,
        partition=partition,
        current_leader_epoch=following.leader_epoch,
        leader_epoch=log.latest_epoch,
    )
    turn.from_broker(broker_id, broker_node(following.leader), request)


def epoch_end_answered(turn: Turn, broker_id: int, source: str, response: EpochEndResponse) -> None:
    """The leader says where an epoch ended: cut there, and ask again if that is not the last word."""
    running = turn.running(broker_id)
    assert running is not None
    following = running.following.get(response.partition)
    if following is None or not following.truncating or following.correlation != response.correlation:
        return
    if source != broker_node(following.leader) or response.error != NONE:
        return
    log = turn.log(broker_id, response.partition)
    decided = cut_for(log, epoch=response.leader_epoch, end_offset=response.end_offset)
    cut(turn, broker_id, response.partition, decided.offset, "leader's epoch end")
    left = turn.log(broker_id, response.partition)
    again = not decided.complete and bool(left.epochs)
    following = replace(following, truncating=again, asked_at_ms=-1)
    turn.put_following(broker_id, response.partition, following)
    if again:
        _ask_for_epoch_end(turn, broker_id, response.partition, following)
    else:
        fetch_from(turn, broker_id, following.leader)
