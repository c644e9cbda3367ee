"""Groups beside real coordinators' logs, and by example: what is committed, by whom, and when it counts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tidegauge.kafka_log.control import EndTxnMarker, decode_control_record
from tidegauge.kafka_log.log_dir import parse_partition_dir
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.coordinators import classic_group, consumer_group
from tidegauge.sim_engine.coordinators.classic_group import ClassicMember, ClassicState, JoinedGroup
from tidegauge.sim_engine.coordinators.committed_offsets import (
    commit_in_transaction,
    commit_offsets,
    delete_group,
    delete_offsets,
    fetch_offsets,
)
from tidegauge.sim_engine.coordinators.consumer_group import ConsumerMember, Topics
from tidegauge.sim_engine.coordinators.coordinator_effects import Answer, Asker, Write
from tidegauge.sim_engine.coordinators.group_coordinator import (
    heartbeat_classic,
    heartbeat_consumer,
    join_classic,
    leave_classic,
    sync_classic,
    tick,
)
from tidegauge.sim_engine.coordinators.group_records import CommittedOffset, KeyValue, decoded, offset_record
from tidegauge.sim_engine.coordinators.group_state import (
    GroupPartition,
    ReplayedMarker,
    ReplayedRecord,
    replayed,
)
from tidegauge.sim_engine.coordinators.led_groups import (
    GroupCoordinator,
    GroupSettings,
    Step,
    elected,
    failed,
    marker_appended,
    resigned,
)

Golden = Callable[[str], Path]
Entry = ReplayedRecord | ReplayedMarker

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
TOPICS = Topics(ids={"orders": "AAAAAAAAAAAAAAAAAAAAAQ"}, partition_counts={"orders": 4})
GROUP = "g"


def offset(at: int, *, now_ms: int = 5) -> CommittedOffset:
    return CommittedOffset(offset=at, commit_ms=now_ms, leader_epoch=1)


def entries_of(directory: Path) -> list[Entry]:
    entries: list[Entry] = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        headers, _ = scan_buffer(data)
        for row, records in records_in(data, headers):
            assert isinstance(records, tuple)
            header = headers[row]
            if header["control_type"] != -1:
                marker = decode_control_record(records[0])
                assert isinstance(marker, EndTxnMarker)
                entries.append(ReplayedMarker(producer_id=int(header["producer_id"]), committed=marker.committed))
                continue
            whose = int(header["producer_id"]) if header["attributes"] & 0x10 else -1
            entries += [ReplayedRecord(key=r.key, value=r.value, producer_id=whose) for r in records]
    return entries


def records_of(state: GroupPartition) -> Iterator[KeyValue]:
    """The last record of every key that holds, but for offsets of open transactions."""
    yield from state.other.items()
    for classic in state.classic.values():
        if classic.has_record:
            yield classic_group.record_of(classic)
    for group in state.consumer.values():
        yield consumer_group.epoch_record(group)
        yield consumer_group.target_record(group)
        for member_id in group.members:
            yield consumer_group.member_record(group, member_id)
            yield consumer_group.target_member_record(group, member_id)
            yield consumer_group.current_record(group, member_id)
    for (name, partition), committed in state.offsets.items():
        yield offset_record(name, partition, committed)


@pytest.mark.parametrize("capture", ["healthy", "soak-01", "pair-clean-b2"])
def test_a_real_log_replayed_says_what_its_last_records_said(golden: Golden, capture: str) -> None:
    """The state, written down again, is byte for byte the last record of every key that holds."""
    keys = 0
    for directory in sorted(golden(capture).glob("broker-*/__consumer_offsets-*")):
        named = parse_partition_dir(directory.name)
        if named is None or named.state != "live":
            continue
        entries = entries_of(directory)
        last: dict[bytes, bytes] = {}
        open_: dict[int, dict[bytes, bytes | None]] = {}
        for entry in entries:
            if isinstance(entry, ReplayedMarker):
                pending = open_.pop(entry.producer_id, {})
                changes = pending if entry.committed else {}
            else:
                assert entry.key is not None
                changes = {entry.key: entry.value}
                if entry.producer_id >= 0:
                    open_.setdefault(entry.producer_id, {}).update(changes)
                    changes = {}
            for key, value in changes.items():
                last.pop(key, None)
                if value is not None:
                    last[key] = value
        state = replayed(GroupPartition(), entries)
        assert dict(records_of(state)) == last, directory
        assert {p for p in state.open if state.open[p]} == {p for p in open_ if open_[p]}
        keys += len(last)
    assert keys > 3


@dataclass
class Broker:
    """Appends and answers at once; `log` is one partition's."""

    coordinator: GroupCoordinator = field(
        default_factory=lambda: elected(
            GroupCoordinator(settings=GroupSettings(partition_count=1, initial_rebalance_delay_ms=0)),
            0,
            0,
            (),
            now_ms=0,
        )
    )
    log: list[Entry] = field(default_factory=list)
    answers: dict[Asker, Answer] = field(default_factory=dict)

    def does(self, step: Step) -> None:
        self.coordinator, effects = step
        for effect in effects:
            if isinstance(effect, Answer):
                self.answers[effect.to] = effect
            else:
                assert isinstance(effect, Write)
                assert effect.producer is not None
                assert effect.producer.base_sequence == 0
                whose = effect.producer.producer_id
                self.log += [ReplayedRecord(key=k, value=v, producer_id=whose) for k, v in effect.records]
                self.answers.update({answer.to: answer for answer in effect.answers})

    def marker(self, producer_id: int, *, committed: bool) -> None:
        self.coordinator = marker_appended(self.coordinator, 0, producer_id, committed=committed)
        self.log.append(ReplayedMarker(producer_id=producer_id, committed=committed))

    def told(self, to: Asker) -> Answer:
        return self.answers.pop(to)

    def fetched(self, *, stable: bool = False) -> dict[TopicPartition, int]:
        self.does(fetch_offsets(self.coordinator, "f", group=GROUP, require_stable=stable))
        body = self.told("f").body
        assert isinstance(body, dict)
        return {partition: each.offset for partition, each in body.items()}

    def heir(self) -> "Broker":
        fresh = GroupCoordinator(settings=self.coordinator.settings)
        return Broker(coordinator=elected(fresh, 0, 1, self.log, now_ms=0), log=list(self.log))

    @property
    def state(self) -> GroupPartition:
        return self.coordinator.partitions[0]


def joined_pair(at: Broker) -> int:
    """Two members of one classic generation; the first leads."""
    for name in ("m1", "m2"):
        member = ClassicMember(member_id=name, client_id="c", subscription=name.encode())
        at.does(join_classic(at.coordinator, ("join", name), group=GROUP, member=member, now_ms=10))
    first = at.told(("join", "m1")).body
    assert isinstance(first, JoinedGroup)
    # The second one came too late for the first generation: all join again.
    at.does(heartbeat_classic(at.coordinator, "h", group=GROUP, member_id="m1", generation=first.generation, now_ms=11))
    assert at.told("h").error == "REBALANCE_IN_PROGRESS"
    member = ClassicMember(member_id="m1", client_id="c", subscription=b"m1")
    at.does(join_classic(at.coordinator, ("join", "m1"), group=GROUP, member=member, now_ms=12))
    leader, follower = at.told(("join", "m1")).body, at.told(("join", "m2")).body
    assert isinstance(leader, JoinedGroup)
    assert isinstance(follower, JoinedGroup)
    assert leader.members == (("m1", b"m1"), ("m2", b"m2"))
    assert (follower.members, follower.leader, follower.generation) == ((), "m1", leader.generation)
    for name, parts in (("m2", {}), ("m1", {"m1": b"0", "m2": b"1"})):
        at.does(
            sync_classic(
                at.coordinator, ("sync", name), group=GROUP, member_id=name, generation=leader.generation,
                assignments=parts, now_ms=13,
            )
        )  # fmt: skip
    assert at.told(("sync", "m2")).body == b"1"
    return leader.generation


def test_a_classic_group_rebalances_and_is_written_down() -> None:
    at = Broker()
    generation = joined_pair(at)
    assert at.state.classic[GROUP].state is ClassicState.STABLE
    said = [decoded(e.key, e.value)[2] for e in at.log if isinstance(e, ReplayedRecord)]
    assert [(s["generation"], len(s["members"])) for s in said if s is not None] == [(0, 0), (generation, 2)]
    heir = at.heir()
    assert heir.state.classic[GROUP].members.keys() == {"m1", "m2"}
    for name in ("m1", "m2"):
        at.does(leave_classic(at.coordinator, "l", group=GROUP, member_id=name, now_ms=14))
        assert at.told("l").error == "NONE"
    assert at.state.classic[GROUP].state is ClassicState.EMPTY
    assert dict(records_of(at.heir().state)) == dict(records_of(at.state))


def test_only_a_member_of_the_generation_commits() -> None:
    at = Broker()
    generation = joined_pair(at)
    for member_id, said, error in (
        ("m1", generation, "NONE"),
        ("m1", generation - 1, "ILLEGAL_GENERATION"),
        ("stranger", generation, "UNKNOWN_MEMBER_ID"),
        ("", -1, "UNKNOWN_MEMBER_ID"),
    ):
        at.does(
            commit_offsets(
                at.coordinator, "c", group=GROUP, offsets={P0: offset(7)}, member_id=member_id, generation=said
            )
        )
        assert at.told("c").error == error
    assert at.fetched() == {P0: 7}


def test_a_silent_member_is_put_out() -> None:
    at = Broker()
    generation = joined_pair(at)
    at.does(heartbeat_classic(at.coordinator, "h", group=GROUP, member_id="m1", generation=generation, now_ms=40_000))
    at.does(tick(at.coordinator, topics=TOPICS, now_ms=50_000))
    assert at.state.classic[GROUP].members.keys() == {"m1"}
    assert at.state.classic[GROUP].state is ClassicState.PREPARING


def test_a_consumer_group_moves_a_partition_only_when_it_is_free() -> None:
    at = Broker()

    def beat(name: str, epoch: int, now_ms: int) -> ConsumerMember | None:
        member = ConsumerMember(member_id=name, client_id="c", topics=("orders",))
        at.does(
            heartbeat_consumer(
                at.coordinator, "h", group=GROUP, member=member, member_epoch=epoch, topics=TOPICS, now_ms=now_ms
            )
        )
        answer = at.told("h")
        assert answer.error == "NONE"
        assert answer.body is None or isinstance(answer.body, ConsumerMember)
        return answer.body

    first = beat("m1", 0, 1)
    assert first is not None
    assert (first.epoch, len(first.assigned)) == (2, 4)
    second = beat("m2", 0, 2)
    assert second is not None
    assert (second.epoch, len(second.assigned)) == (3, 0)
    first = beat("m1", 2, 3)
    second = beat("m2", 3, 4)
    assert first is not None
    assert second is not None
    assert sorted(n for _, n in first.assigned) == [0, 1]
    assert sorted(n for _, n in second.assigned) == [2, 3]
    assert dict(records_of(at.heir().state)) == dict(records_of(at.state))
    at.does(commit_offsets(at.coordinator, "c", group=GROUP, offsets={P0: offset(1)}, member_id="m1", generation=2))
    assert at.told("c").error == "STALE_MEMBER_EPOCH"
    beat("m1", -1, 5)
    beat("m2", 3, 6)
    assert len(at.state.consumer[GROUP].members["m2"].assigned) == 4
    beat("m2", -1, 7)
    assert dict(records_of(at.heir().state)) == dict(records_of(at.state))


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("coordinator_dies", [True, False])
def test_offsets_of_a_transaction_count_when_its_marker_is_there(committed: bool, coordinator_dies: bool) -> None:
    at = Broker()
    at.does(commit_offsets(at.coordinator, "c", group=GROUP, offsets={P0: offset(3)}))
    at.does(
        commit_in_transaction(
            at.coordinator, "t", group=GROUP, offsets={P0: offset(9), P1: offset(4)}, producer_id=5, producer_epoch=0
        )
    )
    assert (at.told("c").error, at.told("t").error) == ("NONE", "NONE")
    assert at.fetched() == {P0: 3}
    at.does(fetch_offsets(at.coordinator, "f", group=GROUP))
    assert at.told("f").error == "UNSTABLE_OFFSET_COMMIT"
    if coordinator_dies:
        at = at.heir()
    at.marker(5, committed=committed)
    assert at.fetched(stable=True) == ({P0: 9, P1: 4} if committed else {P0: 3})
    at.marker(5, committed=not committed)
    assert at.fetched(stable=True) == ({P0: 9, P1: 4} if committed else {P0: 3}), "a second marker ends nothing"


def test_what_is_deleted_gets_a_tombstone() -> None:
    at = Broker()
    other = TopicPartition("gone", 0)
    at.does(commit_offsets(at.coordinator, "c", group=GROUP, offsets={P0: offset(3), other: offset(1)}))
    at.does(delete_offsets(at.coordinator, "d", group=GROUP, topics=["gone"]))
    assert at.fetched() == {P0: 3}
    at.does(delete_group(at.coordinator, "d", group=GROUP))
    assert at.told("d").error == "NONE"
    assert list(records_of(at.heir().state)) == []
    at.does(delete_group(at.coordinator, "d", group=GROUP))
    assert at.told("d").error == "GROUP_ID_NOT_FOUND"


@pytest.mark.parametrize("coordinator_dies", [True, False])
def test_what_a_transaction_has_pending_goes_with_its_topic(coordinator_dies: bool) -> None:
    at = Broker()
    other = TopicPartition("gone", 0)
    at.does(
        commit_in_transaction(
            at.coordinator, "t", group=GROUP, offsets={P0: offset(9), other: offset(4)}, producer_id=5, producer_epoch=0
        )
    )
    at.does(delete_offsets(at.coordinator, None, group=GROUP, topics=["gone"]))
    if coordinator_dies:
        at = at.heir()
    at.marker(5, committed=True)
    assert at.fetched() == {P0: 9}


def test_offsets_of_an_empty_group_expire() -> None:
    at = Broker()
    at.does(commit_offsets(at.coordinator, "c", group=GROUP, offsets={P0: offset(3), P1: offset(3, now_ms=9000)}))
    week_ms = at.coordinator.settings.offsets_retention_ms
    at.does(tick(at.coordinator, topics=TOPICS, now_ms=week_ms + 5, check_expiry=True))
    assert at.fetched() == {P1: 3}


def test_a_refused_batch_is_told_and_a_lost_partition_too() -> None:
    at = Broker()
    before = at.coordinator
    _, effects = commit_offsets(before, "c", group=GROUP, offsets={P0: offset(3)})
    assert failed(effects, "NOT_ENOUGH_REPLICAS") == [Answer(to="c", error="COORDINATOR_NOT_AVAILABLE")]
    member = ClassicMember(member_id="m", client_id="c")
    at.coordinator = replace(at.coordinator, settings=GroupSettings(partition_count=1))
    at.does(join_classic(at.coordinator, "j", group=GROUP, member=member, now_ms=10))
    at.does(resigned(at.coordinator, 0))
    assert at.told("j").error == "NOT_COORDINATOR"
    at.does(fetch_offsets(at.coordinator, "f", group=GROUP))
    assert at.told("f").error == "NOT_COORDINATOR"
