"""The transaction coordinator of one broker: all ids whose partition of `__transaction_state` it leads.

In: requests of producers and brokers, what became of records and markers, the clock. Out: the new coordinator and what
is to be done (`coordinator_effects`). Of all producers with one id only the newest gets anywhere; once a Prepare record
is replicated, its outcome is the only one that any marker will ever say.

    request -> Write(next state) -> `written` -> state holds, Answer (and SendMarkers after Prepare*)
            -> `markers_answered` by every partition -> Write(Complete*) -> `written`

Source: Kafka TransactionCoordinator, TransactionStateManager, TransactionMarkerChannelManager (4.4); KIP-98, KIP-890.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegauge.kafka_log.internal_topics import TRANSACTION_STATE
from tidegauge.kafka_log.java_hash import coordinator_partition
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.coordinator_effects import (
    NONE,
    Answer,
    Asker,
    AskForProducerIds,
    Effect,
    SendMarkers,
    Write,
)
from tidegauge.sim_engine.coordinators.transaction_metadata import (
    NO_EPOCH,
    NO_ID,
    Status,
    TransactionMetadata,
    completed,
    created,
    epoch_incremented,
    fenced,
    partitions_added,
    prepared,
    producer_id_rotated,
    replayed,
    tombstone,
    written_record,
)
from tidegauge.sim_engine.coordinators.transaction_rules import (
    client_error,
    end_v1,
    end_v2,
    may_continue,
    not_the_producer,
)

PRODUCER_ID_BLOCK: Final = 1000
"""Producer ids that the controller gives a broker at once (ProducerIdsBlock#PRODUCER_ID_BLOCK_SIZE)."""

_PERMANENT: Final = frozenset({"INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"})
_UNREACHABLE: Final = frozenset({"UNSUPPORTED_FOR_MESSAGE_FORMAT", "UNSUPPORTED_VERSION"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The brokers' settings. `transaction_version` is the feature level of the cluster: 0, 1 or 2."""

    partition_count: int = 50
    transaction_version: int = 2
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A state whose record is under way; None is a tombstone. `to` gets an answer when it is there."""

    next: TransactionMetadata | None
    to: Asker | None
    answer_error: str = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalId:
    """One id. `completing` is what it becomes when no partition is `unmarked` any more; `to_send`: not on their way."""

    metadata: TransactionMetadata
    pending: Pending | None = None
    completing: TransactionMetadata | None = None
    unmarked: frozenset[TopicPartition] = frozenset()
    to_send: frozenset[TopicPartition] = frozenset()
    gave_up: bool = False

    @property
    def is_busy(self) -> bool:
        """Something is under way, and another request has to come again."""
        return self.pending is not None or self.completing is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedPartition:
    """A partition of `__transaction_state` that this broker leads; its leader epoch is the coordinator's."""

    coordinator_epoch: int
    ids: Mapping[str, TransactionalId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCoordinator:
    """A broker's coordinator. `lost_markers`: a fault, partitions whose markers are taken as written and never sent."""

    settings: TransactionSettings = field(default_factory=TransactionSettings)
    partitions: Mapping[int, LedPartition] = field(default_factory=dict)
    next_producer_id: int = 0
    producer_ids_end: int = 0
    lost_markers: frozenset[TopicPartition] = frozenset()

    def partition_of(self, transactional_id: str) -> TopicPartition:
        """Where an id's records are."""
        number = coordinator_partition(transactional_id, self.settings.partition_count)
        return TopicPartition(TRANSACTION_STATE, number)

    def found(self, transactional_id: str) -> TransactionalId | None:
        """An id of a partition that this broker leads."""
        led = self.partitions.get(self.partition_of(transactional_id).partition)
        return led.ids.get(transactional_id) if led is not None else None


Step = tuple[TransactionCoordinator, list[Effect]]


def elected(
    coordinator: TransactionCoordinator,
    partition: int,
    coordinator_epoch: int,
    records: Iterable[tuple[bytes | None, bytes | None]],
    *,
    now_ms: int,
) -> Step:
    """The broker leads a partition now: it reads all of it, and sends the markers of what it finds prepared."""
    ids = {key: TransactionalId(metadata=value) for key, value in replayed(records).items()}
    led = LedPartition(coordinator_epoch=coordinator_epoch, ids=ids)
    now = replace(coordinator, partitions={**coordinator.partitions, partition: led})
    effects: list[Effect] = []
    for key, each in ids.items():
        if each.metadata.status.is_prepared:
            now, more = _markers_due(now, key, each.metadata, now_ms)
            effects += more
    return now, effects


def resigned(coordinator: TransactionCoordinator, partition: int) -> Step:
    """The broker does not lead a partition any more; who waits for a record of it must ask the next one."""
    led = coordinator.partitions.get(partition)
    waiting = [each.pending for each in led.ids.values() if each.pending is not None] if led is not None else []
    effects: list[Effect] = [Answer(to=p.to, error="NOT_COORDINATOR") for p in waiting if p.to is not None]
    left = {number: each for number, each in coordinator.partitions.items() if number != partition}
    return replace(coordinator, partitions=left), effects


def init_producer_id(
    coordinator: TransactionCoordinator,
    to: Asker,
    *,
    transactional_id: str | None,
    timeout_ms: int,
    now_ms: int,
    producer_id: int = NO_ID,
    producer_epoch: int = NO_EPOCH,
) -> Step:
    """A producer begins, or goes on after an error if it says who it is (KIP-360). It fences all before it."""
    if transactional_id is None:
        coordinator, new_id = _new_producer_id(coordinator)
        return (
            _refused(coordinator, to, "COORDINATOR_LOAD_IN_PROGRESS", AskForProducerIds())
            if new_id is None
            else (coordinator, [Answer(to=to, producer_id=new_id, producer_epoch=0)])
        )
    if not 0 < timeout_ms <= coordinator.settings.max_timeout_ms:
        return _refused(coordinator, to, "INVALID_TRANSACTION_TIMEOUT")
    if (error := _not_here(coordinator, transactional_id)) is not None:
        return _refused(coordinator, to, error)
    found = coordinator.found(transactional_id)
    if found is None:
        coordinator, new_id = _new_producer_id(coordinator)
        if new_id is None:
            return _refused(coordinator, to, "COORDINATOR_LOAD_IN_PROGRESS", AskForProducerIds())
        found = TransactionalId(metadata=created(transactional_id, new_id, timeout_ms, now_ms=now_ms))
        coordinator = _with(coordinator, transactional_id, found)
    now = found.metadata
    if found.is_busy:
        return _refused(coordinator, to, "CONCURRENT_TRANSACTIONS")
    expected = producer_epoch if producer_id != NO_ID else None
    if expected is not None and not may_continue(now, producer_id, expected):
        return _refused(coordinator, to, "PRODUCER_FENCED")
    if now.status.is_prepared:
        return _refused(coordinator, to, "CONCURRENT_TRANSACTIONS")
    if now.status is Status.ONGOING:
        return _abort_and_fence(coordinator, now, to, now_ms=now_ms)
    if now.is_exhausted and expected in (None, now.producer_epoch):
        coordinator, new_id = _new_producer_id(coordinator)
        if new_id is None:
            return _refused(coordinator, to, "COORDINATOR_LOAD_IN_PROGRESS", AskForProducerIds())
        anew: TransactionMetadata | None = producer_id_rotated(
            now, new_id, timeout_ms, expected=expected is not None, now_ms=now_ms
        )
    elif now.is_exhausted:
        return _refused(coordinator, to, "PRODUCER_FENCED")
    else:
        anew = epoch_incremented(now, timeout_ms, expected, now_ms=now_ms)
    if anew is None:
        return _refused(coordinator, to, "PRODUCER_FENCED")
    return _write(coordinator, transactional_id, Pending(next=anew, to=to))


def add_partitions(
    coordinator: TransactionCoordinator,
    to: Asker,
    *,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
    client_version: int,
    now_ms: int,
) -> Step:
    """Partitions that a transaction will reach: said by a V1 client, or under V2 by the leader that got its batch."""
    found = _known(coordinator, transactional_id)
    if isinstance(found, str):
        return _refused(coordinator, to, found)
    if (error := not_the_producer(found.metadata, producer_id, producer_epoch)) is not None:
        return _refused(coordinator, to, error)
    now = found.metadata
    if found.is_busy or now.status.is_prepared:
        return _refused(coordinator, to, "CONCURRENT_TRANSACTIONS")
    added = tuple(partitions)
    if now.status is Status.ONGOING and set(added) <= set(now.partitions):
        return coordinator, [Answer(to=to)]
    grown = partitions_added(now, added, client_version, now_ms=now_ms)
    return _write(coordinator, transactional_id, Pending(next=grown, to=to))


def verify_partitions(
    coordinator: TransactionCoordinator,
    to: Asker,
    *,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
) -> Step:
    """A leader asks whether a batch belongs to an open transaction, before it appends its first (KIP-890, part 1)."""
    found = _known(coordinator, transactional_id)
    if isinstance(found, str):
        return _refused(coordinator, to, found)
    if (error := not_the_producer(found.metadata, producer_id, producer_epoch)) is not None:
        return _refused(coordinator, to, error)
    if found.metadata.status.is_prepared:
        return _refused(coordinator, to, "CONCURRENT_TRANSACTIONS")
    if not set(partitions) <= set(found.metadata.partitions):
        return _refused(coordinator, to, "TRANSACTION_ABORTABLE")
    return coordinator, [Answer(to=to)]


def end_transaction(
    coordinator: TransactionCoordinator,
    to: Asker,
    *,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    client_version: int,
    now_ms: int,
) -> Step:
    """A producer commits or aborts. The answer leaves when Prepare* is replicated, before any marker is written."""
    found = _known(coordinator, transactional_id)
    if isinstance(found, str):
        return _refused(coordinator, to, found)
    now = found.metadata
    decided = (
        end_v2(now, producer_id, producer_epoch, commit=commit, busy=found.is_busy)
        if client_version >= 2
        else end_v1(now, producer_id, producer_epoch, commit=commit, busy=found.is_busy)
    )
    if decided == NONE:
        return coordinator, [Answer(to=to, producer_id=now.producer_id, producer_epoch=now.producer_epoch)]
    if decided is not None:
        return _refused(coordinator, to, decided)
    coordinator, next_id = _next_producer_id(coordinator, now, client_version)
    if next_id is None:
        return _refused(coordinator, to, "COORDINATOR_LOAD_IN_PROGRESS", AskForProducerIds())
    ready = prepared(now, commit=commit, client_version=client_version, next_producer_id=next_id, now_ms=now_ms)
    return _write(coordinator, transactional_id, Pending(next=ready, to=to))


def written(coordinator: TransactionCoordinator, transactional_id: str, *, now_ms: int, error: str = NONE) -> Step:
    """The record of a pending state is replicated, or will not be."""
    found = coordinator.found(transactional_id)
    if found is None or found.pending is None:
        return coordinator, []
    pending = found.pending
    if error != NONE:
        return _write_failed(coordinator, transactional_id, found, pending, error)
    if pending.next is None:
        return _without(coordinator, transactional_id), []
    now = pending.next
    coordinator = _with(coordinator, transactional_id, TransactionalId(metadata=now))
    effects: list[Effect] = []
    if pending.to is not None:
        fenced_off = pending.answer_error != NONE
        effects.append(
            Answer(
                to=pending.to,
                error=pending.answer_error,
                producer_id=NO_ID if fenced_off else _answered_id(now),
                producer_epoch=NO_EPOCH if fenced_off else _answered_epoch(now),
            )
        )
    if now.status.is_prepared:
        coordinator, more = _markers_due(coordinator, transactional_id, now, now_ms)
        effects += more
    return coordinator, effects


def markers_answered(
    coordinator: TransactionCoordinator,
    transactional_id: str,
    coordinator_epoch: int,
    errors: Mapping[TopicPartition, str],
) -> Step:
    """Leaders say what became of markers. Those that failed for now are sent again at the next tick."""
    found = coordinator.found(transactional_id)
    led = coordinator.partitions.get(coordinator.partition_of(transactional_id).partition)
    if found is None or led is None or led.coordinator_epoch != coordinator_epoch or found.gave_up:
        return coordinator, []
    if not found.metadata.status.is_prepared or not found.unmarked:
        return coordinator, []
    if any(error in _PERMANENT for error in errors.values()):
        # Somebody newer acts for this id; the state stays Prepare* until a coordinator reads it again.
        return _with(coordinator, transactional_id, replace(found, gave_up=True)), []
    done = {p for p, error in errors.items() if error == NONE or error in _UNREACHABLE}
    unmarked = found.unmarked - done
    to_send = (found.to_send | (errors.keys() - done)) & unmarked
    found = replace(found, unmarked=unmarked, to_send=to_send)
    coordinator = _with(coordinator, transactional_id, found)
    return (coordinator, []) if unmarked else _go_on(coordinator, transactional_id, found)


def tick(coordinator: TransactionCoordinator, *, now_ms: int, check_timeouts: bool, check_expiry: bool = False) -> Step:
    """The clock: markers and completions that failed are tried again; old transactions abort, unused ids expire.

    Kafka looks for timeouts each 10 s (`transaction.abort.timed.out.transaction.cleanup.interval.ms`), for ids each
    hour.
    """
    effects: list[Effect] = []
    for number in sorted(coordinator.partitions):
        for key in sorted(coordinator.partitions[number].ids):
            found = coordinator.found(key)
            assert found is not None
            now = found.metadata
            if found.pending is not None or found.gave_up:
                more: list[Effect] = []
            elif found.completing is not None:
                coordinator, more = _go_on(coordinator, key, found)
            elif check_timeouts and now.timed_out(now_ms):
                coordinator, more = _abort_and_fence(coordinator, now, None, now_ms=now_ms)
            elif check_expiry and _expired(coordinator.settings, now, now_ms):
                coordinator, more = _write(coordinator, key, Pending(next=None, to=None))
            else:
                more = []
            effects += more
    return coordinator, effects


def _abort_and_fence(
    coordinator: TransactionCoordinator, now: TransactionMetadata, to: Asker | None, *, now_ms: int
) -> Step:
    """The open transaction aborts under a higher epoch. Who asked comes again, and then gets one of its own."""
    version = coordinator.settings.transaction_version
    coordinator, next_id = _next_producer_id(coordinator, now, version)
    if next_id is None:
        answers = [Answer(to=to, error="COORDINATOR_LOAD_IN_PROGRESS")] if to is not None else []
        return coordinator, [*answers, AskForProducerIds()]
    ready = fenced(now, server_version=version, next_producer_id=next_id, now_ms=now_ms)
    pending = Pending(next=ready, to=to, answer_error="CONCURRENT_TRANSACTIONS")
    return _write(coordinator, now.transactional_id, pending)


def _markers_due(
    coordinator: TransactionCoordinator, transactional_id: str, now: TransactionMetadata, now_ms: int
) -> Step:
    """A transaction is prepared. What it will be when its markers are written is settled now, its timestamp too."""
    waiting = frozenset(now.partitions) - coordinator.lost_markers
    due = TransactionalId(metadata=now, completing=completed(now, now_ms=now_ms), unmarked=waiting, to_send=waiting)
    return _go_on(_with(coordinator, transactional_id, due), transactional_id, due)


def _go_on(coordinator: TransactionCoordinator, transactional_id: str, found: TransactionalId) -> Step:
    """Sends the markers that are not on their way; writes the completion when none is wanted any more."""
    if not found.unmarked:
        return _write(coordinator, transactional_id, Pending(next=found.completing, to=None))
    if not found.to_send:
        return coordinator, []
    now = found.metadata
    led = coordinator.partitions[coordinator.partition_of(transactional_id).partition]
    markers = SendMarkers(
        transactional_id=transactional_id,
        coordinator_epoch=led.coordinator_epoch,
        producer_id=now.producer_id,
        producer_epoch=now.producer_epoch,
        committed=now.commits,
        client_version=now.client_version,
        partitions=tuple(sorted(found.to_send)),
    )
    return _with(coordinator, transactional_id, replace(found, to_send=frozenset())), [markers]


def _write(coordinator: TransactionCoordinator, transactional_id: str, pending: Pending) -> Step:
    found = coordinator.found(transactional_id)
    assert found is not None
    record = (
        written_record(pending.next, server_version=coordinator.settings.transaction_version)
        if pending.next is not None
        else tombstone(transactional_id)
    )
    effect = Write(partition=coordinator.partition_of(transactional_id), what=transactional_id, records=(record,))
    return _with(coordinator, transactional_id, replace(found, pending=pending)), [effect]


def _write_failed(
    coordinator: TransactionCoordinator, transactional_id: str, found: TransactionalId, pending: Pending, error: str
) -> Step:
    """A state that was not written is not; the client comes again. A completion is written again at the next tick."""
    coordinator = _with(coordinator, transactional_id, replace(found, pending=None))
    return coordinator, [Answer(to=pending.to, error=client_error(error))] if pending.to is not None else []


def _answered_id(now: TransactionMetadata) -> int:
    """A V2 client learns its next producer id with the answer to its EndTxn."""
    return now.next_producer_id if now.next_producer_id != NO_ID else now.producer_id


def _answered_epoch(now: TransactionMetadata) -> int:
    return 0 if now.next_producer_id != NO_ID else now.producer_epoch


def _known(coordinator: TransactionCoordinator, transactional_id: str) -> TransactionalId | str:
    """An id that some producer began with, or the error that who asks about it is told."""
    error = _not_here(coordinator, transactional_id)
    return error or coordinator.found(transactional_id) or "INVALID_PRODUCER_ID_MAPPING"


def _not_here(coordinator: TransactionCoordinator, transactional_id: str) -> str | None:
    if not transactional_id:
        return "INVALID_REQUEST"
    led = coordinator.partition_of(transactional_id).partition in coordinator.partitions
    return None if led else "NOT_COORDINATOR"


def _expired(settings: TransactionSettings, now: TransactionMetadata, now_ms: int) -> bool:
    return now.status.is_at_rest and now.last_update_ms <= now_ms - settings.id_expiration_ms


def _new_producer_id(coordinator: TransactionCoordinator) -> tuple[TransactionCoordinator, int | None]:
    taken = coordinator.next_producer_id
    if taken >= coordinator.producer_ids_end:
        return coordinator, None
    return replace(coordinator, next_producer_id=taken + 1), taken


def _next_producer_id(
    coordinator: TransactionCoordinator, now: TransactionMetadata, version: int
) -> tuple[TransactionCoordinator, int | None]:
    """The id that takes over after this transaction: -1 while the old one has epochs left, None if there is none."""
    return _new_producer_id(coordinator) if version >= 2 and now.is_exhausted else (coordinator, NO_ID)


def _refused(coordinator: TransactionCoordinator, to: Asker, error: str, *more: Effect) -> Step:
    return coordinator, [Answer(to=to, error=error), *more]


def _with(coordinator: TransactionCoordinator, transactional_id: str, found: TransactionalId) -> TransactionCoordinator:
    number = coordinator.partition_of(transactional_id).partition
    led = coordinator.partitions[number]
    led = replace(led, ids={**led.ids, transactional_id: found})
    return replace(coordinator, partitions={**coordinator.partitions, number: led})


def _without(coordinator: TransactionCoordinator, transactional_id: str) -> TransactionCoordinator:
    number = coordinator.partition_of(transactional_id).partition
    led = coordinator.partitions[number]
    led = replace(led, ids={key: each for key, each in led.ids.items() if key != transactional_id})
    return replace(coordinator, partitions={**coordinator.partitions, number: led})
