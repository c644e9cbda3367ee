"""What is said to be so at a moment, held against the world.

In: a written moment and the world. Out: nothing, or `ScenarioFileError` with what is so instead. A file that says
something wrong of its own world would teach something wrong, so nothing is written then. What an audit must find is
not looked at here: only an audit can tell.
"""

from collections import Counter

from tidegauge.sim_engine.scenarios.scenario import LostRange
from tidegauge.sim_engine.scenarios.written.form import (
    SaidOfClient,
    SaidOfPartition,
    SaidOfReplica,
    WrittenMoment,
)
from tidegauge.sim_engine.scenarios.written.places import Place
from tidegauge.sim_engine.world import World

_MOST_SHOWN = 12


def hold(place: Place, moment: WrittenMoment, world: World) -> None:
    """Raises `ScenarioFileError` for the first thing that is not as the moment says."""
    _losses(place, moment, world)
    for said in moment.said:
        match said:
            case SaidOfReplica():
                _replica(said, world)
            case SaidOfClient():
                _client(said, world)
            case SaidOfPartition():
                _partition(said, world)


def _losses(place: Place, moment: WrittenMoment, world: World) -> None:
    truly = Counter(
        LostRange(
            partition=loss.partition,
            start_offset=loss.start_offset,
            end_offset=loss.end_offset,
            committed=loss.committed,
        )
        for loss in world.truth.losses
    )
    said = Counter(moment.losses)
    for lost in said - truly:
        raise place.error(f"{_lost(lost)} is not lost by then. Lost are: {_all(truly)}.")
    for lost in truly - said:
        raise place.error(f"{_lost(lost)} is lost by then, and `lost` does not say so. Add it, or change the story.")


def _replica(said: SaidOfReplica, world: World) -> None:
    replica = world.brokers[said.broker_id].disk.replicas.get(said.partition)
    who = f"broker {said.broker_id}, {said.partition}"
    if replica is None:
        raise said.place.error(f"{who}: there is no replica by then.")
    log = replica.log
    batches = log.batches_from(log.log_start_offset)
    if said.log_end_offset is not None:
        _compare(said.place, f"{who}: the log's end", said.log_end_offset, log.log_end_offset)
    if said.epochs is not None:
        _compare(said.place, f"{who}: epochs", said.epochs, {e.leader_epoch: e.start_offset for e in log.epochs})
    if said.values is not None:
        held = tuple((r.value or b"").decode() for b in batches if not b.is_control for r in b.records)
        _compare(said.place, f"{who}: values", said.values, held)
    if said.sequences is not None:
        producer_id, epoch, first, end = said.sequences
        own = [b for b in batches if (b.producer_id, b.producer_epoch) == (producer_id, epoch) and not b.is_control]
        found = [b.base_sequence + n for b in own for n in range(len(b.records))]
        _compare(said.place, f"{who}: sequences", list(range(first, end)), found)


def _client(said: SaidOfClient, world: World) -> None:
    if said.told is not None:
        told = tuple(note.what for note in world.truth.told if note.client == said.client)
        _compare(said.place, f"{said.client} was told", said.told, told)
    if said.read is not None:
        partition, start, end = said.read
        given = [
            offset
            for note in world.truth.consumed
            if note.client == said.client and note.partition == partition
            for offset in range(note.base_offset, note.last_offset + 1)
        ]
        _compare(said.place, f"{said.client} read of {partition}", list(range(start, end)), given)


def _partition(said: SaidOfPartition, world: World) -> None:
    topic = world.controller.image.topics.get(said.partition.topic)
    image = topic.partitions.get(said.partition.partition) if topic is not None else None
    if image is None:
        raise said.place.error(f"{said.partition} is not there by then.")
    lineage = world.truth.lineage(said.partition)
    for name, wanted, found in (
        ("the leader", said.leader, image.leader),
        ("the leader epoch", said.leader_epoch, image.leader_epoch),
        ("the high watermark", said.high_watermark, lineage.high_watermark),
        ("the last stable offset", said.last_stable_offset, lineage.last_stable_offset),
    ):
        if wanted is not None:
            _compare(said.place, f"{said.partition}: {name}", wanted, found)


def _compare(place: Place, what: str, said: object, found: object) -> None:
    if said != found:
        raise place.error(f"{what}: the file says {_shown(said)}, and it is {_shown(found)}.")


def _shown(value: object) -> str:
    if isinstance(value, list) and value and value == list(range(value[0], value[-1] + 1)):
        return f"{value[0]}..{value[-1]}"
    if isinstance(value, (tuple, list)):
        shown = ", ".join(str(each) for each in value[:_MOST_SHOWN])
        return f"[{shown}{f', … {len(value):,} in all' if len(value) > _MOST_SHOWN else ''}]"
    return str(value)


def _lost(lost: LostRange) -> str:
    which = "committed" if lost.committed else "acknowledged, not committed"
    return f"{lost.partition} {lost.start_offset}..{lost.end_offset - 1} ({which})"


def _all(losses: Counter[LostRange]) -> str:
    return ", ".join(_lost(each) for each in losses.elements()) or "none"
