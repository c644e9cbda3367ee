"""What operators do: topics come and go, partitions move, records and settings change; and brokers that stand still."""

from tests.sim_engine.clusters import ORDERS, batches, cluster, cut_off, leader, said, texts
from tidegauge.kafka_log.coordinator_records import OffsetCommit, decode_offsets_record
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.brokers import follower_role
from tidegauge.sim_engine.coordinators.coordinator_actions import StartGroupConsumer
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.metadata.controller import NO_LEADER
from tidegauge.sim_engine.network import CONTROLLER, broker_node
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import World


def with_ten(world: World) -> World:
    world = step(world, actions.StartProducer(client="app"))
    for number in range(10):
        world = run_for(said(world, "app", str(number)), 100)
    return run_for(world, 2_000)


def test_a_partition_moves_and_those_who_leave_delete_it() -> None:
    world = with_ten(cluster(brokers=(1, 2, 3, 4)))
    world = run_for(step(world, actions.Reassign(ORDERS, (4, 2))), 10_000)
    image = world.controller.image.topics["orders"].partitions[0]
    assert (image.replicas, set(image.isr), image.adding, image.removing) == ((4, 2), {2, 4}, (), ())
    assert image.leader in (2, 4)
    assert [b for b in (1, 2, 3, 4) if ORDERS in world.brokers[b].disk.replicas] == [2, 4]
    assert texts(world, 4) == texts(world, 2) == [str(i) for i in range(10)]
    assert not list(world.truth.losses)


def test_a_topic_that_is_made_again_has_another_id_and_an_empty_log() -> None:
    world = with_ten(cluster())
    before = world.controller.image.topics["orders"].topic_id
    world = step(world, actions.Kill(3))
    world = run_for(step(world, actions.DeleteTopic("orders")), 15_000)
    assert ORDERS not in world.brokers[1].disk.replicas
    assert ORDERS in world.brokers[3].disk.replicas
    world = run_for(step(world, actions.CreateTopic(name="orders", assignment=[(1, 2, 3)])), 1_000)
    assert world.controller.image.topics["orders"].topic_id != before
    world = run_for(said(run_for(step(world, actions.Start(3)), 20_000), "app", "new"), 20_000)
    assert [texts(world, b) for b in (1, 2, 3)] == [["new"]] * 3
    assert len({world.brokers[b].disk.replicas[ORDERS].topic_id for b in (1, 2, 3)}) == 1


def test_deleted_records_are_gone_on_every_replica() -> None:
    world = with_ten(cluster())
    world = run_for(step(world, actions.DeleteRecords(ORDERS, 4)), 61_000)
    assert [texts(world, b) for b in (1, 2, 3)] == [[str(i) for i in range(4, 10)]] * 3
    assert [world.brokers[b].disk.log_starts for b in (1, 2, 3)] == [{ORDERS: 4}] * 3
    world = run_for(step(world, actions.DeleteRecords(ORDERS, 99)), 1_000)
    assert [t.what for t in world.truth.told] == ["OFFSET_OUT_OF_RANGE"]


def test_old_segments_go_on_every_replica() -> None:
    config = {"internal.segment.bytes": "200", "retention.ms": "60000"}
    world = run_for(with_ten(cluster(config=config)), 400_000)
    logs = [world.brokers[b].disk.replicas[ORDERS].log for b in (1, 2, 3)]
    assert {(len(log.segments), log.log_start_offset == log.segments[0].base_offset > 0) for log in logs} == {(1, True)}


def test_a_setting_reaches_the_logs() -> None:
    world = run_for(step(cluster(), actions.AlterConfig("orders", "retention.bytes", "4711")), 1_000)
    assert [world.brokers[b].disk.replicas[ORDERS].log.config.retention_bytes for b in (1, 2, 3)] == [4711] * 3
    world = run_for(step(world, actions.AlterConfig("orders", "retention.bytes", None)), 1_000)
    assert [world.brokers[b].disk.replicas[ORDERS].log.config.retention_bytes for b in (1, 2, 3)] == [None] * 3


def test_a_lower_minimum_of_in_sync_replicas_needs_no_eligible_leaders_any_more() -> None:
    world = cluster(assignment=((1, 2),), config={"min.insync.replicas": "2"})
    world = run_for(step(world, actions.Stop(2)), 5_000)
    partition = world.controller.image.topics["orders"].partitions[0]
    assert (partition.isr, partition.elr) == ((1,), (2,))
    world = step(world, actions.AlterConfig("orders", "min.insync.replicas", "1"))
    assert world.controller.image.topics["orders"].partitions[0].elr == ()


def test_who_led_last_is_forgotten_as_soon_as_somebody_leads() -> None:
    world = run_for(step(cluster(assignment=((1,),)), actions.Stop(1)), 15_000)
    assert world.controller.image.topics["orders"].partitions[0].last_known_elr == (1,)
    world = run_for(step(world, actions.Start(1)), 15_000)
    partition = world.controller.image.topics["orders"].partitions[0]
    assert (partition.leader, partition.elr, partition.last_known_elr) == (1, (), ())


def test_a_group_forgets_what_it_committed_in_a_topic_that_was_made_anew() -> None:
    world = cluster(assignment=((1, 2, 3),))
    offsets = actions.CreateTopic(
        name="__consumer_offsets", assignment=((1, 2, 3),), config={"cleanup.policy": "compact"}
    )
    world = with_ten(run_for(step(world, offsets), 1_000))
    member = StartGroupConsumer(client="m", group="g", topics=("orders",), commit_interval_ms=500)
    world = run_for(step(world, member), 15_000)
    assert committed(world) == {"g": 10}
    world = run_for(step(world, actions.DeleteTopic("orders")), 1_000)
    assert committed(world) == {"g": None}
    world = run_for(step(world, actions.CreateTopic(name="orders", assignment=[(1, 2, 3)])), 5_000)
    world = run_for(said(world, "app", "new"), 10_000)
    assert committed(world) == {"g": 1}


def committed(world: World) -> dict[str, int | None]:
    """What groups have committed, as the coordinator's log says."""
    records = (r for b in batches(world, 1, TopicPartition("__consumer_offsets", 0)) for r in b.records)
    said_last = [c for r in records if isinstance(c := decode_offsets_record(r.key, r.value), OffsetCommit)]
    return {c.group: None if c.tombstone else c.offset for c in said_last}


def test_the_preferred_leader_leads_again_when_the_controller_balances() -> None:
    world = with_ten(cluster(settings=Settings(preferred_election_interval_ms=30_000)))
    world = run_for(step(run_for(step(world, actions.Stop(1)), 10_000), actions.Start(1)), 60_000)
    assert leader(world) == 1
    assert [e.kind for e in world.truth.elections] == ["first", "clean", "preferred"]


def test_a_broker_that_the_controller_does_not_hear_keeps_an_old_image() -> None:
    world = with_ten(cluster())
    world = run_for(cut_off(world, broker_node(1), CONTROLLER), 15_000)
    assert leader(world) == 2
    old, new = world.brokers[1], world.brokers[2]
    assert old.running is not None
    assert old.running.image.topics["orders"].partitions[0].leader == 1
    assert old.disk.metadata.log_end_offset < new.disk.metadata.log_end_offset
    world = run_for(cut_off(world, broker_node(1), CONTROLLER, heal=True), 30_000)
    assert set(world.controller.image.topics["orders"].partitions[0].isr) == {1, 2, 3}


def test_a_broker_that_stands_still_is_fenced_and_goes_on_with_what_waited() -> None:
    world = with_ten(cluster())
    world = run_for(step(world, actions.Pause(1)), 15_000)
    assert leader(world) == 2
    world = run_for(said(world, "app", "meanwhile"), 15_000)
    world = run_for(step(world, actions.Resume(1)), 20_000)
    assert texts(world, 1) == texts(world, 2) == [*map(str, range(10)), "meanwhile"]


def test_what_a_dead_broker_leaves_is_as_old_as_its_last_checkpoint() -> None:
    world = with_ten(cluster())
    world = run_for(step(run_for(world, 5_000), actions.StopClient("app")), 1)
    world = step(world, actions.StartProducer(client="again"))
    while ORDERS not in world.brokers[2].disk.high_watermarks:
        world = run_for(world, 100)
    world = run_for(said(run_for(world, 5_000), "again", "late"), 700)
    dead = step(world, actions.Kill(2)).brokers[2]
    assert dead.running is None
    log = dead.disk.replicas[ORDERS].log
    assert dead.disk.high_watermarks[ORDERS] <= log.high_watermark <= log.log_end_offset == 11
    assert dead.disk.clean_broker_epoch is None
    stopped = run_for(step(world, actions.Stop(2)), 10_000).brokers[2].disk
    assert stopped.high_watermarks[ORDERS] == stopped.recovery_points[ORDERS] == 11
    assert stopped.clean_broker_epoch == world.controller.image.brokers[2].broker_epoch


def test_a_broker_that_cuts_a_log_writes_its_recovery_points_at_once() -> None:
    world = run_for(step(with_ten(cluster()), actions.Stop(2)), 5_000)
    assert world.brokers[2].disk.recovery_points[ORDERS] == 10
    turn = Turn(world)
    follower_role.cut(turn, 2, ORDERS, 5, "diverging epoch")
    assert turn.done().brokers[2].disk.recovery_points[ORDERS] == 5


def test_nobody_leads_where_nobody_is_alive() -> None:
    world = cluster(brokers=(1, 2), assignment=[(1,), (1, 2)])
    world = run_for(step(world, actions.Kill(1)), 15_000)
    assert leader(world) == NO_LEADER
    assert leader(world, TopicPartition("orders", 1)) == 2
    assert not batches(world, 2, TopicPartition("orders", 1))
