"""Whose disks these are: which log dirs of one snapshot are evidence of its cluster, and which are somebody else's.

In: what the meta.properties of each log dir says, and which node the metadata logs know its directory id for. Out:
`Settled`. One wrong file stops nobody else's audit, and nothing is decided by a guess. A file that contradicts where it
lies, or the cluster id of most nodes, is wrong; its log dir counts all the same if a metadata log of the others has
that very directory id for that very node, since nobody else was ever given it.

Source: MetaPropertiesEnsemble#verify, BrokerServer (it registers LogManager#directoryIds), VotersRecord.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tidegauge.kafka_log.properties import MetaProperties
from tidegauge.snapshots.errors import SnapshotError

LogDirKey = tuple[int, str]
"""A node and its log dir's name."""
Owners = Mapping[str, int]
"""Directory id -> the node that a metadata log has it for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A log dir, under whose name it lies, and what its meta.properties says; None if there is none to be read."""

    node_id: int
    log_dir: str
    path: str
    said: MetaProperties | None

    @property
    def place(self) -> LogDirKey:
        """Where it lies."""
        return self.node_id, self.log_dir

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id, by the file."""
        return (self.said.cluster_id or None) if self.said is not None else None

    @property
    def of_another_node(self) -> bool:
        """The file names another node than the one under whose name it lies."""
        return self.said is not None and self.said.node_id not in (None, self.node_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The cluster's id, None if that is not decided; what is wrong in which file; which log dirs do not count."""

    cluster_id: str | None
    wrong: Mapping[LogDirKey, str]
    foreign: Mapping[LogDirKey, str]


OwnersBy = Callable[[Collection[LogDirKey]], Owners]
"""What the metadata logs in some of the log dirs say; asked only where files contradict each other."""


def settle(
    claims: Sequence[Claim], owners_by: OwnersBy, *, hint: str | None = None, names_are_fresh: bool = True
) -> Settled:
    """Decides. `hint`: the cluster's id by another source, which decides where the files are as many on both sides.

    Raises `SnapshotError` where nothing tells which of them are this cluster's; and, where the names under which the
    log dirs lie have just been given, for what looks like a slip in these.
    """
    cluster_id = _most(claims, hint)
    ids = sorted({c.cluster_id for c in claims if c.cluster_id is not None})
    if len(ids) < 2 and not any(c.of_another_node for c in claims):
        return Settled(cluster_id=cluster_id, wrong={}, foreign={})
    if cluster_id is None and len(ids) > 1:
        own, owners = _largest(claims, ids, owners_by)
        cluster_id = _most([c for c in claims if c.place in own], hint)
    else:
        trusted = {c.place for c in claims if not c.of_another_node and c.cluster_id in (None, cluster_id)}
        owners = owners_by(trusted)
        own = trusted | _proven(claims, owners)
    if names_are_fresh:
        _must_be_there(claims, own)
    wrong = {c.place: text for c in claims if (text := _wrong(c, cluster_id, ids))}
    foreign = {c.place: _why(c, wrong.get(c.place, ""), owners) for c in claims if c.place not in own}
    return Settled(cluster_id=cluster_id, wrong=wrong, foreign=foreign)


def _most(claims: Sequence[Claim], hint: str | None) -> str | None:
    """The cluster id of most nodes, of as many that of most log dirs; None where two have as many of both."""
    nodes = Counter(cluster_id for _, cluster_id in {(c.node_id, c.cluster_id) for c in claims if c.cluster_id})
    log_dirs = Counter(c.cluster_id for c in claims if c.cluster_id)
    ranked = sorted(log_dirs, key=lambda i: (nodes[i], log_dirs[i]), reverse=True)
    if len(ranked) > 1 and (nodes[ranked[0]], log_dirs[ranked[0]]) == (nodes[ranked[1]], log_dirs[ranked[1]]):
        return hint if hint in ranked else None
    return ranked[0] if ranked else None


def _proven(claims: Sequence[Claim], owners: Owners) -> set[LogDirKey]:
    """Log dirs whose directory id a metadata log has for the node under whose name they lie."""
    return {
        c.place
        for c in claims
        if c.said is not None and c.said.directory_id and owners.get(c.said.directory_id) == c.node_id
    }


def _largest(claims: Sequence[Claim], ids: Sequence[str], owners_by: OwnersBy) -> tuple[set[LogDirKey], Owners]:
    """Of several cluster ids with as many files: the log dirs that one of the metadata logs knows for its own.

    Which id is the right one stays open; but that the disks are of one cluster is proven by their directory ids.
    """
    found: list[tuple[set[LogDirKey], Owners]] = []
    for cluster_id in ids:
        camp = {c.place for c in claims if not c.of_another_node and c.cluster_id == cluster_id}
        owners = owners_by(camp)
        found.append((camp | _proven(claims, owners), owners))
    undated = {c.place for c in claims if not c.of_another_node and c.cluster_id is None}
    best = max(len(own) for own, _ in found)
    largest = [(own, owners) for own, owners in found if len(own) == best]
    if any(own != largest[0][0] for own, _ in largest):
        told = ", ".join(f"{c.path} says {c.cluster_id}" for c in _first_of_each(claims))
        raise SnapshotError(
            f"This mixes log directories of {len(ids)} clusters: {told}. As many nodes are of the one as of the other, "
            f"no metadata log among them tells which belong together, and log dirs of {len(ids)} clusters make no "
            "snapshot: check the paths, and leave out what is not the cluster's own."
        )
    return largest[0][0] | undated, largest[0][1]


def _first_of_each(claims: Sequence[Claim]) -> list[Claim]:
    """The first log dir of each cluster id."""
    found: dict[str, Claim] = {}
    for claim in claims:
        if claim.cluster_id is not None:
            found.setdefault(claim.cluster_id, claim)
    return list(found.values())


def _must_be_there(claims: Sequence[Claim], own: Collection[LogDirKey]) -> None:
    """Names that were exchanged are the user's slip, and are put right in a moment; so is a name that fits nobody."""
    doubtful = [c for c in claims if c.of_another_node and c.place not in own]
    said = {c.node_id: c.said.node_id for c in claims if c.said is not None and c.said.node_id is not None}
    exchanged = (
        len(doubtful) > 1 and sorted(said.values()) == sorted(said) and len(said) == len({c.node_id for c in claims})
    )
    if own and not exchanged:
        return
    told = ", ".join(
        f"{c.path} belongs to broker {c.said.node_id} (it says node.id={c.said.node_id}), not to broker {c.node_id}"
        for c in doubtful
        if c.said is not None
    )
    right = ", ".join(sorted({f"broker-{c.said.node_id}" for c in doubtful if c.said is not None}))
    raise SnapshotError(
        f"{told}. Rename the directory to {right} if this is a plain copy; for a capture, name it with the right id: "
        "--broker <node.id>=LOG_DIR."
    )


def _wrong(claim: Claim, cluster_id: str | None, ids: Sequence[str]) -> str:
    """What a file says that is not so."""
    said = claim.said
    parts = []
    if said is not None and cluster_id is not None and len(ids) > 1 and claim.cluster_id not in (None, cluster_id):
        parts.append(f"cluster.id={said.cluster_id}, while most nodes' say {cluster_id}")
    if said is not None and claim.of_another_node:
        parts.append(f"node.id={said.node_id}, while it lies under node {claim.node_id}'s name")
    return " and ".join(parts)


def _why(claim: Claim, wrong: str, owners: Owners) -> str:
    """Why a log dir does not count, and what would make it count."""
    owner = owners.get(claim.said.directory_id or "") if claim.said is not None else None
    known = (
        f"its directory id is node {owner}'s" if owner is not None else "no metadata log here knows its directory id"
    )
    says = wrong or "another cluster.id"
    return f"its log dir is not taken for node {claim.node_id}'s: the file says {says}, and {known}"
