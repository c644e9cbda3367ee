"""How an incident reads: what was gathered in, the sentence and the figures out.

The rules that must hold: its records are those of its losses, each counted once; whom to believe is what its breaches
argue, and nobody where they contradict each other; what is not known is not said.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from tidegauge.expectations.causes import CAUSES
from tidegauge.expectations.incidents.anchors import accused
from tidegauge.expectations.incidents.elections import place_of
from tidegauge.expectations.incidents.model import Group, Incident, Kind
from tidegauge.expectations.verdicts import Breach, shown
from tidegauge.relations import CommittedOffsetRow, LossRow

ReadUpTo = Mapping[tuple[str, int, str], int]
"""By topic, partition and group."""

_NAMED: Final = 3
"""So many partitions or groups are named in a sentence; of more it says how many."""
_BROKERS: Final = ("broker_id", "leader_id", "follower_id")
_AVOID: Final[Mapping[str, str]] = {
    "bit_rot": "Do not let broker {brokers} lead these partitions, and do not delete the other replicas.",
    "header_rot": "Do not let broker {brokers} lead these partitions, and do not delete the other replicas.",
    "torn_write": "Do not delete the damaged segment by hand: recovery cuts it where it must be cut.",
    "lost_flush": "Do not make broker {brokers} leader before the other replicas' logs are safe.",
    "stale_disk": "Do not make broker {brokers} leader before the other replicas' logs are safe.",
    "foreign_disk": "Do not start broker {brokers} with this disk.",
    "failed_disk": "Do not replace the disk of broker {brokers} before it is known that others hold all of it.",
    "interrupted_cleanup": "Do not delete files of broker {brokers} by hand while it runs.",
    "derived_file": "Do not rebuild files of broker {brokers} while it runs.",
    "restored_files": "Do not restore more files into broker {brokers} while it runs.",
    "unclean_loss": "Do not elect another leader uncleanly.",
    "cut_or_lost": "Do not elect another leader uncleanly.",
    "two_writers": "Do not move leadership back and forth: each move may cut one writer's records.",
    "leader_epoch_wrong": "Do not delete the leader-epoch checkpoints: they are what is left to compare.",
    "untruncated_divergence": "Do not move leadership before it is decided whose records stay.",
    "equal_lineage_other_bytes": "Do not move leadership before it is decided whose records stay.",
    "lost_batch": "Do not delete the replica that still has the batches.",
    "uncommitted_tail": "Do not produce the same records again by hand: their producers were told that they failed.",
    "open_tail": "Do not start broker {brokers} before its tail is salvaged.",
    "failover": "Do not read offsets from broker {brokers} as final before it has caught up.",
    "wrong_writer": "Do not rewrite the segments: they are the only trace of who wrote them.",
    "cleaner_bug": "Do not force a compaction: it deletes what could still be compared.",
    "broker_down": "Do not enable unclean leader election to get out of it.",
    "producer_bug": "Do not restart the producer with another transactional id: its fencing would be gone.",
    "client_behaviour": "Do not reset offsets before the application's owner has looked.",
    "hanging_transaction": "Do not abort the transaction before it is clear that its producer is gone.",
    "lost_marker": "Do not write markers by hand before the coordinator's log is saved.",
    "write_outside_transaction": "Do not abort the transaction before it is clear that its producer is gone.",
    "coordinator_bug": "Do not delete the coordinator's partition: it is the only record of what it did.",
    "controller_bug": "Do not format a controller's metadata log: the copies are what is left to compare.",
    "retention": "Do not shorten retention further before it is clear what was deleted.",
    "remote_tier": "Do not delete local segments of these topics before the remote copies are checked.",
    "configuration": "Do not change more settings before the ones that were changed are known.",
    "answered_otherwise": "Do not act on the cluster's answer alone: its own files say something else.",
}
_WITHOUT_CAUSE: Final = "Do not delete this snapshot, nor what the brokers hold: it is what is left to look at."


def told(group: Group, incident_id: str, up_to: ReadUpTo) -> Incident:
    """The incident that a group is."""
    times = [e.at_ms for e in group.elections if e.at_ms is not None]
    groups = _groups(group)
    read = _read(group.losses, up_to)
    brokers = _brokers(group)
    believe = _believed(group.breaches)
    partitions = _partitions(group)
    what = _what(group, brokers)
    lost, at_risk, possible = (_records(group.losses, state) for state in ("lost", "at_risk", "possible"))
    return Incident(
        incident_id=incident_id,
        kind=group.anchor.kind,
        cause=group.anchor.cause,
        anchor=dict(group.anchor.place),
        severity=_severity(group),
        what=what,
        headline=sentence(
            what,
            [f"{topic}-{partition}" for topic, numbers in partitions.items() for partition in numbers],
            list(partitions),
            lost=lost,
            at_risk=at_risk,
            possible=possible,
            believe=believe,
            groups=groups,
            read=read,
        ),
        avoid=_avoid(group, brokers),
        began_at_ms=min(times, default=None),
        ended_at_ms=max(times, default=None),
        brokers=brokers,
        partitions=partitions,
        groups=groups,
        records_lost=lost,
        records_at_risk=at_risk,
        records_possible=possible,
        records_read=read,
        believe=believe,
        members=tuple(group.members),
    )


def records_told(lost: int, at_risk: int, possible: int) -> str:
    """How many records, in words that are the same wherever an incident is shown."""
    parts = [f"{lost:,} {_of(lost)} lost"] if lost else []
    parts += [f"{at_risk:,} {_of(at_risk)} at risk"] if at_risk else []
    parts += [f"{possible:,} {_of(possible)} possibly lost"] if possible else []
    return " and ".join(parts) or "no loss known"


def _of(records: int) -> str:
    return "record" if records == 1 else "records"


def _records(losses: Iterable[LossRow], state: str) -> int:
    return sum(loss["records"] for loss in losses if loss["state"] == state)


def _severity(group: Group) -> str:
    found = {b.severity for b in group.breaches}
    found |= {"warning" if loss["state"] == "possible" else "critical" for loss in group.losses}
    found |= {"warning" for _ in group.risks}
    return next(each for each in ("critical", "warning", "info") if each in found)


def _brokers(group: Group) -> tuple[int, ...]:
    """Those that it is about: accused, or holding what others cut; of an election who led before."""
    if group.anchor.cause == "broker_down":
        away = (set(b.evidence.get("replicas") or ()) - set(b.evidence.get("isr") or ()) for b in group.breaches)
        return tuple(sorted(set().union(*away)))
    found = {e.led_before for e in group.elections}
    roots = [b for b in group.breaches if b.implied_by is None]
    found |= {accused(b) for b in roots} | {int(b) for loss in group.losses for b in loss["held_by"]}
    return tuple(sorted(b for b in found if b is not None))


def _partitions(group: Group) -> Mapping[str, tuple[int, ...]]:
    places = {place for b in group.breaches if (place := place_of(b)) is not None}
    places |= {(loss["topic"], int(loss["partition"])) for loss in group.losses}
    for risk in group.risks:
        for name in ("losing_partitions", "unavailable_partitions", "unclean_partitions", "refusing_partitions"):
            places |= {(risk["topic"], int(partition)) for partition in risk[name] or ()}
    found: dict[str, tuple[int, ...]] = {}
    for topic, several in groupby(sorted(places), key=lambda place: place[0]):
        found[topic] = tuple(partition for _, partition in several)
    return found


def _groups(group: Group) -> tuple[str, ...]:
    found = {str(b.subject["group"]) for b in group.breaches if b.subject.get("group") is not None}
    return tuple(sorted(found | {g for loss in group.losses for g in loss["groups_affected"]}))


def _believed(breaches: Iterable[Breach]) -> tuple[int, ...]:
    """Whom its breaches believe; nobody of whom one believes the opposite."""
    arguing = [b for b in breaches if b.implied_by is None and b.believe]
    believed = {broker for b in arguing for broker in b.believe}
    named = ((b, b.subject.get(name)) for b in arguing for name in _BROKERS)
    doubted = {broker for b, broker in named if broker is not None and broker not in b.believe}
    return tuple(sorted(believed - doubted))


def read_up_to(committed_offsets: Iterable[CommittedOffsetRow]) -> ReadUpTo:
    """How far each group had read, of those that had read what is lost."""
    up_to: dict[tuple[str, int, str], int] = {}
    for row in committed_offsets:
        read = row["read_end_offset"]
        up_to[row["topic"], int(row["partition"]), row["group"]] = row["committed_offset"] if read is None else read
    return up_to


def _read(losses: Sequence[LossRow], up_to: ReadUpTo) -> int | None:
    """How many of the records groups had read, at most: on each partition what the group that went furthest had."""
    stretches: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for loss in losses:
        place = loss["topic"], int(loss["partition"])
        ends = [end for group in loss["groups_affected"] if (end := up_to.get((*place, group))) is not None]
        if ends:
            stretches.setdefault(place, []).append((loss["start_offset"], min(max(ends), loss["end_offset"])))
    written: dict[tuple[str, int], int] = {}
    for loss in losses:
        place = loss["topic"], int(loss["partition"])
        written[place] = written.get(place, 0) + loss["records"]
    return sum(min(written[place], _covered(of)) for place, of in stretches.items()) if stretches else None


def _covered(stretches: Iterable[tuple[int, int]]) -> int:
    """Offsets in any of them: where two lineages differ a group has read one of both."""
    offsets, at = 0, None
    for start, end in sorted(stretches):
        begin = start if at is None else max(start, at)
        offsets += max(0, end - begin)
        at = end if at is None else max(at, end)
    return offsets


def sentence(
    what: str,
    partitions: Sequence[str],
    topics: Sequence[str],
    *,
    lost: int,
    at_risk: int,
    possible: int,
    believe: Sequence[int],
    groups: Sequence[str],
    read: int | None,
) -> str:
    """An incident in one sentence, the same wherever it is shown. `partitions`: as `orders-0`; where there are none the
    topics are named.
    """
    records = records_told(lost, at_risk, possible)
    where = _where(partitions, topics)
    parts = [f"{what}: {where}, {records}" if where else f"{what}: {records}"]
    if believe:
        parts.append(f"believe {_numbered(believe)}")
    if groups:
        had = "had read past the first of them" if read is None else f"had read up to {read:,} of them"
        parts.append(f"{_names(groups)} {had}" if lost or at_risk or possible else _names(groups))
    return "; ".join(parts)


def _what(group: Group, brokers: Sequence[int]) -> str:
    anchor = group.anchor
    if anchor.kind is Kind.ELECTION:
        return _election(group)
    cause = CAUSES.get(anchor.cause or "")
    title = cause.title if cause is not None else "records cut off"
    title = title[0].upper() + title[1:]
    if anchor.kind in (Kind.DISK, Kind.BROKER):
        return f"{title}, {_numbered(brokers)}" if brokers else title
    place = ", ".join(f"{name.removesuffix('_id').replace('_', ' ')} {value}" for name, value in anchor.place)
    return f"{title}, {place}" if place and anchor.kind is not Kind.RECORDS else title


def _election(group: Group) -> str:
    elections = group.elections
    kinds = {e.election for e in elections}
    title = "Election of who led last" if kinds == {"last_known"} else "Unclean election"
    times = [e.at_ms for e in elections if e.at_ms is not None]
    when = f" {at.partition('.')[0]} UTC" if times and (at := shown("at_ms", min(times))) else ""
    before = sorted({e.led_before for e in elections if e.led_before is not None})
    after = sorted({e.leader_id for e in elections if e.leader_id is not None})
    moved = ""
    if before and after:
        moved = f", broker {', '.join(map(str, before))} -> {', '.join(map(str, after))}"
    elif after:
        moved = f", to broker {', '.join(map(str, after))}"
    return f"{title}{when}{moved}"


def _where(partitions: Sequence[str], topics: Sequence[str]) -> str:
    if not partitions:
        return ", ".join(topics) if len(topics) < _NAMED else f"{len(topics)} topics"
    return ", ".join(partitions) if len(partitions) < _NAMED else f"{len(partitions)} partitions"


def _names(groups: Sequence[str]) -> str:
    if len(groups) == 1:
        return f"group {groups[0]}"
    named = groups if len(groups) <= _NAMED else (*groups[: _NAMED - 1], f"{len(groups) - _NAMED + 1} more")
    return f"groups {', '.join(named[:-1])} and {named[-1]}"


def _numbered(brokers: Sequence[int]) -> str:
    return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"


def _avoid(group: Group, brokers: Sequence[int]) -> str:
    """The one thing not to do: what would destroy the last copy, where there is one."""
    waiting = [loss for loss in group.losses if loss["state"] != "lost"]
    holders = sorted({int(b) for loss in waiting for b in loss["held_by"]})
    if _hold_different_records(waiting):
        return "Do not move leadership of these partitions: whoever leads cuts off what only others hold."
    if holders:
        it = "it rejoins, it cuts" if len(holders) == 1 else "one rejoins, it cuts"
        return f"Keep {_numbered(holders)} down: when {it} the only copy of these records off."
    if group.losses:
        return "Do not delete earlier snapshots, nor old disks: no replica that was read has these records."
    sentence = _AVOID.get(group.anchor.cause or "", _WITHOUT_CAUSE)
    named = ", ".join(map(str, brokers))
    return sentence.format(brokers=named) if named else sentence.replace(" {brokers}", "")


def _hold_different_records(losses: Iterable[LossRow]) -> bool:
    """Of one partition, brokers that share nothing hold what the others lack: there is none to keep down."""
    held: dict[tuple[str, int], list[set[int]]] = {}
    for loss in losses:
        held.setdefault((loss["topic"], int(loss["partition"])), []).append({int(b) for b in loss["held_by"]})
    return any(one and other and not one & other for several in held.values() for one in several for other in several)
