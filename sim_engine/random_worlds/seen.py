"""What a copy shows of the faults that struck its world.

In: faults (`Struck`), the world at the copy's moment, which knows what is on every disk. Out: `Sight`: the findings
that an audit must report, breaches that may follow, or why nothing is to be seen. The simulator's own state is looked
at, never bytes as an audit does, and only what is certain is promised.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tidegauge.kafka_log.coordinator_records import TransactionState, decode_transaction_record
from tidegauge.kafka_log.internal_topics import REMOTE_LOG_METADATA, TRANSACTION_STATE
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.log.remote_metadata import RemoteState, RemoteView
from tidegauge.sim_engine.log.replica_log import ReplicaLog
from tidegauge.sim_engine.log.stored_batch import StoredBatch
from tidegauge.sim_engine.log.tiering import gaps
from tidegauge.sim_engine.random_worlds.expected import ANY_CODE, Expected, Injected
from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.random_worlds.losses import losses_of
from tidegauge.sim_engine.random_worlds.struck import Struck, checkpoints_are_its_own
from tidegauge.sim_engine.scenarios.scenario import Finding
from tidegauge.sim_engine.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Of one fault in one copy. `at_the_end`: findings in a log's last batch, which a live copy may have cut in two."""

    findings: tuple[Finding, ...] = ()
    at_the_end: tuple[Finding, ...] = ()
    allowed: tuple[Finding, ...] = ()
    unseen: str | None = None


SEQUENCES: Final = frozenset({"E01", "E02", "E03", "E04", "E05", "E06", "F02"})
"""A producer's sequences do not follow one another."""
LIVE_BLIND: Final = frozenset({"A01", "A13", "B16", "F09", "H03", "H07"})
"""In a live copy these may come of the copying, which is never called a breach."""


def expected(struck: Sequence[Struck], worlds: Sequence[World], earlier: Sequence[World]) -> Expected:
    """Of one copy. `worlds`: at its beginning and at its end; what is certain at both must be reported. `earlier`: the
    same of the copy that it is compared with.
    """
    injected: list[Injected] = []
    allowed: list[Finding] = []
    for each in struck:
        sights = [sight(each, world) for world in worlds]
        certain = [f for f in sights[0].findings if all(f in s.findings for s in sights)]
        at_the_end = {f for s in sights for f in s.at_the_end}
        findings = tuple(f for f in certain if len(worlds) == 1 or not (f.code in LIVE_BLIND or f in at_the_end))
        allowed += [f for s in sights for f in (*s.findings, *s.allowed) if f not in findings]
        unseen = next((s.unseen for s in sights if s.unseen), "in a live copy it may come of the copying")
        injected.append(
            Injected(
                kind=each.kind,
                at_ms=each.at_ms,
                where=each.where,
                detail=each.detail,
                findings=findings,
                unseen=None if findings else unseen,
            )
        )
    told = [finding for each in injected for finding in each.findings]
    losses, unseen_losses = losses_of(worlds[-1], earlier, told) if len(worlds) == 1 else ((), ())
    lossy = {loss.partition for loss in worlds[-1].truth.losses}
    lossy |= {chosen.partition for chosen in worlds[-1].truth.elections if chosen.kind == "unclean"}
    allowed += anything(*sorted(lossy))
    if struck:
        allowed += [f for world in worlds for f in _clients_doing(world)]
    return Expected(
        injected=tuple(injected),
        allowed=tuple(dict.fromkeys(allowed)),
        losses=losses,
        unseen_losses=unseen_losses,
    )


def sight(struck: Struck, world: World) -> Sight:
    """What is left of a fault."""
    seen = SEEN[struck.kind](struck, world)
    return seen if seen.findings or seen.unseen else Sight(allowed=seen.allowed, unseen=_GONE)


def anything(*partitions: TopicPartition | None) -> tuple[Finding, ...]:
    """Whatever an audit says of these partitions: what lost or damaged records lead to is not foretold."""
    return tuple(Finding(code=ANY_CODE, partition=partition) for partition in partitions if partition is not None)


def some(codes: frozenset[str], partition: TopicPartition | None) -> tuple[Finding, ...]:
    """Any of these breaches, of a partition."""
    return tuple(Finding(code=code, partition=partition) for code in sorted(codes))


def _clients_doing(world: World) -> Iterator[Finding]:
    """What comes of brokers that were not there when somebody else did something; the files are right to tell of it.

    A producer that heard no answer raises its epoch and sends once more a batch that was stored after all (E06). A
    topic that is deleted while nobody coordinates a group leaves the group's offsets behind (J03).
    """
    begun = Counter(e.partition for e in world.truth.elections if e.kind == "first")
    for name, topic in sorted(world.controller.image.topics.items()):
        for partition in (TopicPartition(name, number) for number in topic.partitions):
            if begun[partition] > 1:
                yield Finding(code="J03", partition=partition)
            logs = (log_of(world, broker_id, partition, topic.topic_id) for broker_id in sorted(world.brokers))
            if any(_sent_again(log) for log in logs if log is not None):
                yield Finding(code="E06", partition=partition)


def _sent_again(log: ReplicaLog) -> bool:
    epochs: dict[tuple[object, ...], set[int]] = {}
    for batch in _batches(log):
        if batch.base_sequence >= 0:
            said = tuple((r.key, r.value) for r in batch.records)
            epochs.setdefault((batch.producer_id, said), set()).add(batch.producer_epoch)
    return any(len(of_batch) > 1 for of_batch in epochs.values())


def log_of(world: World, broker_id: int, partition: TopicPartition, topic_id: str | None) -> ReplicaLog | None:
    """A broker's log of a partition, if it is of the same topic still."""
    replica = world.brokers[broker_id].disk.replicas.get(partition)
    return replica.log if replica is not None and topic_id in (None, replica.topic_id) else None


_GONE: Final = "its trace is gone: the broker has cut, deleted or replicated anew what it was in"


def _borne(reason: str) -> Callable[[Struck, World], Sight]:
    """Nothing of it is wrong on any disk; a loss that came of it is foretold as a loss."""

    def of(struck: Struck, world: World) -> Sight:
        return Sight(unseen=reason, allowed=anything(*struck.partitions, struck.partition))

    return of


def _above_the_end(struck: Struck, world: World) -> Sight:
    """Logs of a dead broker that end below the high watermark which it had checkpointed."""
    assert struck.broker_id is not None
    broker = world.brokers[struck.broker_id]
    findings: list[Finding] = []
    if broker.running is None:
        for partition, replica in sorted(broker.disk.replicas.items()):
            if not checkpoints_are_its_own(world, partition, struck.broker_id):
                continue
            high_watermark = broker.disk.high_watermarks.get(partition, 0)
            end = replica.log.log_end_offset
            if high_watermark > end and not partition.topic.startswith("__") and not replica.log.config.compact:
                findings.append(_at("B16", partition, struck.broker_id, end, high_watermark))
    unseen = None if findings else "what was not flushed lay above every checkpoint, or was replicated again"
    return Sight(findings=tuple(findings), allowed=anything(*struck.partitions, struck.partition), unseen=unseen)


def _torn(struck: Struck, world: World) -> Sight:
    assert struck.broker_id is not None
    assert struck.partition is not None
    log = log_of(world, struck.broker_id, struck.partition, struck.topic_id)
    allowed = anything(struck.partition)
    if log is None or not log.active.tail or world.brokers[struck.broker_id].running is not None:
        return Sight(allowed=allowed)
    return Sight(findings=(_at("A01", struck.partition, struck.broker_id, log.log_end_offset),), allowed=allowed)


def _damaged_batch(struck: Struck, world: World) -> Sight:
    assert struck.broker_id is not None
    assert struck.partition is not None
    log = log_of(world, struck.broker_id, struck.partition, struck.topic_id)
    allowed = anything(struck.partition)
    held = _batches(log) if log is not None else []
    if not any(b.damaged and b.base_offset == struck.start_offset for b in held):
        return Sight(allowed=allowed)
    findings = (_at("A03", struck.partition, struck.broker_id),)
    is_last = held[-1].base_offset == struck.start_offset
    return Sight(findings=findings, at_the_end=findings if is_last else (), allowed=allowed)


def _gap(struck: Struck, world: World) -> Sight:
    """Only a segment between two others leaves a hole; a first one looks like retention, a last one like a torn end."""
    assert struck.broker_id is not None
    assert struck.partition is not None
    log = log_of(world, struck.broker_id, struck.partition, struck.topic_id)
    allowed = anything(struck.partition)
    if log is None or log.config.compact:
        return Sight(allowed=allowed)
    for before, after in zip(log.segments, log.segments[1:], strict=False):
        if before.batches and before.end_offset < after.base_offset and after.batches:
            return Sight(findings=(_at("A13", struck.partition, struck.broker_id),), allowed=allowed)
    return Sight(allowed=allowed)


def _rewritten(struck: Struck, world: World) -> Sight:
    """The leader, too, has to hold the offset, and two replicas under the same epoch with other bytes."""
    assert struck.partition is not None
    assert struck.start_offset is not None
    allowed = anything(struck.partition)
    topic = world.controller.image.topics.get(struck.partition.topic)
    newest = _newest(world, struck.partition) if topic is not None else None
    if newest is None or newest.log_start_offset > struck.start_offset:
        return Sight(allowed=allowed, unseen="its leader's log begins behind it, or is on no disk")
    held: dict[bytes, int] = {}
    for broker_id in sorted(world.brokers):
        log = log_of(world, broker_id, struck.partition, struck.topic_id)
        if log is None or log.config.compact or log.log_start_offset > struck.start_offset:
            continue
        for batch in _batches(log):
            if batch.base_offset == struck.start_offset and not batch.damaged:
                held[batch.data] = batch.leader_epoch
    if len(held) < 2 or len(set(held.values())) > 1:
        return Sight(allowed=allowed, unseen="no other replica holds the batch as it was")
    return Sight(findings=(_at("D03", struck.partition, None, struck.start_offset),), allowed=allowed)


def _elected(struck: Struck, world: World) -> Sight:
    """The setting is the topic's, so its other partitions may have got such a leader, too."""
    assert struck.partition is not None
    name = struck.partition.topic
    topic = world.controller.image.topics.get(name)
    if topic is None or topic.topic_id != struck.topic_id:
        return Sight(allowed=anything(struck.partition), unseen="its topic was deleted")
    chosen = {
        e.partition
        for e in world.truth.elections
        if e.kind == "unclean" and e.partition.topic == name and e.at_ms >= struck.at_ms
    }
    unseen = None if chosen else "no unclean election came of it"
    findings = tuple(Finding(code="K07", partition=partition) for partition in sorted(chosen))
    return Sight(findings=findings, allowed=anything(*sorted(chosen), struck.partition), unseen=unseen)


def _hanging(struck: Struck, world: World) -> Sight:
    """Transactions that are open in the partition and that no coordinator will end."""
    assert struck.partition is not None
    allowed = anything(struck.partition)
    topic = world.controller.image.topics.get(struck.partition.topic)
    if topic is None or topic.topic_id != struck.topic_id:
        return Sight(allowed=allowed, unseen="its topic was deleted")
    log = _newest(world, struck.partition)
    states = _transaction_states(world)
    if log is None or states is None:
        return Sight(allowed=allowed)
    findings = []
    for first_offset, producer_id in log.producers.open:
        if first_offset < log.log_start_offset:
            continue
        state = states.get(producer_id)
        ends = state is not None and state.state in ("Ongoing", "PrepareCommit", "PrepareAbort")
        if not (ends and state is not None and struck.partition in state.partitions):
            findings.append(_at("F09", struck.partition, None, first_offset))
    if not findings:
        unseen = "a later marker has ended the transaction, its coordinator still may, or its records are deleted"
        return Sight(allowed=allowed, unseen=unseen)
    return Sight(findings=tuple(findings), allowed=allowed)


def _sequences(code: str) -> Callable[[Struck, World], Sight]:
    """The producer's batch before it has to be in the log still, or nobody knows which sequence was due."""

    def of(struck: Struck, world: World) -> Sight:
        assert struck.partition is not None
        assert struck.start_offset is not None
        allowed = some(SEQUENCES, struck.partition)
        topic = world.controller.image.topics.get(struck.partition.topic)
        log = _newest(world, struck.partition) if topic is not None and topic.topic_id == struck.topic_id else None
        held = [b for b in _batches(log) if b.base_offset <= struck.start_offset] if log is not None else []
        if not held or held[-1].base_offset != struck.start_offset:
            return Sight(allowed=allowed)
        it = held[-1]
        whose = [b for b in held[:-1] if (b.producer_id, b.producer_epoch) == (it.producer_id, it.producer_epoch)]
        if not whose:
            return Sight(allowed=allowed, unseen="what the producer wrote before is not in the log any more")
        return Sight(findings=(Finding(code=code, partition=struck.partition),), allowed=allowed)

    return of


def _diverged(struck: Struck, world: World) -> Sight:
    """Followers that hold other batches than the leader below what both had declared committed.

    A batch under a wrong checksum is told as damaged, whatever else it is.
    """
    findings = []
    for name, topic in sorted(world.controller.image.topics.items()):
        for number in topic.partitions:
            partition = TopicPartition(name, number)
            newest = _newest(world, partition)
            for broker_id in sorted(world.brokers):
                log = log_of(world, broker_id, partition, topic.topic_id)
                if newest is None or log is None or log is newest or newest.config.compact:
                    continue
                if not checkpoints_are_its_own(world, partition, broker_id):
                    continue
                disk = world.brokers[broker_id].disk
                declared = min(disk.high_watermarks.get(partition, 0), log.log_end_offset, newest.log_end_offset)
                first = max(x for each in (log, newest) for x in (each.log_start_offset, each.segments[0].base_offset))
                pairs = zip(log.batches_from(first), newest.batches_from(first), strict=False)
                whole = ((a, b) for a, b in pairs if not (a.damaged or b.damaged))
                if any(a.data != b.data and a.base_offset < declared for a, b in whole):
                    findings.append(_at("D02", partition, broker_id))
    unseen = None if findings else "no replica differs from its leader in what both had declared committed"
    differing = [f.partition for f in findings]
    return Sight(findings=tuple(findings), allowed=anything(*differing), unseen=unseen)


def _half_a_batch(struck: Struck, world: World) -> Sight:
    """Logs of a dead broker that end in the middle of a batch, for want of room."""
    assert struck.broker_id is not None
    broker = world.brokers[struck.broker_id]
    torn = [(p, r.log) for p, r in sorted(broker.disk.replicas.items()) if r.log.active.tail and broker.running is None]
    findings = tuple(_at("A01", partition, struck.broker_id, log.log_end_offset) for partition, log in torn)
    unseen = None if findings else "the broker had room again and cut the half batch, or wrote none"
    return Sight(findings=findings, allowed=anything(*struck.partitions), unseen=unseen)


def _not_in_the_tier(struck: Struck, world: World) -> Sight:
    """What neither a broker's disk nor the tier holds, though its log begins below.

    Where it begins is in a checkpoint that is written once a minute; before, what is missing may have been at its head.
    Of several holes an audit names the first, at which a reader gets stuck. What the tier gave up by retention is no
    hole, though a follower's log start may lie below it yet.
    """
    assert struck.partition is not None
    allowed = anything(struck.partition, TopicPartition(REMOTE_LOG_METADATA, 0))
    view = _remote_view(world, struck.topic_id)
    findings = []
    logs = {b: log_of(world, b, struck.partition, struck.topic_id) for b in sorted(world.brokers)}
    retained_from = max((log.log_start_offset for log in logs.values() if log is not None), default=0)
    for broker_id, log in logs.items():
        listed = struck.partition in world.brokers[broker_id].disk.log_starts
        if log is None or not (listed and checkpoints_are_its_own(world, struck.partition, broker_id)):
            continue
        holes = [(max(start, retained_from), end) for start, end in gaps(log, view, struck.partition)]
        findings += [_at("H03", struck.partition, broker_id, *hole) for hole in [h for h in holes if h[0] < h[1]][:1]]
    unseen = None if findings else "the tier has it, the log start has passed it, or no checkpoint has the log start"
    return Sight(findings=tuple(findings), allowed=allowed, unseen=unseen)


def _not_in_the_store(struck: Struck, world: World) -> Sight:
    assert struck.partition is not None
    allowed = anything(struck.partition)
    listed = _remote_view(world, struck.topic_id).of(struck.partition, RemoteState.COPY_SEGMENT_FINISHED)
    if struck.detail in {o.about.segment_id for o in world.remote.objects.values()}:
        return Sight(allowed=allowed, unseen="the store has it")
    if all(segment.segment_id != struck.detail for segment in listed):
        return Sight(allowed=allowed, unseen="the segment was deleted since")
    if not world.remote.objects:
        return Sight(allowed=allowed, unseen="the store holds nothing more, and a copy does not tell that from none")
    finding = _at("H07", struck.partition, None, struck.start_offset, struck.end_offset)
    return Sight(findings=(finding,), allowed=allowed)


def _remote_view(world: World, topic_id: str | None) -> RemoteView:
    """What the tier's metadata tell of a topic."""
    view = RemoteView()
    topic = world.controller.image.topics.get(REMOTE_LOG_METADATA)
    for number in topic.partitions if topic is not None else ():
        log = _newest(world, TopicPartition(REMOTE_LOG_METADATA, number))
        for record in (r for b in _batches(log) for r in b.records) if log is not None else ():
            view = view.read(record.value or b"")
    return view.of_topic(topic_id) if topic_id is not None else view


def _transaction_states(world: World) -> dict[int, TransactionState] | None:
    """By producer id, as the newest records of all partitions have them; None if one of them is on no disk."""
    topic = world.controller.image.topics.get(TRANSACTION_STATE)
    found: dict[str, TransactionState] = {}
    for number in topic.partitions if topic is not None else ():
        log = _newest(world, TopicPartition(TRANSACTION_STATE, number))
        if log is None:
            return None
        for record in (r for b in _batches(log) if not b.is_control for r in b.records):
            state = decode_transaction_record(record.key, record.value)
            if isinstance(state, TransactionState):
                found[state.transactional_id] = state
    return {state.producer_id: state for state in found.values()}


def _newest(world: World, partition: TopicPartition) -> ReplicaLog | None:
    """The leader's log; where nobody leads, the longest of the newest epoch."""
    topic = world.controller.image.topics[partition.topic]
    logs = {b: log for b in world.brokers if (log := log_of(world, b, partition, topic.topic_id)) is not None}
    leader = topic.partitions[partition.partition].leader
    return logs.get(leader) or max(logs.values(), key=lambda log: (log.latest_epoch, log.log_end_offset), default=None)


def _at(
    code: str,
    partition: TopicPartition,
    broker_id: int | None,
    start_offset: int | None = None,
    end_offset: int | None = None,
) -> Finding:
    return Finding(
        code=code, partition=partition, broker_id=broker_id, start_offset=start_offset, end_offset=end_offset
    )


def _batches(log: ReplicaLog) -> list[StoredBatch]:
    return [b for s in log.segments for b in s.batches]


SEEN: Final[Mapping[WorldFault, Callable[[Struck, World], Sight]]] = MappingProxyType(
    {
        WorldFault.KILLS: _borne(
            "what a process wrote survives it, and nobody is elected who lacks a committed record"
        ),
        WorldFault.POWER_CUT: _above_the_end,
        WorldFault.NETWORK_CUT: _borne("replication waits, and goes on when the network does"),
        WorldFault.ONE_WAY_CUT: _borne("replication waits, and goes on when the network does"),
        WorldFault.UNCLEAN_ELECTION: _elected,
        WorldFault.WIPED_DISK: _borne("an empty disk is filled again from the leader"),
        WorldFault.STALE_DISK: _borne("an older disk is sound in itself, and catches up"),
        WorldFault.TORN_WRITE: _torn,
        WorldFault.LOST_FLUSH: _above_the_end,
        WorldFault.RECORDS_BIT_FLIP: _damaged_batch,
        WorldFault.HEADER_BIT_FLIP: _damaged_batch,
        WorldFault.LOST_SEGMENT: _gap,
        WorldFault.SAME_EPOCH_REWRITE: _rewritten,
        WorldFault.LOST_MARKER: _hanging,
        WorldFault.DOUBLED_MARKER: _borne("a coordinator that heard no answer writes its marker again, too"),
        WorldFault.HANGING_TRANSACTION: _hanging,
        WorldFault.ZOMBIE_PRODUCER: _borne("what a fenced instance sends is refused"),
        WorldFault.SEQUENCE_GAP: _sequences("E01"),
        WorldFault.SEQUENCE_DUPLICATE: _sequences("E04"),
        WorldFault.COMPACTION_RACE: _borne("cleaned logs may differ from replica to replica"),
        WorldFault.OLD_PROTOCOL: _diverged,
        WorldFault.FULL_DISK: _half_a_batch,
        WorldFault.REMOTE_TIER_GAP: _not_in_the_tier,
        WorldFault.LOST_REMOTE_SEGMENT: _not_in_the_store,
        WorldFault.WRONG_REMOTE_DELETION: _not_in_the_tier,
        WorldFault.STALE_CHECKPOINT: _borne("a checkpoint may always lag"),
    }
)
