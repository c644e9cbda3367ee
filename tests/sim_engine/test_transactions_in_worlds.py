"""Transactions and groups in whole worlds: what clients are told, what is in the logs, what an auditor finds there."""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.derivation.pipeline import Derived, derived
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import CreateTopic, Kill, Start, StartConsumer
from tidegauge.sim_engine.coordinators.consumer_protocol import (
    ranges,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from tidegauge.sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    DoubleMarker,
    EndTransaction,
    LeaveGroup,
    LoseMarkers,
    RecordShareState,
    SendInTransaction,
    SendOffsetsInTransaction,
    StartGroupConsumer,
    StartTransactionalProducer,
    WriteUnverified,
)
from tidegauge.sim_engine.coordinators.share_coordinator import StateBatch, replayed
from tidegauge.sim_engine.engine import new_world, run, scheduled_all
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.transaction_notes import Decided, TransactionTold
from tidegauge.sim_engine.world import World
from tidegauge.snapshots.manifest import Consistency

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
READY_MS = 5_000


def cluster(*events: tuple[int, object], seed: int = 1, until_ms: int = 40_000) -> World:
    """Three brokers, coordinators' topics and `orders`; events at milliseconds after all that is there."""
    settings = Settings(broker_config={"min.insync.replicas": "2"})
    world = new_world(seed=seed, settings=settings)
    begun_ms = world.now_ms
    compacted = {"cleanup.policy": "compact"}
    topics = [
        CreateTopic(name="__transaction_state", assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]], config=compacted),
        CreateTopic(name="__consumer_offsets", assignment=[[2, 3, 1], [3, 1, 2], [1, 2, 3]], config=compacted),
        CreateTopic(name="orders", assignment=[[1, 2, 3], [2, 3, 1]]),
    ]
    world = scheduled_all(world, [(begun_ms + 3_000, topic) for topic in topics])
    world = scheduled_all(world, [(begun_ms + READY_MS + at_ms, action) for at_ms, action in events])
    return run(world, begun_ms + READY_MS + until_ms)


def records(*values: str) -> tuple[NewRecord, ...]:
    return tuple(NewRecord(timestamp=-1, key=None, value=value.encode()) for value in values)


def transaction(client: str, at_ms: int, *values: str, commit: bool | None) -> list[tuple[int, object]]:
    """One record to each partition for every value; None leaves it open."""
    events: list[tuple[int, object]] = [(at_ms, BeginTransaction(client))]
    for value in values:
        for partition in (P0, P1):
            events.append((at_ms, SendInTransaction(client=client, partition=partition, records=records(value))))
    return events if commit is None else [*events, (at_ms, EndTransaction(client, commit))]


def producer(client: str, transactional_id: str, *, version: int = 2, at_ms: int = 0) -> tuple[int, object]:
    return at_ms, StartTransactionalProducer(client=client, transactional_id=transactional_id, version=version)


def leader_log(world: World, partition: TopicPartition) -> ReplicaLog:
    leader = world.controller.image.topics[partition.topic].partitions[partition.partition].leader
    return world.brokers[leader].disk.replicas[partition].log


def told(world: World, client: str) -> list[str]:
    return [n.outcome for n in world.truth.transactions if isinstance(n, TransactionTold) and n.client == client]


def read_by(world: World, client: str) -> set[str]:
    """The values that a consumer was given."""
    found = set()
    for note in world.truth.consumed:
        if note.client == client:
            for batch in leader_log(world, note.partition).batches_from(note.base_offset, up_to=note.last_offset + 1):
                found |= {(record.value or b"").decode() for record in batch.records}
    return found


def audited(world: World, directory: Path) -> Derived:
    """What the auditor derives of the world's disks."""
    write_snapshot(
        directory / "s",
        snapshot_of(world),
        cluster="simulated",
        snapshot_id="s",
        consistency=Consistency.ATOMIC,
        truth=world.truth.to_json(),
    )
    return derived(directory / "s")


def true_transactions(world: World) -> dict[tuple[str, int, int, int], str]:
    """(topic, partition, producer id, data's epoch) -> outcomes in order, by the coordinators' decisions."""
    said: dict[tuple[str, int, int, int], str] = defaultdict(str)
    for note in world.truth.transactions:
        if isinstance(note, Decided):
            for partition in note.partitions:
                key = (partition.topic, partition.partition, note.producer_id, note.producer_epoch)
                said[key] += "committed " if note.committed else "aborted "
    return dict(said)


def derived_transactions(facts: Derived) -> dict[tuple[str, int, int, int], str]:
    said: dict[tuple[str, int, int, int], str] = defaultdict(str)
    for row in sorted(facts.all("transactions"), key=lambda row: int(row["first_offset"])):
        key = (row["topic"], row["partition"], row["producer_id"], row["producer_epoch"])
        said[key] += f"{row['outcome']} "
    return dict(said)


def test_an_auditor_derives_every_transaction_as_it_was_decided(tmp_path: Path) -> None:
    events = [producer("new", "tx-new"), producer("old", "tx-old", version=1)]
    for number in range(6):
        for client in ("new", "old"):
            at_ms = 500 + 400 * number
            events += transaction(client, at_ms, f"{client}{number}", commit=None)
            events.append((at_ms, SendOffsetsInTransaction(client=client, group="g", offsets={P0: number})))
            events.append((at_ms, EndTransaction(client, number % 3 != 2)))
    events.append((0, StartConsumer(client="reader", partitions=(P0, P1), read_committed=True)))
    world = cluster(*events)
    assert told(world, "new") == told(world, "old") == ["committed", "committed", "aborted"] * 2
    assert read_by(world, "reader") == {f"{client}{n}" for client in ("new", "old") for n in (0, 1, 3, 4)}
    facts = audited(world, tmp_path)
    assert derived_transactions(facts) == true_transactions(world)
    ids = {row["transactional_id"]: row["client_transaction_version"] for row in facts.all("transactions")}
    assert ids == {"tx-new": 2, "tx-old": 1}
    offset = facts.one("committed_offsets", group="g", partition=0)
    assert offset["committed_offset"] == 4, "the last one was aborted"
    for partition in (P0, P1):
        truth = world.truth.last_stable_offset(partition)
        assert truth == world.truth.high_watermark(partition)
        row = facts.one("partitions", topic=partition.topic, partition=partition.partition)
        assert row["last_stable_offset"] == truth
    assert not world.truth.losses


def test_the_same_seed_gives_the_same_world() -> None:
    events = [producer("p", "tx"), *transaction("p", 300, "a", "b", commit=True)]
    events += [(100, StartGroupConsumer(client="c", group="g", topics=("orders",))), (900, Kill(1)), (4000, Start(1))]
    first, second = (cluster(*events, seed=9, until_ms=15_000) for _ in range(2))
    assert first.truth.to_json() == second.truth.to_json()
    logs = [[b.data for b in leader_log(w, P0).batches_from(0)] for w in (first, second)]
    assert logs[0] == logs[1]


@pytest.mark.parametrize("version", [1, 2])
def test_a_zombie_is_fenced_and_what_it_wrote_is_aborted(version: int) -> None:
    world = cluster(
        producer("zombie", "tx", version=version),
        *transaction("zombie", 500, "dead", commit=None),
        producer("heir", "tx", version=version, at_ms=2_000),
        *transaction("heir", 2_500, "alive", commit=True),
        (3_000, SendInTransaction(client="zombie", partition=P0, records=records("late"))),
        (3_500, EndTransaction("zombie", commit=True)),
        (0, StartConsumer(client="reader", partitions=(P0, P1), read_committed=True)),
        (0, StartConsumer(client="dirty", partitions=(P0, P1))),
    )
    assert told(world, "heir") == ["committed"]
    assert [outcome in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH") for outcome in told(world, "zombie")] == [
        True,
        True,
    ]
    assert read_by(world, "reader") == {"alive"}
    assert read_by(world, "dirty") == {"alive", "dead"}


def test_an_abandoned_transaction_times_out() -> None:
    world = cluster(producer("p", "tx"), *transaction("p", 500, "left", commit=None), until_ms=55_000)
    assert not any(isinstance(n, Decided) for n in world.truth.transactions)
    assert world.truth.last_stable_offset(P0) == 0 < world.truth.high_watermark(P0)
    world = run(world, world.now_ms + 40_000)
    (decided,) = [n for n in world.truth.transactions if isinstance(n, Decided)]
    assert not decided.committed
    assert world.truth.last_stable_offset(P0) == world.truth.high_watermark(P0)


def coordinator_of(world: World, transactional_id: str) -> int:
    """The broker that leads the partition of the id's last record."""
    for number, partition in world.controller.image.topics["__transaction_state"].partitions.items():
        log = leader_log(world, TopicPartition("__transaction_state", number))
        if any(transactional_id.encode() in (r.key or b"") for b in log.batches_from(0) for r in b.records):
            return partition.leader
    raise AssertionError(f"nobody coordinates {transactional_id}")


def test_a_decision_outlives_its_coordinator() -> None:
    quiet = [producer("p", "tx"), *transaction("p", 500, "a", commit=True)]
    where = coordinator_of(cluster(*quiet), "tx")
    seen = set()
    for at_ms in range(524, 604, 8):
        world = cluster(*quiet, (at_ms, Kill(where)), (at_ms + 3_000, Start(where)), until_ms=30_000)
        decided = [n for n in world.truth.transactions if isinstance(n, Decided)]
        assert len({n.committed for n in decided}) == 1
        assert told(world, "p") == ["committed" if decided[0].committed else "aborted"]
        for partition in (P0, P1):
            log = leader_log(world, partition)
            markers = [b for b in log.batches_from(0) if b.is_marker]
            assert {b.committed for b in markers} == {decided[0].committed}
            assert log.last_stable_offset == log.high_watermark == log.log_end_offset
            seen.add(len(markers))
    assert seen >= {1, 2}, "somewhere in between an heir sends a marker that was there already"


def test_a_hanging_transaction_is_found(tmp_path: Path) -> None:
    events = [producer("p", "tx", version=1), *transaction("p", 500, "a", commit=True)]
    world = cluster(*events)
    producer_id = next(n.producer_id for n in world.truth.transactions if isinstance(n, Decided))
    late = WriteUnverified(partition=P0, producer_id=producer_id, records=records("late"))
    world = run(scheduled_all(world, [(world.now_ms + 10, late)]), world.now_ms + 10_000)
    assert [(f.kind, f.on_disk) for f in world.truth.faults] == [("unverified write", True)]
    assert world.truth.last_stable_offset(P0) == 2 < world.truth.high_watermark(P0)
    facts = audited(world, tmp_path)
    (row,) = facts.all("transactions", outcome="open")
    assert (row["topic"], row["partition"], row["first_offset"], row["hanging"]) == ("orders", 0, 2, True)
    assert facts.one("partitions", topic="orders", partition=0)["last_stable_offset"] == 2


def test_a_lost_marker_leaves_a_committed_transaction_open(tmp_path: Path) -> None:
    world = cluster(
        producer("p", "tx"),
        (400, LoseMarkers(P1)),
        *transaction("p", 500, "a", commit=True),
    )
    assert told(world, "p") == ["committed"]
    assert [(f.kind, f.where, f.on_disk) for f in world.truth.faults] == [("lost marker", "orders-1", True)]
    facts = audited(world, tmp_path)
    (row,) = facts.all("transactions", outcome="open")
    assert (row["partition"], row["coordinator_state"], row["hanging"]) == (1, "CompleteCommit", True)


def test_a_doubled_marker_ends_nothing_twice(tmp_path: Path) -> None:
    world = cluster(
        producer("p", "tx"),
        *transaction("p", 500, "a", commit=True),
        (1_000, DoubleMarker(P0)),
        *transaction("p", 1_500, "b", commit=True),
    )
    assert told(world, "p") == ["committed", "committed"]
    facts = audited(world, tmp_path)
    assert derived_transactions(facts) == true_transactions(world)
    rows = facts.all("transactions", partition=0, topic="orders")
    assert sorted((row["first_offset"], row["repeated_markers"]) for row in rows) == [(0, 1), (3, 0)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_everything_and_goes_on_where_it_was(protocol: str) -> None:
    def member(name: str) -> StartGroupConsumer:
        return StartGroupConsumer(client=name, group="g", topics=("orders",), protocol=protocol, read_committed=True)

    events: list[tuple[int, object]] = [producer("p", "tx"), (0, member("one")), (3_000, member("two"))]
    for number in range(12):
        events += transaction("p", 500 + 1000 * number, f"v{number}", commit=number % 4 != 3)
    events += [(9_000, LeaveGroup("two")), (20_000, LeaveGroup("one")), (22_000, member("three"))]
    events += transaction("p", 21_000, "last", commit=True)
    world = cluster(*events, until_ms=60_000)
    committed = {f"v{number}" for number in range(12) if number % 4 != 3}
    assert read_by(world, "one") | read_by(world, "two") == committed
    assert read_by(world, "two")
    assert read_by(world, "three") == {"last"}, "a new member begins behind what the group has committed"
    assert set(world.clients) >= {"p", "three"}
    assert not {"one", "two"} & set(world.clients)


def test_a_share_groups_state_survives_its_coordinator() -> None:
    acknowledged = 2  # Kafka RecordState

    def so_far(start: int, end: int) -> RecordShareState:
        done = StateBatch(first_offset=start, last_offset=end - 1, delivery_state=acknowledged, delivery_count=1)
        return RecordShareState(group="s", partition=P0, start_offset=start, batches=(done,))

    shared = TopicPartition("__share_group_state", 0)
    topic = CreateTopic(name=shared.topic, assignment=[[1, 2, 3]], config={"cleanup.policy": "compact"})
    calls = [(500, so_far(0, 5)), (600, so_far(5, 9)), (1_000, Kill(1)), (15_000, so_far(7, 20))]
    world = cluster((0, topic), *calls)
    assert leader_log(world, shared).latest_epoch > 0
    written = [(r.key, r.value) for batch in leader_log(world, shared).batches_from(0) for r in batch.records]
    ((key, state),) = replayed(written).items()
    assert (key.group_id, key.partition) == ("s", 0)
    assert (state.start_offset, state.updates) == (7, 3)
    assert [(b.first_offset, b.last_offset) for b in state.batches] == [(7, 19)]


def test_a_subscription_and_an_assignment_are_a_java_clients_bytes() -> None:
    """The bytes of the members of `g-events` and of its leader, in soak-01."""
    subscription = b"\0\3\0\0\0\1\0\6events\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff"
    assignment = b"\0\3\0\0\0\1\0\6events\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\2\xff\xff\xff\xff"
    given = [TopicPartition("events", n) for n in range(3)]
    assert write_subscription(["events"]) == subscription
    assert read_subscription(subscription) == ("events",)
    assert write_assignment(given) == assignment
    assert read_assignment(assignment) == tuple(given)
    assert read_assignment(b"") == ()


def test_ranges_give_the_first_members_one_more() -> None:
    shares = ranges({"b": ["x"], "a": ["x", "y"]}, {"x": 3, "y": 1, "z": 9})
    assert {member: [str(p) for p in read_assignment(data)] for member, data in shares.items()} == {
        "a": ["x-0", "x-1", "y-0"],
        "b": ["x-2"],
    }
