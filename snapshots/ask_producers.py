"""Asking for producers and transactions, which confluent-kafka has no call for: kafka-python asks them (KIP-664).

In: bootstrap servers, how to reach them, who leads what. Out: what the leaders remember of producers, what the
coordinators know of transactional ids, and why something was not answered. Nothing here is an error: a client that
cannot get in, or a broker that does not answer, is a reason.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.client_config import ClientConfig
from tidegauge.snapshots.cluster_answers import ProducerAnswer, TransactionAnswer

Asked = tuple[
    dict[TopicPartition, tuple[ProducerAnswer, ...] | str],
    tuple[TransactionAnswer, ...] | None,
    dict[str, str],
    dict[str, int],
]
"""Producers by partition (or why not), transactions, question -> reason, question -> when."""

_ONE_BY_ONE: Final = 200
"""Of how many subjects each is asked alone after they could not be asked together."""


def ask_producers_and_transactions(
    bootstrap: str,
    config: ClientConfig,
    *,
    leaders: Mapping[TopicPartition, int],
    brokers: Sequence[int],
    timeout_s: float,
) -> Asked:
    """Asks each leader for its partitions' producers, and each broker for the transactions that it coordinates."""
    if config.only_librdkafka:
        reason = f"not asked: this client knows no {', '.join(config.only_librdkafka)}"
        return {}, None, {"producers": reason, "transactions": reason}, {}
    try:
        kafka = import_module("kafka")
    except ImportError:
        reason = "not asked: the Python package kafka-python is not installed"
        return {}, None, {"producers": reason, "transactions": reason}, {}
    with _silent():
        try:
            client = kafka.KafkaAdminClient(
                bootstrap_servers=bootstrap.split(","),
                client_id="tidegauge",
                request_timeout_ms=int(timeout_s * 1000),
                bootstrap_timeout_ms=int(timeout_s * 1000),
                **config.kafka_python,
            )
        except _failures(kafka) as error:
            reason = _reason(error)
            return {}, None, {"producers": reason, "transactions": reason}, {}
        try:
            asked = {"producers": now_ms()}
            producers = _producers(kafka, client, leaders)
            asked["transactions"] = now_ms()
            transactions, unanswered = _transactions(kafka, client, brokers)
        finally:
            client.close()
    return producers, transactions, unanswered, asked


def _producers(
    kafka: Any, client: Any, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[ProducerAnswer, ...] | str]:
    by_leader: dict[int, list[TopicPartition]] = {}
    for key, leader in sorted(leaders.items()):
        by_leader.setdefault(leader, []).append(key)
    found: dict[TopicPartition, tuple[ProducerAnswer, ...] | str] = {}
    for leader, keys in by_leader.items():

        def describe(some: Sequence[TopicPartition], leader: int = leader) -> Mapping[Any, Any]:
            wanted = [kafka.TopicPartition(topic, partition) for topic, partition in some]
            answer: Mapping[Any, Any] = client.describe_producers(wanted, broker_id=leader)
            return answer

        for key, answer in _together_or_alone(kafka, keys, describe).items():
            if isinstance(answer, str):
                found[key] = answer
            else:
                states = sorted(answer.active_producers, key=lambda p: p.producer_id)
                found[key] = tuple(map(_producer, states))
    return found


def _producer(state: Any) -> ProducerAnswer:
    return ProducerAnswer(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=_known(state.last_sequence),
        last_timestamp_ms=_known(state.last_timestamp),
        coordinator_epoch=_known(state.coordinator_epoch),
        current_transaction_first_offset=_known(state.current_transaction_start_offset),
    )


def _transactions(
    kafka: Any, client: Any, brokers: Sequence[int]
) -> tuple[tuple[TransactionAnswer, ...] | None, dict[str, str]]:
    found: list[TransactionAnswer] = []
    reasons: list[str] = []
    for broker in brokers:
        try:
            listed = client.list_transactions(broker_ids=[broker])[broker]
        except _failures(kafka) as error:
            reasons.append(f"broker {broker}: {_reason(error)}")
            continue
        described = _together_or_alone(kafka, [t.transactional_id for t in listed], client.describe_transactions)
        found += [_transaction(t, described[t.transactional_id]) for t in listed]
    unanswered = {"transactions": "; ".join(reasons)} if reasons else {}
    if len(reasons) == len(brokers):
        return None, unanswered
    return tuple(sorted(found, key=lambda t: t.transactional_id)), unanswered


def _transaction(listed: Any, described: Any) -> TransactionAnswer:
    if isinstance(described, str):
        return TransactionAnswer(
            transactional_id=listed.transactional_id,
            state=_state(listed),
            producer_id=listed.producer_id,
            producer_epoch=None,
            timeout_ms=None,
            started_at_ms=None,
            partitions=None,
        )
    return TransactionAnswer(
        transactional_id=listed.transactional_id,
        state=_state(described),
        producer_id=described.producer_id,
        producer_epoch=described.producer_epoch,
        timeout_ms=described.transaction_timeout_ms,
        started_at_ms=_known(described.transaction_start_time_ms),
        partitions=tuple(sorted(TopicPartition(p.topic, p.partition) for p in described.topic_partitions)),
    )


def _state(value: Any) -> str:
    return str(value.state.value)


def _together_or_alone(
    kafka: Any, keys: Sequence[Any], ask: Callable[[Sequence[Any]], Mapping[Any, Any]]
) -> dict[Any, Any]:
    """Key -> answer, or why not.

    One bad subject fails the whole question, so then each is asked alone, up to a limit; not so where the broker is
    silent: it would be for each.
    """
    if not keys:
        return {}
    try:
        answers = ask(keys)
        return {key: answers.get(key, "not answered") for key in keys}
    except _failures(kafka) as error:
        reason = _reason(error)
        if len(keys) == 1 or _is_silence(kafka, error):
            return dict.fromkeys(keys, reason)
    found: dict[Any, Any] = dict.fromkeys(keys[_ONE_BY_ONE:], reason)
    for key in keys[:_ONE_BY_ONE]:
        found |= _together_or_alone(kafka, [key], ask)
    return found


def _failures(kafka: Any) -> tuple[type[Exception], ...]:
    """What kafka-python raises when a cluster does not answer as it should."""
    return (kafka.errors.KafkaError, OSError, ValueError, TimeoutError)


def _is_silence(kafka: Any, error: Exception) -> bool:
    errors = kafka.errors
    return isinstance(error, errors.KafkaTimeoutError | errors.KafkaConnectionError | OSError)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def now_ms() -> int:
    """The clock by which answers are dated."""
    return time.time_ns() // 1_000_000


@contextmanager
def _silent() -> Iterator[None]:
    """What the client logs about brokers that are down is in the reasons; standard error belongs to the command."""
    logger = logging.getLogger("kafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
