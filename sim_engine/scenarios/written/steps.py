"""The words of a step, and what each makes happen.

In: a step as it stands, and the cast. Out: an `Act`. `WORDS` has each word with what may stand beside it; to add one,
add a reader and a line there. Only what a step says of itself is checked here; whether its time has come (a broker
that is down cannot be killed) is known when the scenario is played.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidegauge.sim_engine import actions
from tidegauge.sim_engine.actions import ProduceCall, StartConsumer, StartProducer
from tidegauge.sim_engine.coordinators.coordinator_actions import (
    BeginTransaction,
    EndTransaction,
    LeaveGroup,
    LoseMarkers,
    SendInTransaction,
    StartGroupConsumer,
    StartTransactionalProducer,
    WriteUnverified,
)
from tidegauge.sim_engine.disks.disk_actions import FillDisk, FreeDisk, HurtDisk
from tidegauge.sim_engine.disks.disk_faults import FaultKind
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.network import CONTROLLER, Link, broker_node, client_node
from tidegauge.sim_engine.scenarios.written.cast import CONFIG, LONGEST_MS, MOST_BROKERS, Cast, config_of, each_once
from tidegauge.sim_engine.scenarios.written.form import Act, Need
from tidegauge.sim_engine.scenarios.written.places import Place

MOST_RECORDS: Final = 100_000
"""Of one step; a scenario's steps may have so many together, too."""
_MOST_VALUES: Final = 1_000
_EVERY_MS: Final = 20
_IN_A_BATCH: Final = 10
_DAMAGES: Final = {
    kind.value: kind
    for kind in (
        FaultKind.TORN_WRITE,
        FaultKind.LOST_FLUSH,
        FaultKind.BIT_FLIP,
        FaultKind.LOST_SEGMENT,
        FaultKind.DAMAGED_INDEX,
        FaultKind.SAME_EPOCH_REWRITE,
    )
}
_WHILE_IT_RUNS: Final = frozenset({FaultKind.BIT_FLIP, FaultKind.SAME_EPOCH_REWRITE})

Said = Mapping[str, Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word: how it is read, what must and what may stand beside it, and what it means."""

    reads: Callable[[Said, Cast], Act]
    about: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def act_of(word: str, said: Said, cast: Cast) -> Act:
    """What a step does."""
    return WORDS[word].reads(said, cast)


def records_in(act: Act) -> int:
    """How many records a step sends."""
    sends = (ProduceCall, SendInTransaction)
    return sum(len(action.records) for _, action in act.events if isinstance(action, sends))


# Brokers and clients that begin and end.


def _start(said: Said, cast: Cast) -> Act:
    if _is_of_brokers(said["start"]):
        return _of_brokers("start", actions.Start, Need.DOWN)(said, cast)
    name = cast.client(said["start"])
    return _now(cast.clients[name], needs=((Need.NOT_STARTED, name),))


def _stop(said: Said, cast: Cast) -> Act:
    if _is_of_brokers(said["stop"]):
        return _of_brokers("stop", actions.Stop, Need.RUNS)(said, cast)
    return _of_client("stop", actions.StopClient)(said, cast)


def _is_of_brokers(place: Place) -> bool:
    return place.is_list or place.text().isdecimal()


def _of_brokers(word: str, action: Callable[[int], object], need: Need) -> Callable[[Said, Cast], Act]:
    def read(said: Said, cast: Cast) -> Act:
        ids = cast.some_brokers(said[word])
        return _now(*map(action, ids), needs=tuple((need, b) for b in ids))

    return read


def _of_client(word: str, action: Callable[[str], object], *kinds: type) -> Callable[[Said, Cast], Act]:
    def read(said: Said, cast: Cast) -> Act:
        name = cast.client(said[word], *kinds)
        return _now(action(name), needs=((Need.STARTED, name),))

    return read


# Records.


def _send(said: Said, cast: Cast) -> Act:
    name = cast.client(said["send"], StartProducer, StartTransactionalProducer)
    partition = cast.partition(said["to"])
    if ("values" in said) == ("numbers" in said):
        raise said["send"].error("wants values (one batch: [M1, M2]) or numbers (A..B, in batches), one of them.")
    batches = _numbered(said) if "numbers" in said else [_values(said)]
    every_ms = said["every"].duration(LONGEST_MS, 1) if "every" in said else _EVERY_MS
    of = SendInTransaction if isinstance(cast.clients[name], StartTransactionalProducer) else ProduceCall
    events = [
        (number * every_ms, of(client=name, partition=partition, records=_records(texts)))
        for number, texts in enumerate(batches)
    ]
    return Act(events=tuple(events), needs=((Need.STARTED, name),))


def _values(said: Said) -> list[str]:
    for key in ("per_batch", "every"):
        if key in said:
            raise said[key].error("is for numbers: values are one batch. Leave it out.")
    return [each.text() for each in said["values"].items(_MOST_VALUES)]


def _numbered(said: Said) -> list[list[str]]:
    first, end = said["numbers"].closed_span()
    if end - first > MOST_RECORDS:
        raise said["numbers"].error(f"{end - first:,} records; at most {MOST_RECORDS:,} are played.")
    size = said["per_batch"].whole(1, 1_000) if "per_batch" in said else _IN_A_BATCH
    return [[f"order {n}" for n in range(at, min(at + size, end))] for at in range(first, end, size)]


def _records(texts: list[str]) -> tuple[NewRecord, ...]:
    return tuple(NewRecord(timestamp=-1, key=None, value=text.encode()) for text in texts)


def _write_unverified(said: Said, cast: Cast) -> Act:
    late = WriteUnverified(
        partition=cast.partition(said["write_unverified"]),
        producer_id=said["producer_id"].whole(),
        records=_records([each.text() for each in said["values"].items(_MOST_VALUES)]),
    )
    return _now(late)


# The network.


def _ways(said: Said, word: str, cast: Cast) -> list[tuple[str, str]]:
    ends = said[word].items(2)
    if len(ends) != 2:
        raise said[word].error("wants two ends, such as [1, 2] or [1, app].")
    source, target = (cast.node(end) for end in ends)
    if source == target:
        raise said[word].error("both ends are the same. Name two.")
    one_way = said["one_way"].flag() if "one_way" in said else False
    return [(source, target)] if one_way else [(source, target), (target, source)]


def _cut(said: Said, cast: Cast) -> Act:
    return _now(*(actions.Cut(*way) for way in _ways(said, "cut", cast)))


def _heal(said: Said, cast: Cast) -> Act:
    if not said["heal"].is_list:
        said["heal"].one_of({"all": None})
        if "one_way" in said:
            raise said["one_way"].error("all ways are healed, in both directions. Leave it out.")
        nodes = [CONTROLLER, *map(broker_node, cast.brokers), *map(client_node, cast.clients)]
        return _now(*(actions.Heal(a, b) for a in nodes for b in nodes if a != b))
    return _now(*(actions.Heal(*way) for way in _ways(said, "heal", cast)))


def _slow(said: Said, cast: Cast) -> Act:
    link = Link(delay_ms=said["delay"].duration(600_000), jitter_ms=0)
    return _now(*(actions.SetLink(source, target, link) for source, target in _ways(said, "slow", cast)))


# Disks.


def _hurt(said: Said, cast: Cast) -> Act:
    broker_id = cast.broker(said["hurt"])
    kind = said["damage"].one_of(_DAMAGES)
    action = HurtDisk(
        broker_id=broker_id,
        kind=kind,
        partition=cast.partition(said["partition"]),
        offset=said["offset"].whole() if "offset" in said else None,
        byte=said["byte"].whole() if "byte" in said else None,
    )
    return _now(action, needs=() if kind in _WHILE_IT_RUNS else ((Need.DOWN, broker_id),))


def _wipe(said: Said, cast: Cast) -> Act:
    broker_id = cast.broker(said["wipe"])
    partition = cast.partition(said["partition"]) if "partition" in said else None
    return _now(actions.Wipe(broker_id, partition), needs=((Need.DOWN, broker_id),))


def _fill(said: Said, cast: Cast) -> Act:
    return _now(FillDisk(broker_id=cast.broker(said["fill"]), room_bytes=said["room_bytes"].whole()))


def _free(said: Said, cast: Cast) -> Act:
    return _now(FreeDisk(broker_id=cast.broker(said["free"])))


# Operators.


def _set(said: Said, cast: Cast) -> Act:
    name = said["set"].one_of({name: name for name in CONFIG})
    topic = cast.topic(said["topic"]) if "topic" in said else None
    return _now(actions.AlterConfig(topic, name, config_of(said["value"], name)))


def _elect(said: Said, cast: Cast) -> Act:
    unclean = said["unclean"].flag() if "unclean" in said else False
    return _now(actions.Elect(cast.partition(said["elect"]), unclean))


def _reassign(said: Said, cast: Cast) -> Act:
    partition = cast.partition(said["reassign"])
    replicas = each_once(said["replicas"], [cast.broker(each) for each in said["replicas"].items(MOST_BROKERS)])
    return _now(actions.Reassign(partition, replicas))


def _delete_records(said: Said, cast: Cast) -> Act:
    return _now(actions.DeleteRecords(cast.partition(said["delete_records"]), said["before"].whole()))


def _delete_topic(said: Said, cast: Cast) -> Act:
    return _now(actions.DeleteTopic(cast.topic(said["delete_topic"])))


def _lose_markers(said: Said, cast: Cast) -> Act:
    return _now(LoseMarkers(cast.partition(said["lose_markers"])))


def _now(*does: object, needs: tuple[tuple[Need, int | str], ...] = ()) -> Act:
    return Act(events=tuple((0, action) for action in does), needs=needs)


_TX: Final = StartTransactionalProducer

WORDS: Final[Mapping[str, Word]] = {
    "start": Word(reads=_start, about="switches brokers on that are down, or lets a client begin"),
    "stop": Word(reads=_stop, about="stops brokers in good order; a client goes without a word"),
    "kill": Word(
        reads=_of_brokers("kill", actions.Kill, Need.RUNS), about="brokers' processes die; what they wrote is there"
    ),
    "power_cut": Word(
        reads=_of_brokers("power_cut", actions.PowerCut, Need.RUNS),
        about="brokers' machines lose power; what was not flushed may be gone, by chance",
    ),
    "pause": Word(reads=_of_brokers("pause", actions.Pause, Need.RUNS), about="brokers stand still"),
    "resume": Word(
        reads=_of_brokers("resume", actions.Resume, Need.PAUSED), about="they go on, with all that came meanwhile"
    ),
    "send": Word(
        reads=_send,
        about="a producer sends values as one batch, or numbers in batches of per_batch (10) every 20ms",
        required=("to",),
        optional=("values", "numbers", "per_batch", "every"),
    ),
    "restart": Word(
        reads=_of_client("restart", actions.RestartProducer, StartProducer),
        about="a producer forgets what it sent, and goes on with its id and the next epoch",
    ),
    "poll": Word(reads=_of_client("poll", actions.Poll, StartConsumer), about="a consumer reads on at once"),
    "leave": Word(
        reads=_of_client("leave", LeaveGroup, StartGroupConsumer), about="a member commits what it has read, and goes"
    ),
    "begin": Word(reads=_of_client("begin", BeginTransaction, _TX), about="a transaction begins"),
    "commit": Word(reads=_of_client("commit", lambda name: EndTransaction(name, True), _TX), about="it commits"),
    "abort": Word(reads=_of_client("abort", lambda name: EndTransaction(name, False), _TX), about="it aborts"),
    "lose_markers": Word(
        reads=_lose_markers, about="coordinators take markers for this partition as written, and send none"
    ),
    "write_unverified": Word(
        reads=_write_unverified,
        about="a partition's leader takes a late transactional batch of which no coordinator knows",
        required=("producer_id", "values"),
    ),
    "cut": Word(reads=_cut, about="nothing gets from one end to the other", optional=("one_way",)),
    "heal": Word(reads=_heal, about="the way is open again; `heal: all` opens every way", optional=("one_way",)),
    "slow": Word(reads=_slow, about="messages take so long", required=("delay",), optional=("one_way",)),
    "hurt": Word(
        reads=_hurt,
        about=f"a broker's log is damaged: {', '.join(_DAMAGES)}",
        required=("damage", "partition"),
        optional=("offset", "byte"),
    ),
    "wipe": Word(reads=_wipe, about="a dead broker's log dir is emptied", optional=("partition",)),
    "fill": Word(reads=_fill, about="a broker's disk has room for so many bytes more", required=("room_bytes",)),
    "free": Word(reads=_free, about="there is room enough again"),
    "set": Word(
        reads=_set, about="a setting of a topic, or of the cluster, changes", required=("value",), optional=("topic",)
    ),
    "elect": Word(reads=_elect, about="an operator asks for an election", optional=("unclean",)),
    "reassign": Word(reads=_reassign, about="a partition gets other replicas", required=("replicas",)),
    "delete_records": Word(reads=_delete_records, about="records below an offset may go", required=("before",)),
    "delete_topic": Word(reads=_delete_topic, about="a topic goes"),
}
