"""Two snapshots of one cluster: whether the one is an earlier state of the other.

In: their manifests, and what was gathered of both. Out: nothing, or a `SnapshotError` that says why they cannot be
compared. Two snapshots are compared only if what is the same in both has the same name.
"""

from collections.abc import Mapping

from tidegauge.snapshots.catalogue import finished_at_ms
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import Manifest


def check_pair(manifest: Manifest, previous: Manifest) -> None:
    """By what the manifests say. Raises `SnapshotError`."""
    now, then = _name(manifest), _name(previous)
    if now == then:
        raise SnapshotError(f"--previous names {then} itself. Name an earlier snapshot of that cluster.")
    ids = (manifest.cluster_id, previous.cluster_id)
    same = ids[0] == ids[1] if None not in ids else manifest.cluster == previous.cluster
    if not same and None in ids:
        unnamed = " and ".join(name for name, known in ((then, ids[1]), (now, ids[0])) if known is None)
        raise SnapshotError(
            f"It is not known whether {then} and {now} are of one cluster: no meta.properties of {unnamed} names a "
            "cluster.id. Copy meta.properties too, or, if you know that they are, name the cluster with --cluster."
        )
    if not same:
        raise SnapshotError(
            f"{then} is of cluster {previous.cluster_id or previous.cluster}, and {now} of cluster "
            f"{manifest.cluster_id or manifest.cluster}: they have no history in common. Name an earlier snapshot of "
            "the same cluster with --previous."
        )
    if manifest.hashed_topics != previous.hashed_topics:
        raise SnapshotError(
            f"Only one of {then} and {now} has its topics' names hashed, so they cannot be matched. Compare snapshots "
            "that were both captured with --hash-topics, or both without."
        )
    finished, finished_before = finished_at_ms(manifest), finished_at_ms(previous)
    if finished is not None and finished_before is not None:
        check_order(now, finished, then, finished_before)


def check_order(name: str, captured_at_ms: int | None, previous: str, previous_at_ms: int | None) -> None:
    """By the instants at which they were captured, as far as known. Raises `SnapshotError`."""
    if captured_at_ms is not None and previous_at_ms is not None and previous_at_ms > captured_at_ms:
        raise SnapshotError(
            f"{previous} was captured after {name}, so it is not an earlier snapshot. Swap the two: audit "
            f"{previous}, with --previous {name}."
        )


def check_topic_names(name: str, topics: Mapping[str, str], previous: str, previous_topics: Mapping[str, str]) -> None:
    """By their topics' names by id: a name's hash is the same in both only if its key was. Raises `SnapshotError`."""
    renamed = [i for i in topics.keys() & previous_topics.keys() if topics[i] != previous_topics[i]]
    if renamed:
        raise SnapshotError(
            f"{len(renamed)} topics have another name in {previous} than in {name}: their names were hashed with "
            "different keys. Capture both with the same `--hash-key FILE` to compare them."
        )


def _name(manifest: Manifest) -> str:
    return f"{manifest.cluster}/{manifest.snapshot_id}"


def is_timed(manifest: Manifest) -> bool:
    """Whether the manifest says when it was captured."""
    return finished_at_ms(manifest) is not None
