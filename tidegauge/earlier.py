"""Which earlier snapshot `--previous auto` is: snapshots in, for each the one audited last before it.

In: the snapshots of an audit, the store. Out: snapshot -> earlier snapshot, for those that have one. The rule that must
hold: earlier is by the instant of capture, whatever the order in which snapshots were audited, so that an audit of an
old day compares with the day before it and not with today. What is gone, or cannot be compared, is passed over.

Candidates are the cluster's published runs, and the other snapshots of this very audit. A run says where its snapshot
lay; one that lies there no more is looked for under TIDEGAUGE_SNAPSHOTS/<cluster>/<snapshot id>.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from snapshots.adopt import Snapshot, open_snapshot
from snapshots.errors import SnapshotError
from snapshots.listing import listing
from snapshots.location import location
from snapshots.manifest import LeftOut
from spark_jobs.metadata_log import read_metadata
from spark_jobs.pairs import check_pair
from spark_jobs.store import connect, migrate
from tidegauge import settings

_AUDITED = """
SELECT DISTINCT ON (captured_at, snapshot_id) snapshot_id, place, captured_at FROM tidegauge.audit_run
WHERE cluster = %s AND status = 'published' AND snapshot_id <> %s AND captured_at < %s
ORDER BY captured_at DESC, snapshot_id DESC, published_at DESC
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A snapshot that was captured before."""

    captured_at: datetime
    snapshot_id: str
    place: str | None


def earlier_of(inputs: Sequence[str], *, url: str, cluster: str | None, say: Callable[[str], None]) -> dict[str, str]:
    """Input -> directory or URL of the snapshot to compare it with. Raises `SnapshotError`, `StoreError`."""
    migrate(url)
    opened = {given: open_snapshot(location(given), cluster=cluster) for given in inputs}
    captured = {given: captured_at(snapshot) for given, snapshot in opened.items()}
    found: dict[str, str] = {}
    for given, snapshot in opened.items():
        at = captured[given]
        beside = [
            _Candidate(captured_at=when, snapshot_id=other.manifest.snapshot_id, place=name)
            for name, other in opened.items()
            if other.manifest.cluster == snapshot.manifest.cluster
            and at is not None
            and (when := captured[name]) is not None
            and when < at
        ]
        audited = list(_audited(url, snapshot, at))
        every = sorted([*beside, *audited], key=lambda c: (c.captured_at, c.snapshot_id), reverse=True)
        place = next((place for c in every if (place := _comparable(snapshot, c)) is not None), None)
        name = f"{snapshot.manifest.cluster}/{snapshot.manifest.snapshot_id}"
        if place is not None:
            found[given] = place
            say(f"{name} is compared with {place}")
        elif every:
            say(f"{name} is compared with nothing: none of the {len(every)} earlier snapshots is there to compare with")
        else:
            say(f"{name} is compared with nothing: no earlier snapshot of the cluster has been audited")
    return found


def captured_at(snapshot: Snapshot) -> datetime | None:
    """When a snapshot was captured: by its manifest, else by the last record of its metadata log."""
    finished = [b.read_finished_at_ms for b in snapshot.manifest.brokers if b.read_finished_at_ms is not None]
    unread: list[LeftOut] = []
    at = max(finished, default=None)
    if at is None:
        at = read_metadata(snapshot.root, listing(snapshot.manifest), unread).history.last_record_at_ms
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC)


def _audited(url: str, snapshot: Snapshot, before: datetime | None) -> Iterator[_Candidate]:
    """The cluster's audited snapshots, the newest first."""
    if before is None:
        return  # Of a copy that does not tell its instant, no other can be said to be the earlier one.
    manifest = snapshot.manifest
    with connect(url, "look for the last audited snapshot") as connection, connection.cursor() as cursor:
        cursor.execute(_AUDITED, (manifest.cluster, manifest.snapshot_id, before))
        for snapshot_id, place, at in cursor.fetchall():
            yield _Candidate(captured_at=at, snapshot_id=snapshot_id, place=place)


def _comparable(snapshot: Snapshot, candidate: _Candidate) -> str | None:
    """Where the candidate lies, if it is there and of one history with the snapshot."""
    cluster = snapshot.manifest.cluster
    places = [candidate.place, str(location(settings.snapshots_root()) / cluster / candidate.snapshot_id)]
    for place in filter(None, places):
        with suppress(SnapshotError):
            earlier = open_snapshot(location(place), cluster=cluster)
            if earlier.manifest.snapshot_id == candidate.snapshot_id:
                check_pair(snapshot.manifest, earlier.manifest)
                return place
    return None
