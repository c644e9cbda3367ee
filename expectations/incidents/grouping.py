"""Which breaches, losses and risks are one incident.

In: `Found`. Out: its incidents, the worst first. The rules that must hold: each breach, each loss and each risk of now
is a member of exactly one; the order of the rows changes nothing, nor does what a run is called.

First each root breach gets its anchor (`anchors`), and its consequences go with it. A loss, which is all that was cut
off a partition under one leader epoch, goes where the breach that tells of it is. Last, breaches that tell of the same
loss are brought together: an election takes in what no election explains, and never another election.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

from tidegauge.expectations.incidents.anchors import (
    anchor_of_breach,
    anchor_of_loss,
    because_of_election,
    because_of_place,
    election_of_breach,
)
from tidegauge.expectations.incidents.elections import elections_by_place, place_of, series
from tidegauge.expectations.incidents.model import Anchor, Election, Found, Group, Incident, Kind, Member, Place, Rule
from tidegauge.expectations.incidents.wording import read_up_to, told
from tidegauge.expectations.verdicts import Breach
from tidegauge.relations import LossRow

LossKey = tuple[str, int, int | None]
"""Topic, partition, leader epoch: what was cut off there is one loss, in however many ranges."""

AWAY: Final = Anchor(kind=Kind.BROKER, cause="broker_down")
"""Brokers that are away now: what that costs is one incident, whichever they are."""
_TELL_OF_LOSSES: Final = (
    "D06",
    "C10",
    "D18",
    "J02",
    "D19",
    "H03",
    "D10",
    "D11",
    "D12",
    "C08",
    "D05",
    "D07",
    "D02",
    "J01",
    "J04",
    "J07",
)
"""Invariants whose breaches are about the records themselves, those first that say most of them."""


def incidents_of(found: Found) -> tuple[Incident, ...]:
    """The incidents of one snapshot, the worst first."""
    groups = _gathered(found)
    up_to = read_up_to(found.committed_offsets)
    incidents = (told(group, incident_id(found.cluster, group.anchor), up_to) for group in groups)
    return tuple(sorted(incidents, key=_rank))


def incident_id(cluster: str, anchor: Anchor) -> str:
    """The same whenever the same thing goes wrong at the same place of a cluster."""
    parts = (cluster, anchor.kind, anchor.cause or "", *(f"{name}={value}" for name, value in anchor.place))
    return "incident-" + sha256("\0".join(parts).encode()).hexdigest()[:10]


def _rank(incident: Incident) -> tuple[object, ...]:
    records = incident.records_lost + incident.records_at_risk
    worst = ("critical", "warning", "info").index(incident.severity)
    return worst, -records, -incident.records_possible, -len(incident.members), incident.incident_id


def _gathered(found: Found) -> Sequence[Group]:
    roots = [b for b in found.breaches if b.implied_by is None]
    elections = elections_by_place(found.elections)
    behind = {root.breach_id: election_of_breach(root, elections) for root in roots}
    losses = _losses(found.losses)
    at: dict[Place | None, list[Breach]] = {}
    for root in roots:
        at.setdefault(place_of(root), []).append(root)
    of_losses = {key: _tells_of(rows, at.get(key[:2], ())) for key, rows in losses.items()}
    cut_by = {key: None if telling else elections.after(key[:2], key[2]) for key, telling in of_losses.items()}
    first_of = series(e for e in (*behind.values(), *cut_by.values()) if e is not None)
    anchors = _of_roots(roots, behind, first_of, of_losses.values())
    groups = _with_breaches(found.breaches, anchors, behind, first_of)
    for key, rows in sorted(losses.items(), key=lambda each: repr(each[0])):
        _take_loss(groups, key, rows, of_losses[key], anchors, cut_by[key], first_of)
    for risk in sorted((r for r in found.risks if r["failure"] == "now"), key=lambda r: r["topic"]):
        group = groups.setdefault(AWAY, Group(anchor=AWAY))
        group.risks.append(risk)
        because = f"{risk['topic']} pays for brokers that are away, as it is now"
        group.members.append(Member(kind="risk", topic=risk["topic"], rule=Rule.CAUSE, because=because))
    return list(groups.values())


def _losses(rows: Iterable[LossRow]) -> Mapping[LossKey, list[LossRow]]:
    found: dict[LossKey, list[LossRow]] = {}
    for row in sorted(rows, key=lambda r: (r["start_offset"], r["end_offset"], r["state"], r["held_by"])):
        found.setdefault((row["topic"], int(row["partition"]), row["leader_epoch"]), []).append(row)
    return found


def _tells_of(rows: Sequence[LossRow], of_its_partition: Iterable[Breach]) -> list[Breach]:
    """The roots that tell of a loss, the one that says most of it first."""
    telling = [
        root for root in of_its_partition if root.code in _TELL_OF_LOSSES and any(_tells(root, row) for row in rows)
    ]
    return sorted(telling, key=lambda b: (_TELL_OF_LOSSES.index(b.code), b.breach_id))


def _tells(breach: Breach, loss: LossRow) -> bool:
    epoch = breach.evidence.get("truncated_leader_epoch", breach.evidence.get("read_leader_epoch"))
    if None not in (epoch, loss["leader_epoch"]) and epoch != loss["leader_epoch"]:
        return False
    if "group" in breach.subject and breach.subject["group"] not in loss["groups_affected"]:
        return False
    start, end = breach.start_offset, breach.end_offset
    return start is not None and end is not None and start < loss["end_offset"] and loss["start_offset"] < end


def _of_roots(
    roots: Iterable[Breach],
    behind: Mapping[str, Election | None],
    first_of: Mapping[Election, Anchor],
    telling_together: Iterable[Sequence[Breach]],
) -> Mapping[str, Anchor]:
    """Each root's anchor, those that tell of the same loss brought together."""
    own = {
        root.breach_id: first_of[election]
        if (election := behind[root.breach_id]) is not None
        else anchor_of_breach(root)
        for root in roots
    }
    above: dict[Anchor, Anchor] = {}

    def top(anchor: Anchor) -> Anchor:
        while anchor in above:
            anchor = above[anchor]
        return anchor

    for telling in sorted(telling_together, key=lambda several: [b.breach_id for b in several]):
        tops = sorted({top(own[b.breach_id]) for b in telling}, key=lambda a: a.order)
        for other in tops[1:]:
            if other.kind is not Kind.ELECTION:
                above[other] = tops[0]
    return {breach_id: top(anchor) for breach_id, anchor in own.items()}


def _with_breaches(
    breaches: Iterable[Breach],
    anchors: Mapping[str, Anchor],
    behind: Mapping[str, Election | None],
    first_of: Mapping[Election, Anchor],
) -> dict[Anchor, Group]:
    groups: dict[Anchor, Group] = {}
    once = {breach.breach_id: breach for breach in breaches}  # One subject may be told of by two rows.
    for breach in sorted(once.values(), key=lambda b: (b.implied_by is not None, b.code, b.breach_id)):
        root = breach.implied_by or breach.breach_id
        # A root that is not among the breaches is not there: what follows from it then stands for itself.
        anchor = anchors.get(root) or anchor_of_breach(breach)
        group = groups.setdefault(anchor, Group(anchor=anchor))
        group.breaches.append(breach)
        election = behind.get(breach.breach_id)
        if breach.implied_by is not None:
            rule, because = Rule.CONSEQUENCE, f"follows from {breach.implied_by}"
        elif election is not None and first_of[election] == anchor:
            group.elections.add(election)
            rule, because = _by_election(election, anchor), because_of_election(election)
        elif (own := anchor_of_breach(breach)) == anchor:
            rule, because = Rule.CAUSE, because_of_place(own)
        else:
            rule, because = Rule.SAME_RECORDS, "tells of a loss that another breach of the incident tells of, too"
        group.members.append(Member(kind="breach", breach_id=breach.breach_id, rule=rule, because=because))
    return groups


def _by_election(election: Election, anchor: Anchor) -> Rule:
    return Rule.ELECTION if anchor.place == (("metadata_offset", election.metadata_offset),) else Rule.SERIES


def _take_loss(
    groups: dict[Anchor, Group],
    key: LossKey,
    rows: Sequence[LossRow],
    telling: Sequence[Breach],
    anchors: Mapping[str, Anchor],
    election: Election | None,
    first_of: Mapping[Election, Anchor],
) -> None:
    if telling:
        anchor = anchors[telling[0].breach_id]
        rule, because = Rule.SAME_RECORDS, f"{telling[0].breach_id} tells of these records"
    elif election is not None:
        anchor = first_of[election]
        rule, because = _by_election(election, anchor), because_of_election(election)
    else:
        anchor = anchor_of_loss(rows[0])
        rule, because = Rule.CAUSE, "no breach and no election on record tells what cut them off"
    group = groups.setdefault(anchor, Group(anchor=anchor))
    if election is not None:
        group.elections.add(election)
    group.losses += rows
    topic, partition, epoch = key
    group.members.append(
        Member(kind="loss", topic=topic, partition=partition, leader_epoch=epoch, rule=rule, because=because)
    )
