"""Which earlier snapshot `--previous auto` is: snapshots in, for each the one audited last before it.

In: the snapshots of an audit, the store. Out: snapshot -> earlier snapshot, for those that have one. Which is
earlier is decided by the instant of capture, whatever the order of audits, so that an audit of an old day compares with
the day before it and not with today. What is gone, or cannot be compared, is passed over.

Candidates are the cluster's published runs, and the other snapshots of this very audit: what became of a snapshot that
nobody audited is told by the next one that is. A backfill audits every interval, at once and in whatever order, so
there (`since`) they are the snapshots captured before the interval, audited or not, and each interval is compared with
what the one before it has last. A run says where its snapshot lay; one that lies there no more is looked for where the
others of its cluster are.
"""

import errno
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegauge import settings
from tidegauge.audit.future_snapshots import Met
from tidegauge.audit.latest_snapshots import captured, captured_at
from tidegauge.runs.pairs import check_pair
from tidegauge.snapshots.adopt import Snapshot, open_snapshot
from tidegauge.snapshots.catalogue import dated_ahead, is_in_future
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location, location
from tidegauge.snapshots.signing import Trusted
from tidegauge.store import connect, migrate

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


def earlier_of(
    inputs: Sequence[str],
    *,
    url: str,
    cluster: str | None,
    say: Callable[[str], None],
    root: str | None = None,
    since: datetime | None = None,
    trusted: Trusted | None = None,
    now: datetime | None = None,
    met: Met | None = None,
) -> dict[str, str]:
    """Input -> directory or URL of the snapshot to compare it with, for those that can be opened. Raises `StoreError`.

    `root`: where the cluster's snapshots lie; by default TIDEGAUGE_SNAPSHOTS. `since`: when the interval begins that
    these snapshots stand for. `trusted`: by whose keys they have to be signed. `now`: what is dated later, by more than
    clocks differ, is nobody's earlier one; `met` hears of it, and of such a one among the snapshots themselves.
    """
    home = location(root or settings.snapshots_root())
    here = now or datetime.now(UTC)
    heard = met or Met(say)
    migrate(url)
    opened = {}
    for given in inputs:
        with suppress(SnapshotError):  # Raised again, and told, where the snapshot itself is to be audited.
            opened[given] = open_snapshot(location(given), cluster=cluster, trusted=trusted)
    captured = {given: captured_at(snapshot) for given, snapshot in opened.items()}
    found: dict[str, str] = {}
    for given, snapshot in opened.items():
        at, manifest = captured[given], snapshot.manifest
        if at is not None and is_in_future(at, here):  # Of a plain copy nobody else tells before it is read.
            heard.add(dated_ahead(manifest.cluster, manifest.snapshot_id, str(snapshot.root), at, here))
        if since is None:
            known = [*_beside(at, snapshot, opened, captured), *_audited(url, snapshot, at)]
            lying: Iterator[_Candidate] = iter(())
        else:
            known = list(_audited(url, snapshot, since))
            lying = _lying(home, snapshot, since)
        known.sort(key=_newest_last, reverse=True)
        seen = set()
        name = f"{manifest.cluster}/{manifest.snapshot_id}"
        for candidate in heapq.merge(known, lying, key=_newest_last, reverse=True):
            if is_in_future(candidate.captured_at, here):
                at_there = candidate.captured_at
                heard.pass_over(dated_ahead(manifest.cluster, candidate.snapshot_id, candidate.place, at_there, here))
                continue
            seen.add(candidate.snapshot_id)
            if (place := _comparable(snapshot, candidate, home, trusted)) is not None:
                found[given] = place
                say(f"{name} is compared with {place}")
                break
        else:
            why = f"none of the {len(seen)} earlier snapshots is there to compare with"
            say(f"{name} is compared with nothing: {why if seen else 'no earlier snapshot of the cluster is known'}")
    return found


def _beside(
    at: datetime | None,
    snapshot: Snapshot,
    opened: Mapping[str, Snapshot],
    captured: Mapping[str, datetime | None],
) -> Iterator[_Candidate]:
    """Of the snapshots that are audited together, those of the same cluster that were captured before."""
    for name, other in opened.items():
        when = captured[name]
        if other.manifest.cluster == snapshot.manifest.cluster and at is not None and when is not None and when < at:
            yield _Candidate(captured_at=when, snapshot_id=other.manifest.snapshot_id, place=name)


def _newest_last(candidate: _Candidate) -> tuple[datetime, str]:
    return candidate.captured_at, candidate.snapshot_id


def _lying(home: Location, snapshot: Snapshot, before: datetime) -> Iterator[_Candidate]:
    """The cluster's snapshots below the snapshots directory that were captured earlier, the newest first."""
    manifest = snapshot.manifest
    for at, place in captured(home / manifest.cluster, before=before):
        if place.name != manifest.snapshot_id:
            yield _Candidate(captured_at=at, snapshot_id=place.name, place=str(place))


def _audited(url: str, snapshot: Snapshot, before: datetime | None) -> Iterator[_Candidate]:
    """The cluster's audited snapshots, the newest first."""
    if before is None:
        return  # Of a copy that does not tell its instant, no other can be said to be the earlier one.
    manifest = snapshot.manifest
    with connect(url, "look for the last audited snapshot") as connection, connection.cursor() as cursor:
        cursor.execute(_AUDITED, (manifest.cluster, manifest.snapshot_id, before))
        for snapshot_id, place, at in cursor.fetchall():
            yield _Candidate(captured_at=at, snapshot_id=snapshot_id, place=place)


def _comparable(snapshot: Snapshot, candidate: _Candidate, home: Location, trusted: Trusted | None) -> str | None:
    """Where the candidate lies, if it is there, signed as it has to be, and of one history with the snapshot."""
    cluster = snapshot.manifest.cluster
    places = [candidate.place, str(home / cluster / candidate.snapshot_id)]
    for place in filter(None, places):
        try:
            earlier = open_snapshot(location(place), cluster=cluster, trusted=trusted)
            if earlier.manifest.snapshot_id == candidate.snapshot_id:
                check_pair(snapshot.manifest, earlier.manifest)
                return place
        except SnapshotError:
            continue
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:  # That is of a name which a manifest made up: nothing lies there.
                raise
    return None
