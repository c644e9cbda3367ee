"""The simulated transaction coordinator beside real ones, by example, and in every interleaving of two producers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.sim_engine.coordinator_logs import Broker, logs_of
from tidegauge.kafka_log.java_hash import coordinator_partition, string_hash
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators.coordinator_effects import Answer, SendMarkers, Write
from tidegauge.sim_engine.coordinators.transaction_coordinator import (
    LedPartition,
    TransactionalId,
    TransactionCoordinator,
    TransactionSettings,
    add_partitions,
    elected,
    end_transaction,
    init_producer_id,
    markers_answered,
    resigned,
    tick,
    verify_partitions,
    written,
)
from tidegauge.sim_engine.coordinators.transaction_metadata import (
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    Status,
    TransactionMetadata,
    replayed,
    written_record,
)

Golden = Callable[[str], Path]

TX = "tx"
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def broker(*, version: int = 2) -> Broker:
    settings = TransactionSettings(partition_count=3, transaction_version=version)
    coordinator = TransactionCoordinator(
        settings=settings, partitions={n: LedPartition(coordinator_epoch=0) for n in range(3)}
    )
    return Broker(coordinator)


def begin(at: Broker, *, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000) -> Answer:
    return at.ask(
        lambda c: init_producer_id(
            c, "?", transactional_id=TX, timeout_ms=timeout_ms, now_ms=at.now_ms, producer_id=producer_id,
            producer_epoch=epoch,
        )
    )  # fmt: skip


def add(at: Broker, who: Answer, *partitions: TopicPartition, version: int = 2) -> Answer:
    return at.ask(
        lambda c: add_partitions(
            c, "?", transactional_id=TX, producer_id=who.producer_id, producer_epoch=who.producer_epoch,
            partitions=partitions or (P0,), client_version=version, now_ms=at.now_ms,
        )
    )  # fmt: skip


def end(at: Broker, who: Answer, *, commit: bool, version: int = 2) -> Answer:
    return at.ask(
        lambda c: end_transaction(
            c, "?", transactional_id=TX, producer_id=who.producer_id, producer_epoch=who.producer_epoch,
            commit=commit, client_version=version, now_ms=at.now_ms,
        )
    )  # fmt: skip


def state(at: Broker) -> TransactionMetadata:
    found = at.coordinator.found(TX)
    assert found is not None
    return found.metadata


@pytest.mark.parametrize("capture", ["healthy", "hanging-txn", "epochs", "soak-01"])
def test_real_records_are_read_and_written_again(golden: Golden, capture: str) -> None:
    read = 0
    for directory, records in logs_of(golden(capture), "__transaction_state"):
        for _, record in records:
            if record.value is not None:
                ((_, metadata),) = replayed([(record.key, record.value)]).items()
                key, value = written_record(metadata, server_version=2)
                assert key == record.key
                # Topics whose names fall into one bucket change places each time they are read.
                again = replayed([(key, value)])[metadata.transactional_id]
                assert replace(again, partitions=()) == replace(metadata, partitions=()), directory
                assert sorted(again.partitions) == sorted(metadata.partitions), directory
                assert value == record.value or len({p.topic for p in metadata.partitions}) > 1
                read += 1
    assert read > 10


@pytest.mark.parametrize("capture", ["healthy", "hanging-txn", "epochs", "soak-01"])
def test_the_same_requests_give_a_real_coordinators_records(golden: Golden, capture: str) -> None:
    """The requests are told by a real log; answered again, they leave its bytes."""
    made = 0
    for directory, records in logs_of(golden(capture), "__transaction_state"):
        number = int(directory.name.rsplit("-", 1)[1])
        coordinator = TransactionCoordinator(settings=TransactionSettings(partition_count=3, max_timeout_ms=3_600_000))
        coordinator, _ = elected(coordinator, number, 0, (), now_ms=0)
        for _, record in records:
            assert record.key is not None
            assert record.value is not None
            ((key, wanted),) = replayed([(record.key, record.value)]).items()
            assert coordinator.partition_of(key).partition == number
            coordinator, write = request_for(coordinator, key, wanted)
            if write is None:
                # The log begins in the middle of the id's life.
                coordinator = taken_over(coordinator, number, wanted)
                continue
            assert write.records == ((record.key, record.value),), (directory, record.offset)
            coordinator, _ = written(coordinator, key, now_ms=wanted.last_update_ms)
            made += 1
    assert made > 5


def request_for(
    coordinator: TransactionCoordinator, key: str, wanted: TransactionMetadata
) -> tuple[TransactionCoordinator, Write | None]:
    found = coordinator.found(key)
    now_ms = wanted.last_update_ms
    if wanted.status is Status.EMPTY:
        coordinator = replace(coordinator, next_producer_id=wanted.producer_id, producer_ids_end=wanted.producer_id + 1)
        step = init_producer_id(coordinator, "?", transactional_id=key, timeout_ms=wanted.timeout_ms, now_ms=now_ms)
    elif found is None:
        return coordinator, None
    elif wanted.status is Status.ONGOING:
        step = add_partitions(
            coordinator,
            "?",
            transactional_id=key,
            producer_id=wanted.producer_id,
            producer_epoch=wanted.producer_epoch,
            partitions=sorted(set(wanted.partitions) - set(found.metadata.partitions)),
            client_version=wanted.client_version,
            now_ms=now_ms,
        )
    elif wanted.status.is_prepared:
        step = end_transaction(
            coordinator,
            "?",
            transactional_id=key,
            producer_id=wanted.producer_id,
            producer_epoch=found.metadata.producer_epoch,
            commit=wanted.commits,
            client_version=wanted.client_version,
            now_ms=now_ms,
        )
    else:
        # What it completes as is settled when the markers are sent.
        assert found.completing is not None
        completing = replace(found.completing, last_update_ms=now_ms)
        number = coordinator.partition_of(key).partition
        led = coordinator.partitions[number]
        ids = {**led.ids, key: replace(found, completing=completing)}
        coordinator = replace(coordinator, partitions={number: replace(led, ids=ids)})
        step = markers_answered(coordinator, key, 0, dict.fromkeys(found.metadata.partitions, "NONE"))
    coordinator, effects = step
    writes = [effect for effect in effects if isinstance(effect, Write)]
    assert len(writes) == 1, (effects, wanted)
    return coordinator, writes[0]


def taken_over(
    coordinator: TransactionCoordinator, number: int, metadata: TransactionMetadata
) -> TransactionCoordinator:
    led = coordinator.partitions[number]
    ids = {**led.ids, metadata.transactional_id: TransactionalId(metadata=metadata)}
    return replace(coordinator, partitions={number: replace(led, ids=ids)})


def test_ids_hash_as_in_java() -> None:
    assert string_hash("") == 0
    assert string_hash("tx-a") == 116 * 31**3 + 120 * 31**2 + 45 * 31 + 97
    assert string_hash("polygenelubricants") == -(2**31)
    assert coordinator_partition("polygenelubricants", 50) == 0
    assert string_hash("\N{GRINNING FACE}") == 31 * 0xD83D + 0xDE00


def test_v2_bumps_the_epoch_at_every_end() -> None:
    at = broker()
    who = begin(at)
    assert (who.error, who.producer_epoch) == ("NONE", 0)
    for number in range(1, 4):
        assert add(at, who).error == "NONE"
        who = end(at, who, commit=number % 2 == 0)
        assert (who.error, who.producer_epoch) == ("NONE", number)
        assert at.markers[-1].producer_epoch == number
        assert at.markers[-1].committed == (number % 2 == 0)
    assert state(at).status is Status.COMPLETE_ABORT


def test_v1_keeps_the_epoch() -> None:
    at = broker(version=1)
    who = begin(at)
    add(at, who, version=0)
    assert end(at, who, commit=True, version=0).producer_epoch == 0
    assert at.markers[-1].producer_epoch == 0
    assert end(at, who, commit=True, version=0).error == "NONE", "the same again, its answer was lost"
    assert end(at, who, commit=False, version=0).error == "INVALID_TXN_STATE"


def test_a_v2_end_that_comes_again_is_answered_again() -> None:
    at = broker()
    who = begin(at)
    add(at, who)
    first = end(at, who, commit=True)
    again = end(at, who, commit=True)
    assert (again.error, again.producer_epoch) == ("NONE", first.producer_epoch)
    assert end(at, who, commit=False).error == "INVALID_TXN_STATE"
    assert len(at.markers) == 1


def test_a_v2_abort_of_nothing_writes_its_states_and_no_marker() -> None:
    at = broker()
    who = begin(at)
    assert end(at, who, commit=True).error == "INVALID_TXN_STATE"
    assert end(at, who, commit=False).producer_epoch == 1
    assert state(at).status is Status.COMPLETE_ABORT
    assert not at.markers


def test_a_second_producer_aborts_and_fences_the_first() -> None:
    at = broker()
    zombie = begin(at)
    add(at, zombie, P0, P1)
    newest = begin(at)
    assert [(m.committed, m.producer_epoch, m.partitions) for m in at.markers] == [(False, 1, (P0, P1))]
    assert newest.producer_epoch == 2, "the epoch that the abort used was never given to anybody"
    assert end(at, zombie, commit=True).error == "PRODUCER_FENCED"
    assert add(at, zombie).error == "PRODUCER_FENCED"
    assert begin(at, producer_id=zombie.producer_id, epoch=zombie.producer_epoch).error == "PRODUCER_FENCED"
    add(at, newest)
    assert end(at, newest, commit=True).error == "NONE"


def test_a_producer_that_goes_on_keeps_its_id_and_fences_nobody_newer() -> None:
    at = broker()
    who = begin(at)
    bumped = begin(at, producer_id=who.producer_id, epoch=who.producer_epoch)
    assert bumped.producer_epoch == 1
    assert begin(at, producer_id=who.producer_id, epoch=0).producer_epoch == 1, "the answer was lost"
    begin(at)
    assert begin(at, producer_id=who.producer_id, epoch=1).error == "PRODUCER_FENCED"


@pytest.mark.parametrize("commit", [True, False])
def test_the_last_epoch_is_followed_by_a_new_producer_id(commit: bool) -> None:
    at = broker()
    who = begin(at)
    worn = replace(state(at), producer_epoch=LAST_CLIENT_EPOCH)
    at.coordinator = replace(
        at.coordinator,
        partitions={
            **at.coordinator.partitions,
            at.coordinator.partition_of(TX).partition: LedPartition(
                coordinator_epoch=0, ids={TX: TransactionalId(metadata=worn)}
            ),
        },
    )
    who = replace(who, producer_epoch=LAST_CLIENT_EPOCH)
    add(at, who)
    after = end(at, who, commit=commit)
    assert (after.producer_id, after.producer_epoch) == (who.producer_id + 1, 0)
    assert (at.markers[-1].producer_id, at.markers[-1].producer_epoch) == (who.producer_id, MAX_EPOCH)
    assert (state(at).previous_producer_id, state(at).next_producer_id) == (who.producer_id, -1)
    again = end(at, who, commit=commit)
    assert (again.error, again.producer_id, again.producer_epoch) == ("NONE", after.producer_id, 0)
    add(at, after)
    assert end(at, after, commit=True).producer_epoch == 1


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    at = broker()
    who = begin(at, timeout_ms=500)
    add(at, who)
    at.does(tick(at.coordinator, now_ms=at.now_ms + 500, check_timeouts=True))
    assert state(at).status is Status.ONGOING
    at.does(tick(at.coordinator, now_ms=at.now_ms + 501, check_timeouts=True))
    assert state(at).status is Status.COMPLETE_ABORT
    assert end(at, who, commit=True).error == "INVALID_TXN_STATE", "the bumped epoch looks like an answer that was lost"


def test_a_dead_coordinators_decision_is_carried_out_by_the_next() -> None:
    at = broker()
    who = begin(at)
    add(at, who, P0, P1)
    at.hold_markers = True
    assert end(at, who, commit=True).error == "NONE"
    assert state(at).status is Status.PREPARE_COMMIT
    heir = at.succeeded(7)
    assert [(m.committed, m.coordinator_epoch, m.partitions) for m in heir.markers] == [(True, 7, (P0, P1))]
    assert state(heir).status is Status.COMPLETE_COMMIT


def test_markers_that_fail_are_sent_again_and_a_newer_coordinator_ends_it() -> None:
    at = broker()
    who = begin(at)
    add(at, who, P0, P1)
    at.hold_markers = True
    end(at, who, commit=True)
    (sent,) = at.markers
    at.does(markers_answered(at.coordinator, TX, sent.coordinator_epoch, {P0: "NONE", P1: "NOT_LEADER_OR_FOLLOWER"}))
    at.does(tick(at.coordinator, now_ms=at.now_ms, check_timeouts=False))
    assert at.markers[-1].partitions == (P1,)
    at.does(tick(at.coordinator, now_ms=at.now_ms, check_timeouts=False))
    assert len(at.markers) == 2, "those on their way are not sent twice"
    at.does(markers_answered(at.coordinator, TX, sent.coordinator_epoch, {P1: "TRANSACTION_COORDINATOR_FENCED"}))
    at.does(tick(at.coordinator, now_ms=at.now_ms, check_timeouts=True))
    assert (state(at).status, len(at.markers)) == (Status.PREPARE_COMMIT, 2)


def test_a_lost_marker_is_taken_as_written() -> None:
    at = broker()
    at.coordinator = replace(at.coordinator, lost_markers=frozenset({P1}))
    who = begin(at)
    add(at, who, P0, P1)
    end(at, who, commit=True)
    assert [m.partitions for m in at.markers] == [(P0,)]
    assert state(at).status is Status.COMPLETE_COMMIT


def test_nothing_is_true_before_its_record_is_written() -> None:
    at = broker()
    who = begin(at)
    held, effects = add_partitions(
        at.coordinator, "a", transactional_id=TX, producer_id=who.producer_id, producer_epoch=0, partitions=[P0],
        client_version=2, now_ms=at.now_ms,
    )  # fmt: skip
    assert [type(e) for e in effects] == [Write]
    verify = partial(verify_partitions, to="v", transactional_id=TX, producer_id=who.producer_id, producer_epoch=0)
    assert verify(held, partitions=[P0])[1] == [Answer(to="v", error="TRANSACTION_ABORTABLE")]
    failed, effects = written(held, TX, now_ms=at.now_ms, error="NOT_ENOUGH_REPLICAS")
    assert effects == [Answer(to="a", error="COORDINATOR_NOT_AVAILABLE")]
    assert failed.found(TX) == at.coordinator.found(TX)
    gone, effects = resigned(held, at.coordinator.partition_of(TX).partition)
    assert effects == [Answer(to="a", error="NOT_COORDINATOR")]
    assert verify(gone, partitions=[P0])[1] == [Answer(to="v", error="NOT_COORDINATOR")]
    done, _ = written(held, TX, now_ms=at.now_ms)
    assert verify(done, partitions=[P0])[1] == [Answer(to="v")]


def test_an_unused_id_expires() -> None:
    at = broker()
    begin(at)
    at.does(tick(at.coordinator, now_ms=at.now_ms + 8 * 86_400_000, check_timeouts=True, check_expiry=True))
    assert at.coordinator.found(TX) is None
    assert replayed(at.log[at.coordinator.partition_of(TX)]) == {}


def interleavings(a: int, b: int) -> Iterator[str]:
    if a == 0 or b == 0:
        yield "a" * a + "b" * b
        return
    for rest in interleavings(a - 1, b):
        yield "a" + rest
    for rest in interleavings(a, b - 1):
        yield "b" + rest


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("hold_markers", [False, True])
@pytest.mark.parametrize("coordinator_dies_after", [None, *range(8)])
def test_of_two_producers_with_one_id_at_most_one_wins(
    version: int, hold_markers: bool, coordinator_dies_after: int | None
) -> None:
    """Both begin, write to a partition and commit, in every order of their requests, and the coordinator may die."""
    winners = set()
    for order in interleavings(4, 4):
        at = broker(version=max(version, 1))
        at.hold_markers = hold_markers
        producers = {name: Producer() for name in "ab"}
        for number, name in enumerate(order):
            producers[name].goes_on(at, version)
            if number == coordinator_dies_after:
                at = at.succeeded(number + 1)
        for markers in list(at.markers) if hold_markers else []:
            at.confirm(markers)
        told = {name for name, each in producers.items() if each.committed}
        overlapping = order.index("b") < order.rindex("a") and order.index("a") < order.rindex("b")
        assert len(told) <= 1 or not overlapping or one_after_the_other(order), order
        for name in told:
            # What was committed was written at an epoch whose marker says so, and by nobody else's decision.
            assert producers[name].decided in outcomes(at, version), (order, name)
        winners.add(frozenset(told))
    assert frozenset("b") in winners


def one_after_the_other(order: str) -> bool:
    """The first one's commit came before the second one began."""
    first, second = order[0], "b" if order[0] == "a" else "a"
    return order.rindex(first) < order.index(second)


def outcomes(at: Broker, version: int) -> set[tuple[int, int]]:
    """Producer id and data's epoch of every transaction that a Prepare record commits."""
    said = set()
    for records in at.log.values():
        for key, value in records:
            for metadata in replayed([(key, value)]).values():
                if metadata.status is Status.PREPARE_COMMIT:
                    said.add((metadata.producer_id, metadata.producer_epoch - (1 if version >= 2 else 0)))
    return said


class Producer:
    """Begins, adds a partition, waits (its records are on their way), commits; stops at the first error."""

    def __init__(self) -> None:
        self.step = 0
        self.who: Answer | None = None
        self.committed = False
        self.decided = (-1, -1)

    def goes_on(self, at: Broker, version: int) -> None:
        self.step += 1
        if self.step == 1:
            answer = begin(at)
            self.who = answer if answer.error == "NONE" else None
        elif self.who is None or self.step == 3:
            return
        elif self.step == 2:
            self.who = self.who if add(at, self.who, version=version).error == "NONE" else None
        else:
            self.decided = (self.who.producer_id, self.who.producer_epoch)
            self.committed = end(at, self.who, commit=True, version=version).error == "NONE"


def test_markers_go_to_every_partition_once() -> None:
    at = broker()
    who = begin(at)
    add(at, who, P1)
    add(at, who, P0, P1)
    end(at, who, commit=True)
    assert at.markers == [
        SendMarkers(
            transactional_id=TX,
            coordinator_epoch=0,
            producer_id=who.producer_id,
            producer_epoch=1,
            committed=True,
            client_version=2,
            partitions=(P0, P1),
        )
    ]
