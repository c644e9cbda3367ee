"""What a broker remembers of the producers that wrote to one log, and which of their batches it takes.

In: the state and a batch. Out: the new state, or why the batch is refused. A leader checks what clients send, a
follower takes what its leader has.

Source: Kafka ProducerStateManager and ProducerAppendInfo, KIP-98, KIP-890.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry
from tidegauge.sim_engine.log.stored_batch import NO_SEQUENCE, StoredBatch, add_sequence

KEPT_BATCHES: Final = 5
"""A retry of one of a producer's last five batches is recognised (ProducerStateEntry#NUM_BATCHES_TO_RETAIN)."""

NO_EPOCH: Final = -1


class Refusal(Enum):
    """Why a leader does not append a batch, by the error that the client gets."""

    OUT_OF_ORDER_SEQUENCE = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"
    TRANSACTION_COORDINATOR_FENCED = "TRANSACTION_COORDINATOR_FENCED"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """One of a producer's last batches."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """One producer: epoch, last batches, coordinator's epoch, and where its open transaction began."""

    producer_id: int
    producer_epoch: int
    batches: tuple[KeptBatch, ...] = ()
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    transaction_first_offset: int | None = None

    @property
    def last_sequence(self) -> int:
        """The last record's sequence; -1 where no batch is remembered."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def duplicate_of(self, batch: StoredBatch) -> KeptBatch | None:
        """The remembered batch that this one repeats."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        for kept in self.batches:
            if kept.base_sequence == batch.base_sequence and kept.last_sequence == batch.last_sequence:
                return kept
        return None


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """A transaction whose end marker is in the log."""

    producer_id: int
    first_offset: int
    last_offset: int
    committed: bool


@dataclass(frozen=True, slots=True)
class Producers:
    """All producers of one log. `open` and `unreplicated` are ordered by first offset."""

    states: Mapping[int, ProducerState] = field(default_factory=dict)
    open: tuple[tuple[int, int], ...] = ()
    unreplicated: tuple[EndedTransaction, ...] = ()

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest transaction began that is open, or that ended at or above the high watermark."""
        firsts = [*(first for first, _ in self.open[:1]), *(t.first_offset for t in self.unreplicated[:1])]
        return min(firsts, default=None)

    def stable_before(self, ended: EndedTransaction) -> int:
        """The last stable offset that the transaction index gets with this end."""
        others = (first for first, producer_id in self.open if producer_id != ended.producer_id)
        return next(others, ended.last_offset + 1)

    def replicated_to(self, high_watermark: int) -> "Producers":
        """Forgets ended transactions whose marker is below the high watermark."""
        left = tuple(t for t in self.unreplicated if t.last_offset >= high_watermark)
        return self if len(left) == len(self.unreplicated) else replace(self, unreplicated=left)

    def without(self, producer_ids: Iterable[int]) -> "Producers":
        """Forgets producers (they expired)."""
        gone = set(producer_ids)
        return replace(self, states={k: v for k, v in self.states.items() if k not in gone})


def refusal(producers: Producers, batch: StoredBatch, *, transaction_version: int) -> Refusal | KeptBatch | None:
    """Why a leader would not append this batch of a client or coordinator; the batch it repeats; or None."""
    if batch.producer_id < 0:
        return None
    state = producers.states.get(batch.producer_id)
    if batch.is_marker:
        return _marker_refusal(state, batch, transaction_version)
    if state is None:
        return Refusal.OUT_OF_ORDER_SEQUENCE if transaction_version >= 2 and batch.base_sequence > 0 else None
    if (repeated := state.duplicate_of(batch)) is not None:
        return repeated
    if batch.producer_epoch < state.producer_epoch:
        return Refusal.INVALID_PRODUCER_EPOCH
    if batch.producer_epoch != state.producer_epoch:
        if batch.base_sequence != 0 and state.producer_epoch != NO_EPOCH:
            return Refusal.OUT_OF_ORDER_SEQUENCE
    elif batch.base_sequence != add_sequence(state.last_sequence, 1):
        return Refusal.OUT_OF_ORDER_SEQUENCE
    if state.transaction_first_offset is not None and not batch.is_transactional:
        return Refusal.INVALID_TXN_STATE
    return None


def coordinator_refusal(producers: Producers, batch: StoredBatch, *, transaction_version: int) -> Refusal | None:
    """Why a leader would not append a coordinator's own batch: of what clients send its sequences are not looked at."""
    if batch.producer_id < 0:
        return None
    state = producers.states.get(batch.producer_id)
    if batch.is_marker:
        return _marker_refusal(state, batch, transaction_version)
    if state is not None and batch.producer_epoch < state.producer_epoch:
        return Refusal.INVALID_PRODUCER_EPOCH
    return None


def _marker_refusal(state: ProducerState | None, batch: StoredBatch, transaction_version: int) -> Refusal | None:
    if state is None:
        return None
    if transaction_version >= 2:
        # Strictly greater, but for the same marker again while nothing is open (KAFKA-19446, KAFKA-19999).
        repeated = batch.producer_epoch == state.producer_epoch and state.transaction_first_offset is None
        if batch.producer_epoch <= state.producer_epoch and not repeated:
            return Refusal.INVALID_PRODUCER_EPOCH
    elif batch.producer_epoch < state.producer_epoch:
        return Refusal.INVALID_PRODUCER_EPOCH
    if batch.coordinator_epoch < state.coordinator_epoch:
        return Refusal.TRANSACTION_COORDINATOR_FENCED
    return None


def appended(producers: Producers, batch: StoredBatch) -> tuple[Producers, EndedTransaction | None]:
    """The state with a batch that is in the log now, and the transaction that it ended."""
    if batch.producer_id < 0:
        return producers, None
    state = producers.states.get(batch.producer_id) or ProducerState(batch.producer_id, NO_EPOCH)
    if batch.is_control and not batch.is_marker:
        # The cleaner kept the batch and dropped the marker in it: it says whose it was and nothing else.
        return replace(producers, states={**producers.states, batch.producer_id: state}), None
    if state.producer_epoch != batch.producer_epoch:
        state = replace(state, producer_epoch=batch.producer_epoch, batches=())
    ended = None
    open_, unreplicated = producers.open, producers.unreplicated
    if batch.is_marker:
        if state.transaction_first_offset is not None:
            ended = EndedTransaction(
                batch.producer_id, state.transaction_first_offset, batch.base_offset, batch.committed is True
            )
            open_ = tuple(entry for entry in open_ if entry[1] != batch.producer_id)
            unreplicated = tuple(sorted((*unreplicated, ended), key=lambda t: t.first_offset))
        state = replace(
            state,
            coordinator_epoch=batch.coordinator_epoch,
            last_timestamp=batch.max_timestamp,
            transaction_first_offset=None,
        )
    elif not batch.is_control:
        kept = KeptBatch(
            batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset, batch.max_timestamp
        )
        first = state.transaction_first_offset
        if first is None and batch.is_transactional:
            first = batch.base_offset
            open_ = tuple(sorted((*open_, (first, batch.producer_id))))
        state = replace(
            state,
            batches=(*state.batches, kept)[-KEPT_BATCHES:],
            last_timestamp=batch.max_timestamp,
            transaction_first_offset=first,
        )
    states = {**producers.states, batch.producer_id: state}
    return Producers(states=states, open=open_, unreplicated=unreplicated), ended


def expired(producers: Producers, now_ms: int, expiration_ms: int) -> list[int]:
    """Producers without an open transaction that have been silent for longer than `producer.id.expiration.ms`."""
    return [
        state.producer_id
        for state in producers.states.values()
        if state.transaction_first_offset is None and now_ms - state.last_timestamp >= expiration_ms
    ]


def snapshot_entries(producers: Producers) -> tuple[ProducerSnapshotEntry, ...]:
    """What a producer snapshot keeps: of each producer the last batch only."""
    return tuple(
        ProducerSnapshotEntry(
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            last_sequence=state.last_sequence,
            last_offset=state.batches[-1].last_offset if state.batches else -1,
            offset_delta=state.batches[-1].last_offset - state.batches[-1].base_offset if state.batches else 0,
            timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_transaction_first_offset=state.transaction_first_offset,
        )
        for state in producers.states.values()
    )


def restored(entries: Iterable[ProducerSnapshotEntry]) -> Producers:
    """The state that a broker takes from a snapshot: its window is one batch long then."""
    states = {}
    for entry in entries:
        batches: tuple[KeptBatch, ...] = ()
        if entry.last_offset >= 0:
            first = add_sequence(entry.last_sequence, -entry.offset_delta)
            base = entry.last_offset - entry.offset_delta
            batches = (KeptBatch(first, entry.last_sequence, base, entry.last_offset, entry.timestamp),)
        states[entry.producer_id] = ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            batches=batches,
            coordinator_epoch=entry.coordinator_epoch,
            last_timestamp=entry.timestamp,
            transaction_first_offset=entry.current_transaction_first_offset,
        )
    return Producers(
        states=states,
        open=tuple(
            sorted(
                (s.transaction_first_offset, s.producer_id)
                for s in states.values()
                if s.transaction_first_offset is not None
            )
        ),
    )
