"""The metadata log replayed: against what brokers answered, against their own snapshots, and rule by rule."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.metadata_logs import (
    METADATA,
    TOPIC_ID,
    a_log,
    change,
    checkpoints,
    orders,
    record,
    whole_log,
)
from tidegauge.facts.metadata.history import EffectiveConfig, MetadataHistory, PartitionState, effective_topic_config
from tidegauge.facts.metadata.replay import replay
from tidegauge.kafka_log.metadata_records import METADATA_SCHEMAS

Golden = Callable[[str], Path]
LIVE = ["unclean-before", "hanging-txn", "pair-clean-b1", "pair-clean-b2", "tiered"]
TOPIC, BROKER = 2, 4
HISTORY = ("changes", "epoch_leaders", "last_leader_id")


def answers(capture: Path) -> dict[str, Any]:
    answered: dict[str, Any] = json.loads((capture / "GROUND_TRUTH.json").read_text())["probe_at_capture"]
    return answered


def now(state: PartitionState) -> dict[str, Any]:
    """A partition's registration without its past."""
    return {name: getattr(state, name) for name in PartitionState.__slots__ if name not in HISTORY}


def partitions(history: MetadataHistory) -> dict[tuple[str, int], dict[str, Any]]:
    living = [topic for topic in history.topics.values() if not topic.deleted]
    return {(topic.topic_id, n): now(state) for topic in living for n, state in topic.partitions.items()}


def only(history: MetadataHistory) -> PartitionState:
    return history.topics[TOPIC_ID].partitions[0]


def last_election(*changes: Any, **created: Any) -> str:
    return only(replay(a_log([*orders(**created), *changes]))).changes[-1].election


@pytest.mark.parametrize("capture", LIVE)
def test_the_end_of_the_replay_is_what_the_brokers_answered(golden: Golden, capture: str) -> None:
    # Broker 3 is alive in all of them.
    history, answered = replay(whole_log(golden(capture) / "broker-3" / METADATA)), answers(golden(capture))
    living = {topic.name: topic for topic in history.topics.values() if not topic.deleted}
    assert set(living) == set(answered["topics"])
    compared = 0
    for name, said in answered["topics"].items():
        assert living[name].topic_id == said["topic_id"]
        for partition in said["partitions"]:
            state = living[name].partitions[partition["partition"]]
            assert (state.leader_id, state.replicas) == (partition["leader"], tuple(partition["replicas"]))
            assert (set(state.isr), set(state.elr)) == (set(partition["isr"]), set(partition["elr"]))
            assert state.last_known_elr == tuple(partition["last_known_elr"])
            compared += 1
    assert compared >= 7
    configs = {name: values for (kind, name), values in history.configs.items() if kind == TOPIC and values}
    assert configs == answered["topic_configs_non_default"]
    # kraft.version is a control record's business.
    features = {name: level for name, level in answered["features"].items() if name != "kraft.version"}
    assert {name: history.features.get(name) for name in features} == features


@pytest.mark.parametrize("capture", ["healthy", "pair-clean-b2", "tiered"])
def test_a_brokers_own_snapshot_equals_the_replay_up_to_it(golden: Golden, capture: str) -> None:
    compared = 0
    for broker in (1, 2, 3):
        directory = golden(capture) / f"broker-{broker}" / METADATA
        log = whole_log(directory)
        for end_offset, records in checkpoints(directory):
            snapshot = replay((), snapshot=records)
            replayed = replay(logged for logged in log if logged.offset < end_offset)
            assert partitions(snapshot) == partitions(replayed)
            assert snapshot.brokers == replayed.brokers
            assert snapshot.configs == {key: values for key, values in replayed.configs.items() if values}
            assert (snapshot.features, snapshot.next_producer_id) == (replayed.features, replayed.next_producer_id)
            assert snapshot.end_offset == end_offset
            compared += 1
    assert compared >= 1


@pytest.mark.parametrize("capture", ["healthy", "pair-clean-b2"])
def test_a_replay_from_a_snapshot_ends_where_the_whole_one_ends(golden: Golden, capture: str) -> None:
    directory = golden(capture) / "broker-1" / METADATA
    log = whole_log(directory)
    whole = replay(log)
    for end_offset, records in checkpoints(directory):
        rest = [logged for logged in log if logged.offset >= end_offset]
        history = replay(rest, snapshot=records)
        assert partitions(history) == partitions(whole)
        assert (history.brokers, history.end_offset) == (whole.brokers, whole.end_offset)
        for topic_id, topic in history.topics.items():
            for number, state in topic.partitions.items():
                first, *later = state.changes
                told = whole.topics[topic_id].partitions[number].changes
                # The metadata log goes on where the snapshot ends, with the same rows.
                if first.from_snapshot:
                    assert (first.metadata_offset, first.previous_leader_id) == (end_offset, None)
                    after = [c for c in told if c.metadata_offset >= end_offset]
                    assert [c.metadata_offset for c in later] == [c.metadata_offset for c in after]
                    assert [c.election for c in later] == [c.election for c in after]
                assert not any(c.from_snapshot for c in later)


def test_the_three_unclean_elections_are_found_and_no_other(golden: Golden) -> None:
    history = replay(whole_log(golden("unclean-before") / "broker-2" / METADATA))
    unclean = {
        f"{topic.name}-{number}": (change.previous_leader_id, change.leader_id, change.previous_isr, change.isr)
        for topic in history.topics.values()
        for number, state in topic.partitions.items()
        for change in state.changes
        if change.election == "unclean"
    }
    assert unclean == {
        "orders-0": (1, 2, (1,), (2,)),
        "payments-0": (1, 2, (1,), (2,)),
        "payments-1": (1, 3, (1,), (3,)),
    }


@pytest.mark.parametrize("capture", ["epochs", "healthy", "pair-clean-b2", "soak-01", "tiered"])
def test_restarts_and_reassignments_elect_cleanly(golden: Golden, capture: str) -> None:
    history = replay(whole_log(golden(capture) / "broker-1" / METADATA))
    states = [state for topic in history.topics.values() for state in topic.partitions.values()]
    elections = Counter(change.election for state in states for change in state.changes)
    assert set(elections) == {"none", "clean"}
    assert elections["clean"] >= 5


@pytest.mark.parametrize("capture", ["epochs", "healthy"])
def test_after_a_clean_stop_of_the_whole_cluster_only_the_elr_is_left(golden: Golden, capture: str) -> None:
    history = replay(whole_log(golden(capture) / "broker-1" / METADATA))
    left = [state for t in history.topics.values() if not t.deleted for state in t.partitions.values()]
    assert {(state.leader_id, state.isr) for state in left} == {(None, ())}
    assert all(state.elr and state.last_known_elr == (state.last_leader_id,) for state in left)
    assert history.alive_brokers == frozenset()


@pytest.mark.parametrize("capture", ["epochs", "pair-clean-b2"])
def test_epochs_rise_and_know_their_leaders(golden: Golden, capture: str) -> None:
    history = replay(whole_log(golden(capture) / "broker-1" / METADATA))
    for topic in history.topics.values():
        for state in topic.partitions.values():
            for before, after in pairwise(state.changes):
                assert after.partition_epoch == before.partition_epoch + 1
                assert after.leader_epoch - before.leader_epoch in (0, 1)
                assert after.leader_epoch > before.leader_epoch or after.leader_id == before.leader_id
            led = {c.leader_epoch: c.leader_id for c in state.changes if c.leader_id is not None}
            assert state.epoch_leaders == led


def test_a_change_record_changes_what_it_carries_and_the_partition_epoch() -> None:
    state = only(replay(a_log([*orders(), change(isr=(1, 2))])))
    assert (state.isr, state.replicas, state.leader_id) == ((1, 2), (1, 2, 3), 1)
    assert (state.leader_epoch, state.partition_epoch) == (0, 1)
    last = state.changes[-1]
    assert (last.metadata_offset, last.sequence_in_log, last.at_ms, last.previous_isr) == (2, 1, 2000, (1, 2, 3))


@pytest.mark.parametrize("leader", [2, 1, -1])
def test_a_leader_field_raises_the_leader_epoch_even_for_the_same_leader(leader: int) -> None:
    state = only(replay(a_log([*orders(), change(leader=leader)])))
    assert (state.leader_id, state.leader_epoch) == (leader if leader >= 0 else None, 1)
    assert state.last_leader_id == (leader if leader >= 0 else 1)
    assert state.epoch_leaders == ({0: 1, 1: leader} if leader >= 0 else {0: 1})


def test_a_leader_out_of_the_isr_is_clean() -> None:
    assert last_election(change(leader=2, isr=(2, 3))) == "clean"
    assert last_election(change(leader=-1), change(leader=3)) == "clean"


def test_a_leader_out_of_the_elr_is_told_apart() -> None:
    stopped = change(leader=-1, isr=(), eligible_leader_replicas=(1, 2), last_known_elr=(1,))
    assert last_election(stopped, change(leader=2, isr=(2,), eligible_leader_replicas=(1,))) == "elr"


def test_a_leader_out_of_neither_is_unclean() -> None:
    assert last_election(change(leader=2, isr=(2,), leader_recovery_state=1), isr=(1,)) == "unclean"
    # Brokers before 3.2 do not write a recovery state, and a partition that is recovering already does not repeat it.
    assert last_election(change(leader=2, isr=(2,)), isr=(1,)) == "unclean"


def test_who_joins_the_isr_in_the_record_that_ends_a_move_leads_cleanly() -> None:
    moving = change(adding_replicas=(4,), removing_replicas=(1,), replicas=(1, 2, 4))
    end = {"leader": 4, "isr": (2, 4), "replicas": (4, 2), "adding_replicas": (), "removing_replicas": ()}
    assert last_election(moving, change(**end), isr=(1, 2)) == "clean"
    # A single replica that was elected as the last known leader is "recovering" until it is moved.
    recovered = change(**end, leader_recovery_state=0)
    assert last_election(moving, recovered, isr=(1, 2), leader_recovery_state=1) == "clean"
    assert last_election(moving, change(**end), isr=(1, 2), leader_recovery_state=1) == "unclean"
    # The same record while the move goes on, or of a leader that must still recover, is something else.
    assert last_election(moving, change(leader=4, isr=(2, 4)), isr=(1, 2)) == "unclean"
    assert last_election(moving, change(**{**end, "isr": (4,), "leader_recovery_state": 1}), isr=(1, 2)) == "unclean"
    assert last_election(change(leader=4, isr=(2, 4)), isr=(1, 2)) == "unclean"


def test_a_broker_back_from_an_unclean_shutdown_may_be_elected_uncleanly_out_of_the_isr() -> None:
    # The record that takes it out of the ISR is the one that makes it leader (KIP-966).
    log = (change(leader=-1, isr=(2,)), change(leader=2, isr=(2,), leader_recovery_state=1))
    assert last_election(*log) == "unclean"


def test_the_last_known_leader_is_told_apart_and_anyone_else_is_unclean() -> None:
    gone = change(leader=-1, isr=(), eligible_leader_replicas=(), last_known_elr=(1,))
    back = change(leader=1, isr=(1,), last_known_elr=(), leader_recovery_state=1)
    assert last_election(gone, back) == "last_known"
    another = change(leader=2, isr=(2,), last_known_elr=(), leader_recovery_state=1)
    assert last_election(gone, another) == "unclean"


def test_the_last_known_leader_leads_again_when_the_last_eligible_one_came_back_uncleanly() -> None:
    gone = change(leader=-1, isr=(), eligible_leader_replicas=(2,), last_known_elr=(1,))
    back = change(leader=1, isr=(1,), eligible_leader_replicas=(), last_known_elr=(), leader_recovery_state=1)
    assert last_election(gone, back) == "last_known"
    # Where an unclean election may be held, this was one: broker 2 might have led.
    allowed = record(
        "ConfigRecord", resource_type=2, resource_name="orders", name="unclean.leader.election.enable", value="true"
    )
    assert last_election(allowed, gone, back) == "unclean"


def test_no_election_where_the_leader_stays_or_goes() -> None:
    assert last_election(change(leader=1, isr=(1, 2))) == "none"
    assert last_election(change(leader=-1, isr=())) == "none"
    assert last_election(change(isr=(1, 3))) == "none"


def test_recovery_lasts_until_it_is_taken_back() -> None:
    log = [*orders(isr=(1,)), change(leader=2, isr=(2,), leader_recovery_state=1), change(isr=(2, 3))]
    assert only(replay(a_log(log))).recovering
    assert not only(replay(a_log([*log, change(leader_recovery_state=0)]))).recovering


def test_clearing_the_elr_is_a_change_where_there_was_one() -> None:
    stopped = change(leader=-1, isr=(), eligible_leader_replicas=(1, 2), last_known_elr=(1,))
    for name in ("", "orders"):
        state = only(replay(a_log([*orders(), stopped, record("ClearElrRecord", topic_name=name)])))
        assert (state.elr, state.last_known_elr, state.partition_epoch, state.leader_epoch) == ((), (), 2, 1)
        assert (state.changes[-1].previous_elr, state.changes[-1].elr, state.changes[-1].metadata_offset) == (
            *((1, 2), ()),
            3,
        )
    for log in ([*orders(), stopped, record("ClearElrRecord", topic_name="other")], [*orders(), stopped]):
        assert only(replay(a_log(log))).elr == (1, 2)
    deleted = [*orders(), stopped, record("RemoveTopicRecord", topic_id=TOPIC_ID), record("ClearElrRecord")]
    assert only(replay(a_log(deleted))).elr == (1, 2)
    untouched = only(replay(a_log([*orders(), record("ClearElrRecord", topic_name="")])))
    assert (untouched.partition_epoch, len(untouched.changes)) == (0, 1)


BEGIN, END, ABORT = (record(f"{verb}TransactionRecord") for verb in ("Begin", "End", "Abort"))


def test_records_of_a_metadata_transaction_count_once_it_has_ended() -> None:
    log = [*orders(), BEGIN, change(isr=(1, 2)), change(leader=2)]
    assert partitions(replay(a_log([*log, END]))) == partitions(replay(a_log([*orders(), *log[3:]])))
    assert only(replay(a_log([*log, ABORT, change(isr=(1,))]))).changes[-1].previous_isr == (1, 2, 3)
    still_open = replay(a_log(log))
    assert (only(still_open).isr, still_open.end_offset) == ((1, 2, 3), 5)


def test_a_transaction_whose_end_damage_may_have_taken_counts() -> None:
    log = a_log([*orders(), BEGIN, change(isr=(1, 2)), record("ConfigRecord"), change(isr=(1,)), change(leader=2)])
    assert only(replay(log)).isr == (1, 2, 3)
    del log[4]
    assert (only(replay(log)).isr, only(replay(log)).leader_id) == ((1,), 2)
    again = a_log([*orders(), BEGIN, change(isr=(1, 2)), BEGIN, change(isr=(1,)), ABORT])
    assert only(replay(again)).isr == (1, 2)


def test_a_deleted_topic_is_kept_and_its_name_may_come_back() -> None:
    other = "u" * 22
    log = [
        *orders(),
        record("ConfigRecord", resource_type=TOPIC, resource_name="orders", name="cleanup.policy", value="compact"),
        record("RemoveTopicRecord", topic_id=TOPIC_ID),
    ]
    history = replay(a_log(log))
    gone = history.topic_named("orders")
    assert gone is not None
    assert (gone.deleted, gone.topic_id, len(gone.partitions)) == (True, TOPIC_ID, 1)
    assert (TOPIC, "orders") not in history.configs
    history = replay(a_log([*log, record("TopicRecord", name="orders", topic_id=other)]))
    back = history.topic_named("orders")
    assert back is not None
    assert (back.deleted, back.topic_id, history.topic_named("other")) == (False, other, None)
    assert "orders" not in history.ever_compacted


def test_a_partition_whose_topic_was_lost_is_left_out() -> None:
    history = replay(a_log([orders()[1], change(leader=2)]))
    assert (history.topics, history.end_offset) == ({}, 2)


def test_brokers_come_are_fenced_and_go() -> None:
    log = [
        record("RegisterBrokerRecord", broker_id=7, broker_epoch=5, rack="r", log_dirs=("d",), incarnation_id="i" * 22),
        record("RegisterBrokerRecord", broker_id=8, broker_epoch=6),
        record("BrokerRegistrationChangeRecord", broker_id=7, broker_epoch=5, fenced=-1),
        record("UnfenceBrokerRecord", id=8, epoch=6),
    ]
    history = replay(a_log(log))
    assert history.alive_brokers == {7, 8}
    broker = history.brokers[7]
    assert (broker.broker_epoch, broker.rack, broker.directory_ids, broker.incarnation_id) == (5, "r", ("d",), "i" * 22)
    leaving = record("BrokerRegistrationChangeRecord", broker_id=7, broker_epoch=5, in_controlled_shutdown=1)
    assert replay(a_log([*log, leaving])).alive_brokers == {8}
    assert replay(a_log([*log, record("FenceBrokerRecord", id=8, epoch=6)])).alive_brokers == {7}
    gone = record("UnregisterBrokerRecord", broker_id=7, broker_epoch=5)
    assert set(replay(a_log([*log, gone])).brokers) == {8}
    moved = record("BrokerRegistrationChangeRecord", broker_id=7, broker_epoch=5, log_dirs=("e", "f"))
    assert replay(a_log([*log, moved])).brokers[7].directory_ids == ("e", "f")


def test_features_and_producer_ids() -> None:
    log = [
        record("FeatureLevelRecord", name="transaction.version", feature_level=2),
        record("FeatureLevelRecord", name="group.version", feature_level=1),
        record("ProducerIdsRecord", next_producer_id=2000),
        record("ProducerIdsRecord", next_producer_id=1000),
        record("FeatureLevelRecord", name="group.version", feature_level=0),
    ]
    history = replay(a_log(log))
    assert (history.features, history.next_producer_id) == ({"transaction.version": 2}, 2000)
    assert replay(()).next_producer_id is None


def config(kind: int, resource: str, name: str, value: str | None) -> Any:
    return record("ConfigRecord", resource_type=kind, resource_name=resource, name=name, value=value)


def test_a_config_says_its_value_and_where_it_comes_from() -> None:
    name = "min.insync.replicas"
    log = [*orders()]
    assert effective_topic_config(replay(a_log(log)), "orders", name) == EffectiveConfig(value="1", source="default")
    log.append(config(BROKER, "", name, "2"))
    assert effective_topic_config(replay(a_log(log)), "orders", name) == EffectiveConfig(value="2", source="broker")
    log.append(config(TOPIC, "orders", name, "3"))
    assert effective_topic_config(replay(a_log(log)), "orders", name) == EffectiveConfig(value="3", source="topic")
    assert effective_topic_config(replay(a_log(log)), "other", name).source == "broker"
    log.append(config(TOPIC, "orders", name, None))
    assert effective_topic_config(replay(a_log(log)), "orders", name).source == "broker"


@pytest.mark.parametrize(
    ("name", "broker_name", "default"),
    [
        ("cleanup.policy", "log.cleanup.policy", "delete"),
        ("unclean.leader.election.enable", "unclean.leader.election.enable", "false"),
    ],
)
def test_a_topics_config_has_a_brokers_name_and_a_default(name: str, broker_name: str, default: str) -> None:
    assert effective_topic_config(replay(()), "t", name) == EffectiveConfig(value=default, source="default")
    history = replay(a_log([config(BROKER, "", broker_name, "x"), config(BROKER, "1", broker_name, "y")]))
    assert effective_topic_config(history, "t", name) == EffectiveConfig(value="x", source="broker")


def test_internal_topics_carry_their_own_cleanup_policy(golden: Golden) -> None:
    history = replay(whole_log(golden("healthy") / "broker-1" / METADATA))
    for topic in ("__consumer_offsets", "__transaction_state"):
        assert effective_topic_config(history, topic, "cleanup.policy") == EffectiveConfig(
            value="compact", source="topic"
        )
        assert topic in history.ever_compacted
    assert effective_topic_config(history, "plain", "cleanup.policy").source == "default"


def test_a_topic_that_was_compacted_once_is_remembered() -> None:
    log = [*orders(), config(TOPIC, "orders", "cleanup.policy", "delete,compact")]
    log.append(config(TOPIC, "orders", "cleanup.policy", None))
    history = replay(a_log(log))
    assert history.ever_compacted == {"orders"}
    assert effective_topic_config(history, "orders", "cleanup.policy").value == "delete"


BROKERS = st.lists(st.integers(1, 3), max_size=3, unique=True).map(tuple)
CHANGES = st.builds(
    change,
    isr=st.none() | BROKERS,
    leader=st.sampled_from([-2, -1, 1, 2, 3]),
    eligible_leader_replicas=st.none() | BROKERS,
    leader_recovery_state=st.sampled_from([-1, 0, 1]),
)
RECORDS = st.one_of(CHANGES, st.sampled_from([BEGIN, END, ABORT, record("NoOpRecord"), record("ClearElrRecord")]))


@given(records=st.lists(RECORDS, max_size=12), cut=st.integers(0, 12))
def test_every_change_follows_from_the_one_before(records: list[Any], cut: int) -> None:
    history = replay(a_log([*orders(), *records]))
    state = only(history)
    assert [c.sequence_in_log for c in state.changes] == list(range(len(state.changes)))
    for before, after in pairwise(state.changes):
        assert (after.previous_leader_id, after.previous_isr, after.previous_elr) == (
            before.leader_id,
            before.isr,
            before.elr,
        )
        assert after.partition_epoch == before.partition_epoch + 1
        assert (after.election == "none") == (after.leader_id in (None, before.leader_id))
        assert after.election != "clean" or after.leader_id in before.isr
        assert after.election != "elr" or after.leader_id in before.elr
    # What was in force at a point is not taken back by what comes later, but for an open transaction.
    earlier = only(replay(a_log([*orders(), *records[:cut]]))).changes
    assert earlier == state.changes[: len(earlier)]


def test_every_record_type_can_be_replayed() -> None:
    names = [schema.name for schema in METADATA_SCHEMAS.values()]
    history = replay(a_log([*orders(), *(record(name) for name in names)]))
    assert history.end_offset == 2 + len(names)
