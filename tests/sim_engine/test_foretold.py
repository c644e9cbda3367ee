"""What is foretold of a copy, in small worlds: only what the files of that copy can tell."""

from dataclasses import replace

from tests.sim_engine.clusters import ORDERS, cluster, said, values
from tidegauge.kafka_log.internal_topics import REMOTE_LOG_METADATA
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.coordinators.coordinator_actions import WriteUnverified
from tidegauge.sim_engine.disks.disk_actions import DeleteRemoteSegment, HurtDisk
from tidegauge.sim_engine.disks.disk_faults import FaultKind
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.log.tiering import without_first
from tidegauge.sim_engine.random_worlds.chance import Chance
from tidegauge.sim_engine.random_worlds.expected import Expected, Injected, ToldLoss
from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.random_worlds.file_damage import CHANGES, HurtFile, hurt_file, told_with
from tidegauge.sim_engine.random_worlds.losses import losses_of
from tidegauge.sim_engine.random_worlds.seen import expected, sight
from tidegauge.sim_engine.random_worlds.struck import Struck, checkpoints_are_its_own, topic_id_of
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.scenarios.scenario import Finding, LostRange
from tidegauge.sim_engine.settings import Settings
from tidegauge.sim_engine.world import World

TIERED = {"segment.bytes": "1000", "remote.storage.enable": "true", "local.retention.bytes": "1500"}


def test_a_checkpoint_speaks_of_another_topic_for_a_minute_after_a_name_is_given_again() -> None:
    world = cluster()
    assert checkpoints_are_its_own(world, ORDERS, 1)
    world = run_for(step(world, actions.DeleteTopic("orders")), 2_000)
    world = step(world, actions.CreateTopic(name="orders", assignment=((1, 2, 3),)))
    world = run_for(world, 10_000)
    assert not checkpoints_are_its_own(world, ORDERS, 1)
    stopped = run_for(step(world, actions.Stop(1)), 20_000)
    assert checkpoints_are_its_own(stopped, ORDERS, 1)
    later = run_for(world, 70_000)
    assert not checkpoints_are_its_own(later, ORDERS, 2), "no record of the metadata log says how late it is"
    other = actions.CreateTopic(name="other", assignment=((1, 2, 3),))
    assert checkpoints_are_its_own(run_for(step(later, other), 2_000), ORDERS, 2)


def test_no_checkpoint_is_changed_that_may_be_of_the_topic_before() -> None:
    world = run_for(step(cluster(), actions.DeleteTopic("orders")), 2_000)
    world = run_for(step(world, actions.CreateTopic(name="orders", assignment=((1, 2, 3),))), 10_000)
    for made_anew, at in ((False, cluster()), (True, world)):
        hurt = hurt_file(snapshot_of(at), WorldFault.OFFSET_CHECKPOINT, Chance(1, "files"), world=at)
        assert (hurt is None) is made_anew


def test_a_bad_batch_at_a_logs_end_is_foretold_only_of_a_copy_at_one_instant() -> None:
    world = step(cluster(), actions.StartProducer(client="p", idempotent=True))
    for number in range(2):
        world = run_for(said(world, "p", f"order number {number}"), 2_000)
    for offset, found_live in ((0, ["A03"]), (1, [])):
        hurt = step(world, HurtDisk(broker_id=1, partition=ORDERS, kind=FaultKind.BIT_FLIP, offset=offset))
        struck = Struck(kind=WorldFault.RECORDS_BIT_FLIP, at_ms=0, broker_id=1, partition=ORDERS, start_offset=offset)
        assert [f.code for f in expected([struck], [hurt], ()).findings] == ["A03"]
        live = expected([struck], [hurt, hurt], ())
        assert [f.code for f in live.findings] == found_live
        assert "A03" in {f.code for f in (*live.findings, *live.allowed)}


def tiered() -> World:
    """Some segments are in the tier alone, and one of them is deleted there."""
    settings = Settings(remote_task_interval_ms=5_000, retention_check_interval_ms=5_000)
    topic = actions.CreateTopic(name=REMOTE_LOG_METADATA, assignment=((3, 1, 2),), config={"retention.ms": "-1"})
    world = run_for(step(cluster(config=TIERED, settings=settings), topic), 2_000)
    world = step(world, actions.StartProducer(client="p", idempotent=True))
    for number in range(0, 200, 5):
        world = run_for(said(world, "p", *(f"order number {n}" for n in range(number, number + 5))), 50)
    world = run_for(world, 70_000)
    return run_for(step(world, DeleteRemoteSegment(partition=ORDERS)), 3_000)


def test_what_the_tier_lost_is_told_by_the_hole_in_it_and_never_as_gone_from_a_log() -> None:
    world = tiered()
    struck = Struck(
        kind=WorldFault.WRONG_REMOTE_DELETION, at_ms=0, partition=ORDERS, topic_id=topic_id_of(world, ORDERS)
    )
    foretold = expected([struck], [world], ())
    [lost] = [loss for loss in world.truth.losses if loss.committed]
    assert {(f.code, f.start_offset, f.end_offset) for f in foretold.findings} == {
        ("H03", lost.start_offset, lost.end_offset)
    }
    assert [f.broker_id for f in foretold.findings] == [1, 2, 3]
    [told] = foretold.losses
    assert (told.codes, told.lost.start_offset, told.lost.end_offset) == (
        frozenset({"H03"}),
        lost.start_offset,
        lost.end_offset,
    )
    elsewhere = Finding(code="H03", partition=ORDERS, start_offset=lost.start_offset, end_offset=lost.end_offset + 1)
    assert losses_of(world, (), [elsewhere])[0] == ()

    unlisted = {b: replace(broker, disk=replace(broker.disk, log_starts={})) for b, broker in world.brokers.items()}
    assert sight(struck, replace(world, brokers=unlisted)).findings == ()


def test_what_was_declared_while_an_earlier_copy_was_taken_need_not_be_in_it() -> None:
    """Records that all replicas lose in a power cut; the first high watermark was checkpointed before, or during."""
    begun = said(step(cluster(), actions.StartProducer(client="p")), "p", "order")
    ended = run_for(begun, 6_000)
    world = ended
    for broker_id in (1, 2, 3):
        lost = HurtDisk(broker_id=broker_id, kind=FaultKind.LOST_FLUSH, partition=ORDERS, offset=0)
        world = step(step(world, actions.Kill(broker_id)), lost)
    for broker_id in (1, 2, 3):
        world = step(world, actions.Start(broker_id))
    world = run_for(world, 10_000)
    [told] = losses_of(world, [ended], [])[0]
    assert (told.codes, told.lost.start_offset, told.lost.end_offset) == (frozenset({"C08", "C10"}), 0, 1)
    assert losses_of(world, [ended, ended], [])[0] == (told,)
    for earlier in ([begun], [begun, ended]):
        seen, [(unseen, _)] = losses_of(world, earlier, [])
        assert (seen, unseen) == ((), told.lost)


def test_a_damaged_batch_is_not_foretold_as_a_difference_of_histories() -> None:
    world = step(cluster(), actions.StartProducer(client="p", idempotent=True))
    for number in range(4):
        world = run_for(said(world, "p", f"order {number}"), 500)
    world = run_for(world, 10_000)
    other = next(b for b in (1, 2, 3) if b != world.controller.image.topics["orders"].partitions[0].leader)
    struck = Struck(kind=WorldFault.OLD_PROTOCOL, at_ms=0)

    def hurt(kind: FaultKind) -> World:
        return step(world, HurtDisk(broker_id=other, kind=kind, partition=TopicPartition("orders", 0), offset=1))

    assert sight(struck, hurt(FaultKind.BIT_FLIP)).findings == ()
    told = sight(struck, hurt(FaultKind.SAME_EPOCH_REWRITE)).findings
    assert [(f.code, f.partition, f.broker_id) for f in told] == [("D02", ORDERS, other)]


def test_replicas_whose_local_logs_begin_elsewhere_do_not_differ() -> None:
    world = tiered()
    broker = world.brokers[2]
    replica = broker.disk.replicas[ORDERS]
    shorter = replace(replica, log=without_first(replica.log, 1))
    disk = replace(broker.disk, replicas={**broker.disk.replicas, ORDERS: shorter})
    world = replace(world, brokers={**world.brokers, 2: replace(broker, disk=disk)})
    assert shorter.log.log_start_offset == replica.log.log_start_offset
    assert sight(Struck(kind=WorldFault.OLD_PROTOCOL, at_ms=0), world).findings == ()


def test_a_transaction_hangs_until_its_records_are_deleted() -> None:
    world = run_for(said(step(cluster(), actions.StartProducer(client="p")), "p", "order"), 500)
    late = WriteUnverified(partition=ORDERS, producer_id=77, records=values("late"))
    world = run_for(step(world, late), 10_000)
    struck = Struck(kind=WorldFault.HANGING_TRANSACTION, at_ms=0, partition=ORDERS, topic_id=topic_id_of(world, ORDERS))
    assert [(f.code, f.start_offset) for f in sight(struck, world).findings] == [("F09", 1)]
    world = run_for(step(world, actions.DeleteRecords(ORDERS, -1)), 10_000)
    assert sight(struck, world).findings == ()


def test_a_changed_checkpoint_hides_what_is_seen_by_it_on_that_disk_alone() -> None:
    def at(code: str, broker_id: int | None) -> Finding:
        return Finding(code=code, partition=ORDERS, broker_id=broker_id)

    gap = Injected(
        kind=WorldFault.REMOTE_TIER_GAP, at_ms=0, where="", findings=(at("H03", 1), at("H03", 2), at("A03", 1))
    )
    rewritten = Injected(kind=WorldFault.SAME_EPOCH_REWRITE, at_ms=0, where="", findings=(at("D03", None),))
    lost = LostRange(partition=ORDERS, start_offset=3, end_offset=5, committed=True)
    loss = ToldLoss(lost=lost, codes=frozenset({"D05"}))
    told = Expected(injected=(gap, rewritten), losses=(loss,))

    def after(kind: WorldFault) -> Expected:
        injected = Injected(kind=kind, at_ms=0, where="", findings=(at("B18", 1),))
        found = told_with(told, HurtFile(disks=(), injected=injected, allowed=()))
        assert found.injected[-1] == injected
        return found

    assert after(WorldFault.OFFSET_INDEX).injected[:2] == told.injected
    # A log that says to begin behind its end has lost nothing that is seen.
    assert after(WorldFault.OFFSET_CHECKPOINT).losses == ()
    assert [each for each, _ in after(WorldFault.OFFSET_CHECKPOINT).unseen_losses] == [lost]
    found = after(WorldFault.OFFSET_CHECKPOINT)
    assert [(f.code, f.broker_id) for f in found.injected[0].findings] == [("H03", 2), ("A03", 1)]
    assert found.injected[1].findings == ()
    assert found.injected[1].unseen is not None
    assert set(found.allowed) == {at("H03", 1), at("D03", None)}


def test_where_an_epoch_begins_in_the_tier_no_batch_contradicts_its_checkpoint() -> None:
    def codes(world: World) -> set[str]:
        disk = next(d for d in snapshot_of(world) if d.broker_id == 1)
        return {c.finding.code for c in CHANGES[WorldFault.EPOCH_CHECKPOINT](disk, ORDERS)}

    world = cluster(config=TIERED)
    world = run_for(step(world, actions.StartProducer(client="p", idempotent=True)), 1_000)
    world = run_for(said(world, "p", "before"), 1_000)
    world = run_for(step(world, actions.Stop(1)), 5_000)
    world = run_for(said(step(world, actions.Start(1)), "p", "after"), 10_000)
    assert {"B14", "B15"} <= codes(world)
    for _ in range(20):
        world = run_for(said(world, "p", *(f"order number {n}" for n in range(5))), 50)
    broker = world.brokers[1]
    replica = broker.disk.replicas[ORDERS]
    disk = replace(
        broker.disk, replicas={**broker.disk.replicas, ORDERS: replace(replica, log=without_first(replica.log, 1))}
    )
    world = replace(world, brokers={**world.brokers, 1: replace(broker, disk=disk)})
    assert "B15" in codes(world)
    assert "B14" not in codes(world)


def test_a_batch_that_was_sent_again_in_a_new_epoch_may_be_told() -> None:
    world = run_for(step(cluster(), actions.StartProducer(client="p", idempotent=True)), 1_000)
    world = run_for(said(world, "p", "order"), 1_000)
    again = WriteUnverified(
        partition=ORDERS, producer_id=0, producer_epoch=1, base_sequence=0, records=values("order"), transactional=False
    )
    struck = [Struck(kind=WorldFault.KILLS, at_ms=0)]
    told = Finding(code="E06", partition=ORDERS)
    assert told not in expected(struck, [world], ()).allowed
    assert told in expected(struck, [run_for(step(world, again), 1_000)], ()).allowed
    assert expected([], [world], ()).allowed == ()
