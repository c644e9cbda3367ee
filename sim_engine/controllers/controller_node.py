"""The active controller at work: sessions, requests of brokers and operators, and what it writes.

In: brokers' requests, an operator's calls, the clock. Out: batches of the metadata log, answers, and the log itself to
whoever waits for it. What to write is decided in `controller` and `reassignment`; here is only when. The quorum is
taken as one: what it writes is committed at once, and it is always there.

Source: Kafka QuorumController, ClusterControlManager, BrokerHeartbeatManager; KIP-500, KIP-631.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import ledger
from tidegauge.sim_engine.actions import AlterConfig, ControllerTick, CreateTopic, DeleteTopic, Elect, Reassign
from tidegauge.sim_engine.controllers.metadata_upkeep import wanted_snapshot
from tidegauge.sim_engine.dice import uuid_for
from tidegauge.sim_engine.messages import (
    NONE,
    AlterPartitionRequest,
    AlterPartitionResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataFetch,
    MetadataResponse,
    ProducerIdsRequest,
    ProducerIdsResponse,
    RegisterRequest,
    RegisterResponse,
)
from tidegauge.sim_engine.metadata.controller import (
    NO_LEADER,
    ClusterImage,
    Election,
    PartitionImage,
    alter_isr,
    applied,
    begin_shutdown,
    create_topic,
    delete_topic,
    elect,
    fence,
    recovered,
    register,
    unfence,
)
from tidegauge.sim_engine.metadata.metadata_log import record, written
from tidegauge.sim_engine.metadata.reassignment import completed, reassign
from tidegauge.sim_engine.network import CONTROLLER, broker_node
from tidegauge.sim_engine.settings import Generation
from tidegauge.sim_engine.truth import Elected, Lineage
from tidegauge.sim_engine.turn import Turn
from tidegauge.sim_engine.world import Session

SESSION_CHECK_MS: Final = 500
PRODUCER_ID_BLOCK: Final = 1000
_OPERATOR: Final = "operator"
_TOPIC: Final = 2
_BROKER: Final = 4


def write(turn: Turn, records: Sequence[MetadataRecord], *, preferred: bool = False) -> None:
    """Commits one batch of records and hands it to everybody who waits for it."""
    if not records:
        return
    node = turn.controller
    before, base_offset = node.image, node.metadata.end_offset
    image = applied(before, records)
    metadata = written(node.metadata, records, now_ms=turn.now_ms)
    turn.controller = replace(node, metadata=metadata, image=image, waiting={})
    _note_elections(turn, before, records, base_offset, preferred=preferred)
    for _, request in sorted(node.waiting.items()):
        _send_metadata(turn, request)


def _note_elections(
    turn: Turn, before: ClusterImage, records: Sequence[MetadataRecord], base_offset: int, *, preferred: bool
) -> None:
    image = before
    names = {t.topic_id: t.name for t in turn.controller.image.topics.values()}
    for offset, each in enumerate(records, base_offset):
        after = applied(image, [each])
        name = names.get(str(each.fields.get("topic_id")))
        if each.name in ("PartitionRecord", "PartitionChangeRecord") and name is not None:
            _note_election(
                turn, image, after, TopicPartition(name, int(str(each.fields["partition_id"]))), offset, preferred
            )
        image = after


def _note_election(
    turn: Turn, before: ClusterImage, after: ClusterImage, partition: TopicPartition, offset: int, preferred: bool
) -> None:
    now = after.topics[partition.topic].partitions[partition.partition]
    topic = before.topics.get(partition.topic)
    was = topic.partitions.get(partition.partition) if topic is not None else None
    if was is not None and was.leader_epoch == now.leader_epoch:
        return
    if was is None:
        kind = "first"
    elif now.leader == NO_LEADER:
        kind = "none"
    elif now.leader == was.leader:
        kind = "same"
    elif now.leader in was.isr:
        kind = "preferred" if preferred else "clean"
    elif was.last_known_elr == (now.leader,) and not was.isr and _nobody_eligible(before, was, now, partition.topic):
        kind = "last_known"
    else:
        kind = "elr" if now.leader in was.elr and not now.recovering else "unclean"
    note = Elected(
        at_ms=turn.now_ms,
        partition=partition,
        kind=kind,
        leader=now.leader,
        leader_epoch=now.leader_epoch,
        isr_before=was.isr if was is not None else (),
        elr_before=was.elr if was is not None else (),
        isr=now.isr,
        metadata_offset=offset,
    )
    turn.truth = replace(turn.truth, elections=turn.truth.elections.appended(note))
    if was is not None and now.leader != NO_LEADER:
        ledger.leader_chosen(
            turn, partition, leader=now.leader, leader_epoch=now.leader_epoch, cause=f"{kind} election"
        )
    elif was is None:
        lineage = Lineage(leader=now.leader, leader_epoch=now.leader_epoch)
        turn.truth = turn.truth.with_lineage(partition, lineage)


def _nobody_eligible(before: ClusterImage, was: PartitionImage, now: PartitionImage, topic: str) -> bool:
    """Whether the ELR was empty, or the record that elects has emptied it: its members came back uncleanly."""
    return not was.elr or (not now.elr and not before.unclean_allowed(topic))


# Requests of brokers.


def registered(turn: Turn, source: str, request: RegisterRequest) -> None:
    """A broker has started."""
    node, known = turn.controller, turn.controller.image.brokers.get(request.broker_id)

    def answer(error: str = NONE, broker_epoch: int = -1) -> None:
        response = RegisterResponse(incarnation_id=request.incarnation_id, error=error, broker_epoch=broker_epoch)
        turn.send(CONTROLLER, source, response)

    if known is not None and known.incarnation_id == request.incarnation_id:
        answer(broker_epoch=known.broker_epoch)
        return
    session = node.sessions.get(request.broker_id)
    if known is not None and session is not None and not known.fenced and _alive(turn, session):
        answer("DUPLICATE_BROKER_REGISTRATION")
        return
    previous = request.previous_broker_epoch
    if turn.generation < Generation.ELR and known is not None:
        # Before KIP-966 nobody asked how a broker had stopped.
        previous = known.broker_epoch
    broker_epoch = node.metadata.end_offset
    records = register(
        node.image,
        broker_id=request.broker_id,
        broker_epoch=broker_epoch,
        incarnation_id=request.incarnation_id,
        log_dirs=(request.directory_id,),
        previous_broker_epoch=previous,
        rack=turn.settings.racks.get(request.broker_id),
    )
    write(turn, records)
    sessions = {
        **turn.controller.sessions,
        request.broker_id: Session(broker_epoch=broker_epoch, heard_at_ms=turn.now_ms),
    }
    turn.controller = replace(turn.controller, sessions=sessions)
    answer(broker_epoch=broker_epoch)


def heartbeat(turn: Turn, source: str, request: HeartbeatRequest) -> None:
    """A broker is alive; it may be let in, or let go."""
    broker = turn.controller.image.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        turn.send(CONTROLLER, source, HeartbeatResponse(broker_epoch=request.broker_epoch, error="STALE_BROKER_EPOCH"))
        return
    session = Session(
        broker_epoch=request.broker_epoch,
        heard_at_ms=turn.now_ms,
        metadata_end_offset=request.metadata_end_offset,
    )
    turn.controller = replace(turn.controller, sessions={**turn.controller.sessions, request.broker_id: session})
    done = False
    if request.wants_shutdown:
        if not broker.in_controlled_shutdown:
            write(turn, begin_shutdown(turn.controller.image, request.broker_id))
        elif not leads_anything(turn.controller.image, request.broker_id):
            write(turn, fence(turn.controller.image, request.broker_id))
            done = True
    elif broker.fenced and request.metadata_end_offset > request.broker_epoch:
        write(turn, unfence(turn.controller.image, request.broker_id))
    fenced = turn.controller.image.brokers[request.broker_id].fenced
    answer = HeartbeatResponse(broker_epoch=request.broker_epoch, fenced=fenced, should_shut_down=done)
    turn.send(CONTROLLER, source, answer)


def leads_anything(image: ClusterImage, broker_id: int) -> bool:
    """Whether a broker leads a partition."""
    return any(p.leader == broker_id for t in image.topics.values() for p in t.partitions.values())


def alter_partition(turn: Turn, source: str, request: AlterPartitionRequest) -> None:
    """A leader asks for another ISR, or says that it has recovered from an unclean election."""
    image, partition = turn.controller.image, request.partition
    error = NONE
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        error = "STALE_BROKER_EPOCH"
    else:
        decided = alter_isr(
            image,
            partition.topic,
            partition.partition,
            leader_id=request.broker_id,
            leader_epoch=request.leader_epoch,
            partition_epoch=request.partition_epoch,
            isr=request.isr,
            broker_epochs=request.broker_epochs,
        )
        if isinstance(decided, str):
            error = decided
        else:
            if request.recovered:
                decided = recovered(image, partition.topic, partition.partition)
            write(turn, decided)
            write(turn, completed(turn.controller.image, partition.topic, partition.partition))
    now = turn.controller.image.topics.get(partition.topic)
    known = now.partitions.get(partition.partition) if now is not None else None
    answer = AlterPartitionResponse(
        partition=partition,
        asked_partition_epoch=request.partition_epoch,
        error=error,
        leader=known.leader if known is not None else -1,
        leader_epoch=known.leader_epoch if known is not None else -1,
        isr=known.isr if known is not None else (),
        partition_epoch=known.partition_epoch if known is not None else -1,
    )
    turn.send(CONTROLLER, source, answer)


def metadata_fetch(turn: Turn, source: str, request: MetadataFetch) -> None:
    """A broker wants what it does not have of the metadata log, now or as soon as there is something."""
    node = turn.controller
    if request.end_offset < node.metadata.end_offset:
        _send_metadata(turn, request)
    else:
        turn.controller = replace(node, waiting={**node.waiting, request.broker_id: request})


def _send_metadata(turn: Turn, request: MetadataFetch) -> None:
    node = turn.controller
    answer = MetadataResponse(
        correlation=request.correlation,
        log=node.metadata.log,
        image=node.image,
        quorum_leader=node.quorum_leader_id,
        quorum_epoch=node.metadata.leader_epoch,
        snapshot=wanted_snapshot(turn.broker(node.quorum_leader_id).disk, request.end_offset),
    )
    turn.send(CONTROLLER, broker_node(request.broker_id), answer)


def producer_ids(turn: Turn, source: str, request: ProducerIdsRequest) -> None:
    """A broker gets the next block of producer ids."""
    first = turn.controller.image.next_producer_id
    end = first + PRODUCER_ID_BLOCK
    said = record(
        "ProducerIdsRecord",
        0,
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=end,
    )
    write(turn, [said])
    turn.send(CONTROLLER, source, ProducerIdsResponse(first=first, end=end))


# The clock.


def _alive(turn: Turn, session: Session) -> bool:
    return turn.now_ms - session.heard_at_ms < turn.settings.session_timeout_ms


def check_sessions(turn: Turn, tick: ControllerTick) -> None:
    """Fences brokers that have been silent for too long."""
    for broker_id, session in sorted(turn.controller.sessions.items()):
        broker = turn.controller.image.brokers.get(broker_id)
        if broker is not None and not broker.fenced and not _alive(turn, session):
            write(turn, fence(turn.controller.image, broker_id))
    turn.after(SESSION_CHECK_MS, tick)


def no_op(turn: Turn, tick: ControllerTick) -> None:
    """A record without meaning, so that the log's end moves."""
    write(turn, [record("NoOpRecord", 0)])
    assert turn.settings.no_op_interval_ms is not None
    turn.after(turn.settings.no_op_interval_ms, tick)


def balance(turn: Turn, tick: ControllerTick) -> None:
    """Gives leadership back to the first replicas."""
    for topic in list(turn.controller.image.topics.values()):
        for number in sorted(topic.partitions):
            write(turn, elect(turn.controller.image, topic.name, number, Election.PREFERRED), preferred=True)
    assert turn.settings.preferred_election_interval_ms is not None
    turn.after(turn.settings.preferred_election_interval_ms, tick)


# Calls of operators. An error goes to the ledger.


def on_create_topic(turn: Turn, call: CreateTopic) -> None:
    """A new topic."""
    image = turn.controller.image
    if call.name in image.topics:
        turn.tell(_OPERATOR, "TOPIC_ALREADY_EXISTS", detail=call.name)
    elif not all(any(image.may_lead(b) for b in replicas) for replicas in call.assignment):
        turn.tell(_OPERATOR, "INVALID_REPLICA_ASSIGNMENT", detail=call.name)
    else:
        topic_id = uuid_for(turn.seed, f"topic-{call.name}-{turn.controller.metadata.end_offset}")
        write(turn, create_topic(image, call.name, topic_id, call.assignment, config=call.config))


def on_delete_topic(turn: Turn, call: DeleteTopic) -> None:
    """A topic goes."""
    topic = turn.controller.image.topics.get(call.name)
    if topic is None:
        turn.tell(_OPERATOR, "UNKNOWN_TOPIC_OR_PARTITION", detail=call.name)
        return
    write(turn, delete_topic(turn.controller.image, call.name))
    gone = {p for p in turn.truth.lineages if p.topic == call.name}
    left = {p: lineage for p, lineage in turn.truth.lineages.items() if p not in gone}
    turn.truth = replace(turn.truth, lineages=left)


def on_alter_config(turn: Turn, call: AlterConfig) -> None:
    """A setting of a topic, or the cluster's default of it."""
    said = record(
        "ConfigRecord",
        0,
        resource_type=_TOPIC if call.topic is not None else _BROKER,
        resource_name=call.topic or "",
        name=call.name,
        value=call.value,
    )
    if call.topic is not None and call.topic not in turn.controller.image.topics:
        turn.tell(_OPERATOR, "UNKNOWN_TOPIC_OR_PARTITION", detail=call.topic)
    else:
        write(turn, [said])
        if call.name == "min.insync.replicas" and turn.controller.image.eligible_leader_replicas:
            _settle_eligible(turn, call.topic)


def _settle_eligible(turn: Turn, topic: str | None) -> None:
    """Another minimum leaves other eligible leaders (ReplicationControlManager#getPartitionElrUpdatesForConfigChanges).

    Of one topic, or of all.
    """
    for each in list(turn.controller.image.topics.values()):
        if topic in (None, each.name):
            for number, partition in sorted(each.partitions.items()):
                if partition.elr or partition.last_known_elr:
                    write(turn, elect(turn.controller.image, each.name, number, Election.ONLINE))


def on_elect(turn: Turn, call: Elect) -> None:
    """An election that an operator wants."""
    kind = Election.UNCLEAN if call.unclean else Election.PREFERRED
    image, partition = turn.controller.image, call.partition
    if partition.topic not in image.topics:
        turn.tell(_OPERATOR, "UNKNOWN_TOPIC_OR_PARTITION", partition=partition)
    elif call.unclean and image.topics[partition.topic].partitions[partition.partition].leader != NO_LEADER:
        turn.tell(_OPERATOR, "ELECTION_NOT_NEEDED", partition=partition)
    else:
        write(turn, elect(image, partition.topic, partition.partition, kind), preferred=not call.unclean)


def on_reassign(turn: Turn, call: Reassign) -> None:
    """A partition moves."""
    image, partition = turn.controller.image, call.partition
    if partition.topic not in image.topics:
        turn.tell(_OPERATOR, "UNKNOWN_TOPIC_OR_PARTITION", partition=partition)
        return
    write(turn, reassign(image, partition.topic, partition.partition, call.replicas))
    write(turn, completed(turn.controller.image, partition.topic, partition.partition))
