"""What a coordinator wants done: its answers, its records, its markers. It does none of it itself.

In: nothing. Out: the values that coordinators hand to their broker. An answer that depends on a record leaves only
after the record is below the high watermark of its partition.
"""

from dataclasses import dataclass, field

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.stored_batch import Producer

NONE = "NONE"
"""Kafka's name of the error that is none. Errors are Kafka's names, as in `sim_engine.metadata.controller`."""

Asker = object
"""Who asked: whatever the broker gave to the coordinator, handed back with the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer to a client, or to a broker that asked for one. What it means depends on the request."""

    to: Asker
    error: str = NONE
    producer_id: int = -1
    producer_epoch: int = -1
    body: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Records for one partition of a coordinator's topic, in one batch, acks=all.

    `what` says whose they are to a coordinator that waits for them (`transaction_coordinator.written`). `answers` leave
    when the records are replicated; if the batch cannot be appended at all, the coordinator stays as it was before.
    """

    partition: TopicPartition
    records: tuple[tuple[bytes, bytes | None], ...]
    what: str | None = None
    answers: tuple[Answer, ...] = ()
    producer: Producer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """End markers for partitions, to be sent to their leaders (WriteTxnMarkers); then `markers_answered` is called."""

    transactional_id: str
    coordinator_epoch: int
    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int
    partitions: tuple[TopicPartition, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForProducerIds:
    """The coordinator's producer ids are used up: the controller is to give its broker the next block."""


Effect = Write | Answer | SendMarkers | AskForProducerIds
