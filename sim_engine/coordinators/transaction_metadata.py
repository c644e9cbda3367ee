"""A transactional id at its coordinator: what it is, what it may become, and the record that says so.

In: a state and what a client, a timeout or the end of the markers asks for. Out: the state that follows, and key and
value of its record in `__transaction_state`. Nothing is true before its record is written; who replays the records has
every field but `last_producer_epoch`, which is kept in memory only.

    Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing …
                     -> PrepareAbort  -> CompleteAbort
    transactions V2 (KIP-890): Prepare* carries the data's epoch + 1; at the last epoch a new producer id follows

Source: Kafka TransactionMetadata, TransactionLog, TransactionCoordinator (4.4), KIP-98, KIP-360, KIP-890.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from tidegauge.kafka_log.coordinator_records import (
    OtherCoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from tidegauge.kafka_log.internal_topics import TRANSACTION_STATE
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.java_order import partitions_in_order, topics_in_order

NO_ID: Final = -1
NO_EPOCH: Final = -1
MAX_EPOCH: Final = 2**15 - 1
LAST_CLIENT_EPOCH: Final = MAX_EPOCH - 1
"""No client gets a higher one, so that its coordinator can always fence it."""

KeyValue = tuple[bytes, bytes | None]


class Status(IntEnum):
    """Where a transaction is; the numbers are those of its record's status byte."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def is_prepared(self) -> bool:
        """The outcome is decided, its markers are under way."""
        return self in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """No transaction is open."""
        return self in (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """One transactional id. `partitions` are in a HashSet's order; `client_version` is 2 for clients of KIP-890."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: Status = Status.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    last_producer_epoch: int = NO_EPOCH
    start_ms: int = -1
    last_update_ms: int = -1
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """The producer id has no epoch left to give."""
        return self.producer_epoch >= LAST_CLIENT_EPOCH

    @property
    def commits(self) -> bool:
        """Prepared to commit."""
        return self.status is Status.PREPARE_COMMIT

    def timed_out(self, now_ms: int) -> bool:
        """Open for longer than its client asked for."""
        return self.status is Status.ONGOING and self.start_ms + self.timeout_ms < now_ms


def created(transactional_id: str, producer_id: int, timeout_ms: int, *, now_ms: int) -> TransactionMetadata:
    """An id that nobody used before; its first epoch, 0, comes with `epoch_incremented`."""
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=NO_EPOCH,
        timeout_ms=timeout_ms,
        last_update_ms=now_ms,
    )


def epoch_incremented(
    now: TransactionMetadata, timeout_ms: int, expected_epoch: int | None, *, now_ms: int
) -> TransactionMetadata | None:
    """A producer begins anew, or goes on after an error with the epoch that it has; None if another one came since."""
    assert not now.is_exhausted
    if expected_epoch is None:
        epoch, last = now.producer_epoch + 1, NO_EPOCH
    elif now.producer_epoch == NO_EPOCH or expected_epoch == now.producer_epoch:
        epoch, last = now.producer_epoch + 1, now.producer_epoch
    elif expected_epoch == now.last_producer_epoch:
        # The answer to the same request was lost.
        epoch, last = now.producer_epoch, now.last_producer_epoch
    else:
        return None
    return _begun_anew(now, now.producer_id, epoch, last, timeout_ms, now_ms)


def producer_id_rotated(
    now: TransactionMetadata, new_producer_id: int, timeout_ms: int, *, expected: bool, now_ms: int
) -> TransactionMetadata:
    """A new producer id, from epoch 0 on, because the old one's epochs are used up."""
    last = now.producer_epoch if expected else NO_EPOCH
    return _begun_anew(now, new_producer_id, 0, last, timeout_ms, now_ms)


def partitions_added(
    now: TransactionMetadata, added: Iterable[TopicPartition], client_version: int, *, now_ms: int
) -> TransactionMetadata:
    """The transaction reaches more partitions; it begins with the first of them."""
    return replace(
        now,
        status=Status.ONGOING,
        partitions=partitions_in_order((*now.partitions, *added)),
        previous_producer_id=now.producer_id,
        start_ms=now_ms if now.status.is_at_rest else now.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def prepared(
    now: TransactionMetadata, *, commit: bool, client_version: int, next_producer_id: int, now_ms: int
) -> TransactionMetadata:
    """The outcome is decided. A V2 abort may come without any partition, and begins and ends at once."""
    bumps = client_version >= 2 and now.producer_epoch < MAX_EPOCH
    return replace(
        now,
        status=Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT,
        producer_epoch=now.producer_epoch + 1 if bumps else now.producer_epoch,
        last_producer_epoch=now.producer_epoch if client_version >= 2 else now.last_producer_epoch,
        previous_producer_id=now.producer_id,
        next_producer_id=next_producer_id,
        start_ms=now.start_ms if now.status is Status.ONGOING else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def fenced(now: TransactionMetadata, *, server_version: int, next_producer_id: int, now_ms: int) -> TransactionMetadata:
    """The coordinator itself aborts: the epoch moves on, whatever the client speaks, and so its producer is fenced."""
    if server_version < 2:
        # What V1 does not do at every end it does here.
        now = replace(now, producer_epoch=min(now.producer_epoch + 1, MAX_EPOCH), last_producer_epoch=NO_EPOCH)
    return prepared(now, commit=False, client_version=server_version, next_producer_id=next_producer_id, now_ms=now_ms)


def completed(now: TransactionMetadata, *, now_ms: int) -> TransactionMetadata:
    """All markers are written. Where a next producer id was chosen it takes over, at epoch 0."""
    assert now.status.is_prepared
    rotates = now.client_version >= 2 and now.next_producer_id != NO_ID
    return replace(
        now,
        status=Status.COMPLETE_COMMIT if now.commits else Status.COMPLETE_ABORT,
        producer_id=now.next_producer_id if rotates else now.producer_id,
        producer_epoch=0 if rotates else now.producer_epoch,
        previous_producer_id=now.producer_id,
        next_producer_id=NO_ID,
        partitions=(),
        last_update_ms=now_ms,
    )


def written_record(now: TransactionMetadata, *, server_version: int) -> KeyValue:
    """Key and value as a coordinator writes them: value version 1, with tagged fields, once the cluster is at V1."""
    partitions = None
    if now.status is not Status.EMPTY:
        ids: dict[str, list[int]] = {}
        for partition in now.partitions:
            ids.setdefault(partition.topic, []).append(partition.partition)
        partitions = tuple({"topic": topic, "partition_ids": tuple(ids[topic])} for topic in topics_in_order(ids))
    fields: dict[str, Any] = {
        "producer_id": now.producer_id,
        "previous_producer_id": now.previous_producer_id,
        "next_producer_id": now.next_producer_id,
        "producer_epoch": now.producer_epoch,
        "transaction_timeout_ms": now.timeout_ms,
        "transaction_status": int(now.status),
        "transaction_partitions": partitions,
        "transaction_last_update_timestamp_ms": now.last_update_ms,
        "transaction_start_timestamp_ms": now.start_ms,
        "client_transaction_version": now.client_version,
    }
    version = 1 if server_version >= 1 else 0
    return encode_coordinator_record(TRANSACTION_STATE, _record(now.transactional_id, version, fields))


def tombstone(transactional_id: str) -> KeyValue:
    """The record of an id that expired."""
    return encode_coordinator_record(TRANSACTION_STATE, _record(transactional_id, None, None))


def replayed(records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[str, TransactionMetadata]:
    """The ids of one partition of `__transaction_state`, as a new coordinator has them after it read its records."""
    found: dict[str, TransactionMetadata] = {}
    for key, value in records:
        decoded = decode_coordinator_record(TRANSACTION_STATE, key, value)
        assert isinstance(decoded, OtherCoordinatorRecord), decoded
        transactional_id = str(decoded.key["transactional_id"])
        found.pop(transactional_id, None)
        if decoded.value is not None:
            found[transactional_id] = _read(transactional_id, dict(decoded.value))
    return found


def _begun_anew(
    now: TransactionMetadata, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    return replace(
        now,
        status=Status.EMPTY,
        producer_id=producer_id,
        previous_producer_id=now.producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=(),
        start_ms=-1,
        last_update_ms=now_ms,
    )


def _record(transactional_id: str, version: int | None, fields: dict[str, Any] | None) -> OtherCoordinatorRecord:
    return OtherCoordinatorRecord(
        key_type=0,
        name="TransactionLog",
        key={"transactional_id": transactional_id},
        version=version,
        value=fields,
    )


def _read(transactional_id: str, said: dict[str, Any]) -> TransactionMetadata:
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=said["producer_id"],
        producer_epoch=said["producer_epoch"],
        timeout_ms=said["transaction_timeout_ms"],
        status=Status(said["transaction_status"]),
        partitions=partitions_in_order(
            TopicPartition(topic=p["topic"], partition=n)
            for p in said["transaction_partitions"] or ()
            for n in p["partition_ids"]
        ),
        previous_producer_id=said["previous_producer_id"],
        next_producer_id=said["next_producer_id"],
        start_ms=said["transaction_start_timestamp_ms"],
        last_update_ms=said["transaction_last_update_timestamp_ms"],
        client_version=said["client_transaction_version"],
    )
