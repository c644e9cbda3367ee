"""Where an incident has its anchor: what a breach, a loss or a risk points to, as the thing that went wrong.

In: a root breach, a loss, elections. Out: `Anchor`s, each with the sentence that argues it. The rule that must hold: an
anchor rests on the cluster's own names (a record of the metadata log, a broker, a producer, a topic), never on a run.

An election is looked for first. A breach names the one behind it, or an epoch that it ended: then it is the first on
record that gave up records of that epoch. What no election did is of the place that its cause has in `_PLACES`.
"""

from collections.abc import Mapping
from typing import Final

from tidegauge.expectations.causes import CAUSES
from tidegauge.expectations.incidents.elections import Elections, place_of
from tidegauge.expectations.incidents.model import Anchor, Election, Kind
from tidegauge.expectations.verdicts import Breach, shown
from tidegauge.relations import LossRow

_ACCUSED: Final = "accused"
_COORDINATOR: Final = "coordinator"
_DISK: Final = (Kind.DISK, (_ACCUSED,))
_BROKER: Final = (Kind.BROKER, (_ACCUSED,))
_CLIENT: Final = (Kind.PRODUCER, ("producer_id", "transactional_id", "group"))
_TOPIC: Final = (Kind.TOPIC, ("topic",))
_PLACES: Final[Mapping[str, tuple[Kind, tuple[str, ...]]]] = {
    "bit_rot": _DISK,
    "header_rot": _DISK,
    "torn_write": _DISK,
    "lost_flush": _DISK,
    "stale_disk": _DISK,
    "foreign_disk": _DISK,
    "failed_disk": _DISK,
    "interrupted_cleanup": _DISK,
    "derived_file": _DISK,
    "restored_files": _DISK,
    "unclean_loss": _BROKER,
    "cut_or_lost": _BROKER,
    "two_writers": _BROKER,
    "leader_epoch_wrong": _BROKER,
    "untruncated_divergence": _BROKER,
    "equal_lineage_other_bytes": _BROKER,
    "lost_batch": _BROKER,
    "uncommitted_tail": _BROKER,
    "open_tail": _BROKER,
    "failover": _BROKER,
    "wrong_writer": _BROKER,
    "cleaner_bug": _BROKER,
    "broker_down": (Kind.BROKER, ()),
    "producer_bug": _CLIENT,
    "client_behaviour": _CLIENT,
    "hanging_transaction": _CLIENT,
    "lost_marker": _CLIENT,
    "write_outside_transaction": _CLIENT,
    "coordinator_bug": (Kind.COORDINATOR, (_COORDINATOR,)),
    "controller_bug": (Kind.CONTROLLER, ()),
    "retention": _TOPIC,
    "remote_tier": _TOPIC,
    "configuration": (Kind.TOPIC, ("topic", "broker_id")),
    "answered_otherwise": (Kind.CLUSTER, ()),
}
_BY_ELECTION: Final = frozenset({"unclean_loss", "cut_or_lost"})
"""Causes behind which an election stands, if one is on record."""
_EPOCHS_READ: Final = ("truncated_leader_epoch", "read_leader_epoch", "leader_epoch")
"""In a breach's evidence: the epoch that was ended too early."""


def election_of_breach(breach: Breach, elections: Elections) -> Election | None:
    """The election on record that is behind a breach."""
    place = place_of(breach)
    if breach.points_to not in _BY_ELECTION or place is None:
        return None
    if (named := elections.named(breach)) is not None:
        return named
    epoch = next((e for name in _EPOCHS_READ if (e := breach.evidence.get(name)) is not None), None)
    return elections.after(place, epoch)


def anchor_of_breach(breach: Breach) -> Anchor:
    """The anchor of a root that no election on record explains."""
    cause = breach.points_to
    kind, names = _PLACES.get(cause or "", (Kind.RECORDS, ()))
    place = next(((name, value) for name in names if (value := _value(breach, name)) is not None), None)
    if place is None and names:
        return Anchor(kind=kind, cause=cause, place=_subject(breach))
    return Anchor(kind=kind, cause=cause, place=(place,) if place is not None else ())


def anchor_of_loss(loss: LossRow) -> Anchor:
    """The anchor of a loss of which no breach and no election on record tells."""
    epoch = loss["leader_epoch"]
    place: tuple[tuple[str, str | int], ...] = (("topic", loss["topic"]), ("partition", loss["partition"]))
    return Anchor(
        kind=Kind.RECORDS, cause=None, place=place if epoch is None else (*place, ("leader_epoch", int(epoch)))
    )


def because_of_election(election: Election) -> str:
    """The sentence that argues it."""
    when = f" ({at})" if (at := shown("at_ms", election.at_ms)) else ""
    whom = f"made broker {election.leader_id} leader" if election.leader_id is not None else "elected a leader"
    return (
        f"record {election.metadata_offset} of the metadata log{when} {whom} of {election.topic}-{election.partition}"
    )


def because_of_place(anchor: Anchor) -> str:
    """The sentence that argues what no election did."""
    cause = CAUSES.get(anchor.cause or "")
    title = cause.title if cause is not None else "nothing that is known"
    where = " ".join(f"{name.removesuffix('_id').replace('_', ' ')} {value}" for name, value in anchor.place)
    return f"points to {title}" + (f", {where}" if where else "")


def accused(breach: Breach) -> int | None:
    """The broker that a breach is about. Of two that differ it is the one that is not to be believed; but where records
    were cut off, it is the one that holds them: what cut them may have several new leaders.
    """
    broker, follower = breach.subject.get("broker_id"), breach.subject.get("follower_id")
    if broker is not None or follower is None:
        return None if broker is None else int(broker)
    doubted = [b for b in (follower, breach.subject.get("leader_id")) if b is not None and b not in breach.believe]
    if breach.points_to in _BY_ELECTION or not breach.believe or not doubted:
        return int(follower)
    return int(doubted[0])


def _value(breach: Breach, name: str) -> str | int | None:
    if name == _ACCUSED:
        return accused(breach)
    if name == _COORDINATOR:
        return "transaction" if breach.code.startswith("F") else "group"
    found = breach.subject.get(name)
    return found if found is None or isinstance(found, int) else str(found)


def _subject(breach: Breach) -> tuple[tuple[str, str | int], ...]:
    return tuple((name, value) for name, value in sorted(breach.subject.items()) if isinstance(value, (str, int)))
