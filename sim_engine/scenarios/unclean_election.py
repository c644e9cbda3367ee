"""A broker that lacks committed records is made leader; and what each mitigation would have cost instead.

In: a seed. Out: the story's moments. Source: KIP-106, KIP-966; Kafka PartitionChangeBuilder.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidegauge.sim_engine import actions
from tidegauge.sim_engine.coordinators.coordinator_actions import LeaveGroup, StartGroupConsumer
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.scenarios.scenario import Moment, Played, Scenario
from tidegauge.sim_engine.scenarios.stage import (
    CHECKPOINTED_MS,
    GIVEN_UP_MS,
    ORDERS,
    SETTLED_MS,
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
from tidegauge.sim_engine.settings import Generation
from tidegauge.sim_engine.world import World

_FIRST, _END = 100, 201
_UNCLEAN: Final = {"unclean.leader.election.enable": "true"}
_MIN_ISR: Final = {**_UNCLEAN, "min.insync.replicas": "2"}
_LOST: Final = (lost(_FIRST, _END),)


def unclean_election(seed: int) -> Played:
    """A leads, B follows, C has no replica. Both hold offsets 0-99. B is stopped for maintenance; A goes on alone and
    commits 100-200, which a consumer and a group read. A dies. B comes back: it is not in the ISR, is elected
    uncleanly all the same, and takes new records from offset 100 on. A returns and follows B.

    Truth: committed records [100, 201) are lost in the moment of the election. The consumer, at offset 201, is told
    OFFSET_OUT_OF_RANGE; the group has committed 201, and would be told the same. When A returns, it cuts its copy of
    the lost records, the last one.

    An audit finds, before A returns, the unclean election (K07), what it gave up (D18), that A holds 101 records that
    it will cut (D05), that they had been declared committed (D06), and that A and B differ in what both had declared
    so (D02); that a group had read them (J02), and has committed an offset beyond the end (J01). When A is back it
    finds the election and the group, and, compared with a copy of before, that these records are on no replica any
    more (C10, C08), and that the high watermark fell (C07). Beside the ledger it finds both times that acknowledged
    records are missing (D19).
    """
    world = run_for(_a_is_alone(seed, _UNCLEAN, Generation.ELR), CHECKPOINTED_MS)
    alone = Moment(name="a-is-alone", what="100-200 are committed, and on A alone.", world=world)
    world = _b_is_back(world)
    elected = Moment(
        name="b-is-elected",
        what="A is dead with 100-200; B was elected uncleanly, and has other records from 100 on.",
        world=world,
        losses=_LOST,
        findings=(
            found("D02", A, 100, 120),
            found("D05", A, _FIRST, _END),
            found("D06", A, _FIRST, _END),
            found("D18"),
            found("D19", None, _FIRST, _END),
            found("J01", start_offset=120, end_offset=_END),
            found("J02", start_offset=_FIRST, end_offset=_END),
            found("K07"),
        ),
    )
    back = Moment(
        name="a-is-back",
        what="A has cut 100-200. Nobody has them any more.",
        world=started(world, A),
        losses=_LOST,
        previous="a-is-alone",
        findings=(
            found("C07", A, 120, 201),
            found("C08", A, _FIRST, _END),
            found("C10", A, _FIRST, _END),
            found("D19", None, _FIRST, _END),
            found("J01", start_offset=120, end_offset=_END),
            found("J02", start_offset=_FIRST, end_offset=_END),
            found("K07"),
        ),
    )
    return Played((alone, elected, back))


def unclean_election_off(seed: int) -> Played:
    """The same, but unclean elections are off: when B comes back, it is not elected. The partition has no leader
    until A is back; then A leads again.

    Truth: nothing is lost. The price: nobody can write or read while A is away, and what a producer sends then times
    out.

    An audit finds that nobody is in sync while A is away (K10, a fact), and nothing wrong, then or afterwards.
    """
    world = _b_is_back(_a_is_alone(seed, {"unclean.leader.election.enable": "false"}, Generation.ELR))
    away = Moment(name="a-is-away", what="A is dead with 100-200; nobody leads.", world=world, findings=(found("K10"),))
    back = Moment(name="a-is-back", what="A leads again, with all records.", world=_a_is_back(world))
    return Played((away, replace(back, previous="a-is-away")))


def unclean_election_min_isr(seed: int) -> Played:
    """The same with unclean elections on, but min.insync.replicas=2 and acks=all: while B is stopped, A refuses to
    write. A dies, B comes back, and is elected uncleanly.

    Truth: nothing is lost, for A took nothing that B lacks. The price: with one of the two away, the other takes no
    record (NOT_ENOUGH_REPLICAS), and what the producer sends times out.

    An audit finds the unclean election (K07), though it gave up nothing; and, while A is away, that fewer replicas
    are in sync than min.insync.replicas wants (K10, a fact).
    """
    world = _b_is_back(_a_is_alone(seed, _MIN_ISR, Generation.KIP_320))
    elected = Moment(
        name="b-is-elected",
        what="A is dead; B was elected uncleanly, and has all there is.",
        world=world,
        findings=(found("K07"), found("K10")),
    )
    back = Moment(
        name="a-is-back",
        what="A follows B, and producers may write again.",
        world=_a_is_back(world),
        findings=(found("K07"),),
    )
    return Played((elected, back))


def unclean_election_elr(seed: int) -> Played:
    """The same with eligible leader replicas (KIP-966), min.insync.replicas=2 and acks=all, and unclean elections on:
    when B is stopped and only A is left in the ISR, B is remembered as eligible. A refuses to write. A dies, B comes
    back, and is elected from the ELR.

    Truth: nothing is lost, and the election is clean, for nothing can be committed without B. The price is the same:
    no writes while one of the two is away.

    An audit finds only that too few replicas are in sync while A is away (K10, a fact).
    """
    world = _b_is_back(_a_is_alone(seed, _MIN_ISR, Generation.ELR))
    elected = Moment(
        name="b-is-elected", what="A is dead; B was elected from the ELR.", world=world, findings=(found("K10"),)
    )
    back = Moment(name="a-is-back", what="A follows B, and producers may write again.", world=_a_is_back(world))
    return Played((elected, back))


def _a_is_alone(seed: int, config: Mapping[str, str], generation: Generation) -> World:
    """0-99 are on both; B stops; a producer sends 101 records more, and waits for as long as it may."""
    offsets = actions.CreateTopic(
        name="__consumer_offsets", assignment=((C, A, B),), config={"cleanup.policy": "compact"}
    )
    world = cluster(seed, assignment=((A, B),), config=config, generation=generation, others=(offsets,))
    world = numbered(with_producer(world, "app", idempotent=True), "app", 0, _FIRST)
    world = step(world, actions.StartConsumer(client="reader", partitions=(ORDERS,), reset="none"))
    world = run_for(step(world, actions.Stop(B)), 10_000)
    world = numbered(world, "app", _FIRST, _END)
    member = StartGroupConsumer(client="billing-1", group="billing", topics=(ORDERS.topic,))
    world = run_for(step(world, member), GIVEN_UP_MS)
    return run_for(step(world, LeaveGroup("billing-1")), SETTLED_MS)


def _b_is_back(world: World) -> World:
    world = with_next_producer(started(killed(world, A), B), "app-2")
    return run_for(numbered(world, "app-2", 300, 320), GIVEN_UP_MS)


def _a_is_back(world: World) -> World:
    world = with_next_producer(started(world, A), "app-3")
    return run_for(numbered(world, "app-3", 400, 420), CHECKPOINTED_MS)


SCENARIOS: Final = (
    Scenario(
        name="unclean-election", about="a broker that lacks committed records is made leader", play=unclean_election
    ),
    Scenario(
        name="unclean-election-off",
        about="the same without unclean elections: nobody leads, nothing is lost",
        play=unclean_election_off,
    ),
    Scenario(
        name="unclean-election-min-isr",
        about="the same with min.insync.replicas=2 and acks=all: no writes, nothing is lost",
        play=unclean_election_min_isr,
    ),
    Scenario(
        name="unclean-election-elr",
        about="the same with eligible leader replicas: no writes, a clean election",
        play=unclean_election_elr,
    ),
)
