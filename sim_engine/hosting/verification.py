"""A leader's question before the first batch of a transaction: is it open, and does it reach this partition? (KIP-890)

In: transactional batches and commits. Out: they go on, wait for the coordinator's answer, or are refused. No batch
begins a transaction in a log of which its coordinator does not know; a marker that comes between question and answer
makes the answer void.

Under V2 the question adds the partition; a V1 client has added it, and the question only asks. With
`transaction.partition.verification.enable` false nobody asks V1 clients, as before Kafka 3.6: a late batch hangs.

Source: Kafka AddPartitionsToTxnManager, ReplicaManager#maybeSendPartitionsToTransactionCoordinator,
ProducerStateManager#maybeCreateVerificationStateEntry.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.internal_topics import TRANSACTION_STATE
from tidegauge.kafka_log.java_hash import coordinator_partition
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.coordinator_effects import NONE
from tidegauge.sim_engine.coordinators.coordinator_messages import (
    AddPartitionsRequest,
    CommitRequest,
    GroupAnswer,
    TransactionAnswer,
)
from tidegauge.sim_engine.hosting.hosted import Verification, hosted_by, leader_of, partition_counts, put_hosted
from tidegauge.sim_engine.messages import ProduceRequest, ProduceResponse
from tidegauge.sim_engine.network import broker_node
from tidegauge.sim_engine.turn import Turn

ANSWER_MS: Final = 3_000
ENABLED: Final = "transaction.partition.verification.enable"

_AGAIN: Final = frozenset(
    {
        "CONCURRENT_TRANSACTIONS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "REQUEST_TIMED_OUT",
    }
)

GoOn = Callable[[Turn, int, str, ProduceRequest | CommitRequest], None]
"""(turn, broker, source, request): what a verified request goes on to."""


def verified(
    turn: Turn, broker_id: int, source: str, request: ProduceRequest | CommitRequest, partition: TopicPartition
) -> bool:
    """Whether a request may go on now; if not, the coordinator is asked, or it was answered with an error."""
    transactional_id = request.transactional_id
    producer = _producer_of(request)
    if transactional_id is None or producer is None or turn.leadership(broker_id, partition) is None:
        return True
    producer_id, producer_epoch = producer
    version = request.transaction_version if isinstance(request, ProduceRequest) else request.client_version
    running = turn.running(broker_id)
    assert running is not None
    if version < 2 and turn.settings.broker_config.get(ENABLED, "true") != "true":
        return True
    state = turn.log(broker_id, partition).producers.states.get(producer_id)
    if state is not None and state.transaction_first_offset is not None and state.producer_epoch == producer_epoch:
        return True
    count = partition_counts(running.image).get(TRANSACTION_STATE, 1)
    where = TopicPartition(TRANSACTION_STATE, coordinator_partition(transactional_id, count))
    leader = leader_of(running.image, where)
    if leader is None or leader < 0:
        refuse(turn, broker_id, source, request, partition, "COORDINATOR_NOT_AVAILABLE")
        return False
    turn.sequence += 1
    number = turn.sequence
    hosted = hosted_by(turn, broker_id)
    waiting = Verification(source=source, request=request, partition=partition, expires_ms=turn.now_ms + ANSWER_MS)
    put_hosted(
        turn,
        broker_id,
        replace(
            hosted,
            verifying={**hosted.verifying, number: waiting},
            guards={**hosted.guards, (partition, producer_id): number},
        ),
    )
    asks = AddPartitionsRequest(
        correlation=number,
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partitions=(partition,),
        client_version=version,
        verify=version < 2,
    )
    turn.from_broker(broker_id, broker_node(leader), asks)
    return False


def answered(turn: Turn, broker_id: int, answer: TransactionAnswer, go_on: GoOn) -> None:
    """The coordinator answered."""
    hosted = hosted_by(turn, broker_id)
    waiting = hosted.verifying.get(answer.correlation)
    if waiting is None:
        return
    producer = _producer_of(waiting.request)
    assert producer is not None
    key = (waiting.partition, producer[0])
    guarded = hosted.guards.get(key) == answer.correlation
    guards = {k: g for k, g in hosted.guards.items() if k != key} if guarded else hosted.guards
    left = {number: each for number, each in hosted.verifying.items() if number != answer.correlation}
    put_hosted(turn, broker_id, replace(hosted, verifying=left, guards=guards))
    if answer.error == NONE and guarded:
        go_on(turn, broker_id, waiting.source, waiting.request)
    else:
        error = answer.error if answer.error != NONE else "INVALID_TXN_STATE"
        refuse(turn, broker_id, waiting.source, waiting.request, waiting.partition, error)


def expire(turn: Turn, broker_id: int) -> None:
    """No answer came."""
    hosted = hosted_by(turn, broker_id)
    late = {number: each for number, each in hosted.verifying.items() if each.expires_ms <= turn.now_ms}
    if late:
        left = {number: each for number, each in hosted.verifying.items() if number not in late}
        put_hosted(turn, broker_id, replace(hosted, verifying=left))
    for _, each in sorted(late.items()):
        refuse(turn, broker_id, each.source, each.request, each.partition, "REQUEST_TIMED_OUT")


def refuse(
    turn: Turn,
    broker_id: int,
    source: str,
    request: ProduceRequest | CommitRequest,
    partition: TopicPartition,
    error: str,
) -> None:
    """Tells the client in the words that its release knows."""
    if isinstance(request, CommitRequest):
        told = "COORDINATOR_NOT_AVAILABLE" if error in _AGAIN else error
        turn.from_broker(broker_id, source, GroupAnswer(correlation=request.correlation, error=told))
        return
    told = "NOT_ENOUGH_REPLICAS" if error in _AGAIN else error
    told = "INVALID_PRODUCER_EPOCH" if told == "PRODUCER_FENCED" else told
    response = ProduceResponse(correlation=request.correlation, partition=partition, error=told)
    turn.from_broker(broker_id, source, response)


def _producer_of(request: ProduceRequest | CommitRequest) -> tuple[int, int] | None:
    if isinstance(request, CommitRequest):
        return request.producer_id, request.producer_epoch
    producer = request.producer
    return (producer.producer_id, producer.producer_epoch) if producer is not None and producer.transactional else None
