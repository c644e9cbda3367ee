"""Disks that lose, exchange or bring back what is on them, below anything that replication looks at.

In: a seed. Out: the story's moments. Source: Kafka LogLoader, UnifiedLog; what copies of such disks look like.
"""

from typing import Final

from tidegauge.sim_engine.disks.disk_actions import FillDisk, FreeDisk, HurtDisk, RestoreDisk
from tidegauge.sim_engine.disks.disk_faults import FaultKind
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.scenarios.scenario import Moment, Played, Scenario
from tidegauge.sim_engine.scenarios.stage import (
    CHECKPOINTED_MS,
    ORDERS,
    SESSION_OVER_MS,
    A,
    B,
    C,
    cluster,
    found,
    killed,
    lost,
    numbered,
    started,
    with_next_producer,
    with_producer,
)

_ROLLED: Final = {"segment.bytes": "2000"}


def lossy_power_cut(seed: int) -> Played:
    """A, B and C hold 0-99, all committed and none flushed. All three lose power at once, and none of their disks
    ever got what lies behind offset 59. They come back.

    Truth: the committed records [60, 100) are lost on all replicas: Kafka commits what is in memory on all of them.
    Nobody is in the ISR or ELR after such stops, so the last known leader leads (KIP-966). New records take their
    offsets.

    An audit finds, while all are down, that the checkpointed high watermarks lie above the logs' ends (B16, C01), so
    that members of the ISR lack what was committed (D10). Compared with a copy of before, then and when all are back:
    that committed records are on no replica any more (C10, C08), and in the end that high watermarks fell (C07).
    Beside the ledger, that acknowledged records are missing (D19).
    """
    world = run_for(numbered(with_producer(cluster(seed), "app"), "app", 0, 100), CHECKPOINTED_MS)
    before = Moment(name="before", what="All hold 0-99.", world=world)
    world = killed(world, A, B, C)
    for broker_id in (A, B, C):
        hurt = HurtDisk(broker_id=broker_id, kind=FaultKind.LOST_FLUSH, partition=ORDERS, offset=60)
        world = step(world, hurt)
    dark = Moment(
        name="dark",
        what="All are down; their logs end at 60.",
        world=world,
        previous="before",
        findings=(
            *(found(code, b, 60, 100) for b in (A, B, C) for code in ("B16", "C01", "C08", "C10")),
            *(found("D10", b, 60, 100) for b in (B, C)),
            found("D19", None, 60, 100),
        ),
    )
    world = with_next_producer(started(world, A, B, C), "app-2")
    world = numbered(world, "app-2", 300, 320)
    back = Moment(
        name="back",
        what="All are back; offsets 60-79 are other records.",
        world=run_for(world, CHECKPOINTED_MS),
        losses=(lost(60, 100),),
        previous="before",
        findings=(
            *(found("C07", b, 80, 100) for b in (A, B, C)),
            *(found(code, b, 60, 100) for b in (A, B, C) for code in ("C08", "C10")),
            found("D19", None, 60, 100),
        ),
    )
    return Played((before, dark, back))


def same_epoch_rewrite(seed: int) -> Played:
    """A, B and C hold 0-99. On B's disk the batch at 50 is replaced by another one: the same offsets, epoch and
    producer, a right checksum, other values. Nothing that Kafka looks at is wrong.

    Truth: B's records 50-59 are not those that were committed. Nothing is lost as long as B does not lead.

    An audit finds two batches for one epoch and offset (D03), that B differs below the high watermark (D02), where
    the epochs say that it does not (D07), and that it is in the ISR all the same (D10).
    """
    world = run_for(numbered(with_producer(cluster(seed), "app"), "app", 0, 100), CHECKPOINTED_MS)
    hurt = HurtDisk(broker_id=B, kind=FaultKind.SAME_EPOCH_REWRITE, partition=ORDERS, offset=50)
    moment = Moment(
        name="rewritten",
        what="B's batch at 50 is another one.",
        world=step(world, hurt),
        findings=(found("D02", B, 50, 100), found("D03", B, 50), found("D07", B, 50, 100), found("D10", B, 50, 100)),
    )
    return Played((moment,))


def stale_disk_returns(seed: int) -> Played:
    """A leads, B follows. An image is taken of B's machine when both hold 0-39. They go on to 0-99. A dies, and B
    leads alone; B's machine fails and is restored from the image. It comes back as B, the last known leader, and
    leads.

    Truth: the committed records [40, 100) are lost as B is elected; A, still dead, has the only copy. New records
    take their offsets.

    An audit finds that A holds 60 records that it will cut (D05), that they had been declared committed (D06), and
    that A and B differ in what both had declared so (D02); that the election of who had led last gave them up (K07,
    D18); beside the ledger, that B lacks what was acknowledged (D19).
    """
    world = with_producer(cluster(seed, assignment=((A, B),)), "app")
    world = run_for(numbered(world, "app", 0, 40), CHECKPOINTED_MS)
    image = world.brokers[B].disk
    world = run_for(numbered(world, "app", 40, 100), CHECKPOINTED_MS)
    world = killed(killed(world, A), B)
    world = step(world, RestoreDisk(broker_id=B, older=image))
    world = with_next_producer(started(world, B), "app-2")
    world = numbered(world, "app-2", 300, 320)
    moment = Moment(
        name="elected",
        what="B leads on its old disk; A is dead with 0-99.",
        world=run_for(world, CHECKPOINTED_MS),
        losses=(lost(40, 100),),
        findings=(
            found("D02", A, 40, 60),
            found("D05", A, 40, 100),
            found("D06", A, 40, 100),
            found("K07"),
            found("D18"),
            found("D19", None, 40, 100),
        ),
    )
    return Played((moment,))


def torn_tail(seed: int) -> Played:
    """A, B and C hold 0-99. B dies in the middle of a write: of its last batch, 90-99, only the first 70 bytes are on
    its disk. B comes back.

    Truth: B lacks [90, 100); A and C have it, nothing is lost. When B comes back it cuts the torn batch and fetches
    it from A.

    An audit finds, while B is down, that its log ends in the middle of a batch (A01), below its own high watermark
    (B16, C01). When B is back there is nothing to find.
    """
    world = run_for(numbered(with_producer(cluster(seed), "app"), "app", 0, 100), CHECKPOINTED_MS)
    hurt = HurtDisk(broker_id=B, kind=FaultKind.TORN_WRITE, partition=ORDERS, byte=69)
    world = step(killed(world, B), hurt)
    down = Moment(
        name="down",
        what="B is dead, and its last batch is torn.",
        world=world,
        findings=(found("A01", B, 90), found("B16", B, 90, 100), found("C01", B, 90, 100)),
    )
    back = Moment(name="back", what="B has fetched what it lacked.", world=started(world, B))
    return Played((down, back))


def full_disk(seed: int) -> Played:
    """A, B and C hold 0-49. B's disk fills up: there is room for a batch and a half. A batch later B can write only a
    part of the next one; its log dir fails, and as it has no other one, B halts. It is started again, and halts again.
    When there is room, it is started once more.

    Truth: nothing is lost: A and C have what B lacks, and go on without it.

    An audit finds, while B is down, that its log ends in the middle of a batch (A01). When B is back there is nothing
    to find.
    """
    world = run_for(numbered(with_producer(cluster(seed), "app", idempotent=True), "app", 0, 50), CHECKPOINTED_MS)
    size = world.brokers[B].disk.replicas[ORDERS].log.active.batches[-1].size_bytes
    world = step(world, FillDisk(broker_id=B, room_bytes=size + size // 2))
    world = run_for(numbered(world, "app", 50, 100), SESSION_OVER_MS)
    halted = Moment(name="halted", what="B has halted with half a batch.", world=world, findings=(found("A01", B, 60),))
    again = started(world, B)
    assert again.brokers[B].running is None, "B halts again"
    back = Moment(
        name="back",
        what="There is room again, and B has caught up.",
        world=started(step(again, FreeDisk(broker_id=B)), B),
    )
    return Played((halted, back))


def bit_rot(seed: int) -> Played:
    """A, B and C hold 0-99. A bit of the batch at 30, in a closed segment of C, turns over.

    Truth: C's copy of 30-39 cannot be read; A and B have it, nothing is lost. C does not notice until a consumer asks
    it for these records, or until it leads.

    An audit finds a wrong checksum on C (A03).
    """
    world = cluster(seed, config=_ROLLED)
    world = run_for(numbered(with_producer(world, "app"), "app", 0, 100), CHECKPOINTED_MS)
    hurt = HurtDisk(broker_id=C, kind=FaultKind.BIT_FLIP, partition=ORDERS, offset=30, byte=100)
    moment = Moment(
        name="rotten", what="C's batch at 30 is damaged.", world=step(world, hurt), findings=(found("A03", C),)
    )
    return Played((moment,))


SCENARIOS: Final = (
    Scenario(
        name="lossy-power-cut",
        about="all replicas lose power at once, and what was never flushed",
        play=lossy_power_cut,
    ),
    Scenario(
        name="same-epoch-rewrite",
        about="a batch on one replica is another one, under a right checksum",
        play=same_epoch_rewrite,
    ),
    Scenario(
        name="stale-disk-returns",
        about="a broker comes back with the disk of an earlier moment, and leads",
        play=stale_disk_returns,
    ),
    Scenario(name="torn-tail", about="a broker dies in the middle of a write", play=torn_tail),
    Scenario(name="full-disk", about="a disk fills up in the middle of a batch, and its broker halts", play=full_disk),
    Scenario(name="bit-rot", about="a bit on one disk turns over", play=bit_rot),
)
