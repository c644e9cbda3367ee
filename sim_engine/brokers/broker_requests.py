"""Smaller requests of clients to brokers: who leads, producer ids, and records that may go.

In: a request. Out: an answer, or a log that starts later. A broker hands out a producer id only from a block that the
metadata log gave it, so no id is given twice.

Source: Kafka RPCProducerIdManager, ReplicaManager#deleteRecords.
"""

from dataclasses import replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import DeleteRecords, Delivered
from tidegauge.sim_engine.log.replica_log import with_log_start
from tidegauge.sim_engine.messages import (
    ClientMetadataRequest,
    ClientMetadataResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducerIdsRequest,
    ProducerIdsResponse,
)
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.turn import Turn


def metadata(turn: Turn, broker_id: int, source: str, request: ClientMetadataRequest) -> None:
    """What this broker knows of leaders."""
    running = turn.running(broker_id)
    assert running is not None
    response = ClientMetadataResponse(correlation=request.correlation, image=running.image)
    turn.from_broker(broker_id, source, response)


def next_producer_id(turn: Turn, broker_id: int, waiting: Delivered | None) -> int | None:
    """A producer id; or None, and `waiting` is delivered again when the controller has sent the next block."""
    running = turn.running(broker_id)
    assert running is not None
    ids = running.producer_ids
    if ids.next_id < ids.end:
        turn.put_running(broker_id, replace(running, producer_ids=replace(ids, next_id=ids.next_id + 1)))
        return ids.next_id
    queued = ids.waiting if waiting is None else (*ids.waiting, waiting)
    turn.put_running(broker_id, replace(running, producer_ids=replace(ids, waiting=queued)))
    if running.broker_epoch is not None:
        turn.to_controller(broker_id, ProducerIdsRequest(broker_id=broker_id, broker_epoch=running.broker_epoch))
    return None


def init_producer_id(turn: Turn, broker_id: int, source: str, request: InitProducerIdRequest) -> None:
    """An idempotent producer wants an id."""
    producer_id = next_producer_id(turn, broker_id, Delivered(source, broker_node(broker_id), request))
    if producer_id is not None:
        response = InitProducerIdResponse(correlation=request.correlation, producer_id=producer_id, producer_epoch=0)
        turn.from_broker(broker_id, source, response)


def producer_ids_answered(turn: Turn, broker_id: int, source: str, response: ProducerIdsResponse) -> None:
    """The next block; who waited is served from it."""
    running = turn.running(broker_id)
    assert running is not None
    ids = running.producer_ids
    if ids.next_id < ids.end:
        return
    fresh = replace(ids, next_id=response.first, end=response.end, waiting=())
    turn.put_running(broker_id, replace(running, producer_ids=fresh))
    for waiting in ids.waiting:
        turn.at(turn.now_ms, waiting)


def on_delete_records(turn: Turn, call: DeleteRecords) -> None:
    """An operator says that records below an offset may go; the partition's leader does it, its followers after it."""
    leader = _leader(turn, call.partition)
    if leader is None:
        turn.tell("operator", "LEADER_NOT_AVAILABLE", partition=call.partition)
        return
    log = turn.log(leader, call.partition)
    before_offset = log.high_watermark if call.before_offset == -1 else call.before_offset
    if before_offset > log.high_watermark:
        turn.tell("operator", "OFFSET_OUT_OF_RANGE", partition=call.partition, offset=before_offset)
    else:
        turn.put_log(leader, call.partition, with_log_start(log, before_offset))


def _leader(turn: Turn, partition: TopicPartition) -> int | None:
    topic = turn.controller.image.topics.get(partition.topic)
    known = topic.partitions.get(partition.partition) if topic is not None else None
    if known is None or turn.leadership(known.leader, partition) is None:
        return None
    return known.leader
