"""What the ledger holds about transactions: what coordinators decided, and what clients were told.

In: a turn. Out: notes in `Truth.transactions`. A transaction is decided by its replicated Prepare record, and by
nothing else; what a client is told may come later, or never.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.transaction_metadata import TransactionMetadata, replayed
from tidegauge.sim_engine.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A batch that was acknowledged, and under which epoch."""

    partition: TopicPartition
    base_offset: int
    last_offset: int
    leader_epoch: int
    base_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """An outcome. `producer_epoch` is that of the transaction's records; its markers may carry a higher one."""

    at_ms: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    marker_epoch: int
    coordinator_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]
    what: str = "decided"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTold:
    """What a client knows of one of its transactions: committed, aborted, or the error that ended it."""

    at_ms: int
    client: str
    transactional_id: str
    number: int
    producer_id: int
    producer_epoch: int
    outcome: str
    written: tuple[Written, ...] = ()
    what: str = "told"


def note_decided(turn: Turn, before: TransactionMetadata, after: TransactionMetadata, coordinator_epoch: int) -> None:
    """A Prepare record is replicated."""
    _note(
        turn,
        Decided(
            at_ms=turn.now_ms,
            transactional_id=after.transactional_id,
            producer_id=before.producer_id,
            producer_epoch=before.producer_epoch,
            marker_epoch=after.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            committed=after.commits,
            partitions=after.partitions,
        ),
    )


def note_found(turn: Turn, records: Iterable[tuple[bytes | None, bytes | None]], coordinator_epoch: int) -> None:
    """A new coordinator has read its partition: what was prepared without anybody knowing is decided now.

    That is a record whose writer died, or gave it up, before it heard that it is replicated.
    """
    open_: dict[str, TransactionMetadata] = {}
    found: dict[str, TransactionMetadata] = {}
    for record in records:
        for transactional_id, metadata in replayed([record]).items():
            if metadata.status.is_prepared:
                found[transactional_id] = metadata
            else:
                found.pop(transactional_id, None)
                open_[transactional_id] = metadata
    known = {
        (each.transactional_id, each.producer_id, each.marker_epoch) for each in decisions(turn.truth.transactions)
    }
    for transactional_id, metadata in found.items():
        if (transactional_id, metadata.producer_id, metadata.producer_epoch) not in known:
            note_decided(turn, open_.get(transactional_id, metadata), metadata, coordinator_epoch)


def note_told(turn: Turn, told: TransactionTold) -> None:
    """A client got an answer to its end, or learnt that there will be none."""
    _note(turn, told)


def decisions(notes: Iterable[object]) -> list[Decided]:
    """Every decision, in order."""
    return [note for note in notes if isinstance(note, Decided)]


def _note(turn: Turn, note: object) -> None:
    turn.truth = replace(turn.truth, transactions=turn.truth.transactions.appended(note))
