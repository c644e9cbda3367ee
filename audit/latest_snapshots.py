"""Which snapshot is meant: `latest` or `all`, a cluster and instants in, snapshots below TIDEGAUGE_SNAPSHOTS out.

Without instants, `latest` is the newest by the moment its manifest was written, which is the last thing that makes a
snapshot; in an object store that is when the store took it. With instants, what counts is when a snapshot was captured,
as it says itself, whenever it was copied here: so a backfill of a day finds that day's own. TIDEGAUGE_SNAPSHOTS may be
a directory or a URL.

The rules that must hold: an interval is `since <= captured < before`, so that every snapshot is in exactly one of
adjoining intervals; a day without a snapshot is an error, never another day's; and what is dated in the future is no
cluster's newest, since it would be for as long as that is. `all` names it all the same: an audit refuses it, by name.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

from tidegauge import settings
from tidegauge.audit.future_snapshots import Met
from tidegauge.snapshots.adopt import Snapshot
from tidegauge.snapshots.catalogue import Dated, PassOver, dated, manifests, newest, until
from tidegauge.snapshots.catalogue import captured_at as captured_by_manifest
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.listing import listing
from tidegauge.snapshots.location import Location, location
from tidegauge.snapshots.manifest import MANIFEST_NAME, LeftOut
from tidegauge.snapshots.settled import settled

LATEST: Final = "latest"
ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Instants that limit a choice, ISO 8601; none is no limit. `as_of` includes its instant, `before` does not."""

    since: str | None = None
    before: str | None = None
    as_of: str | None = None

    def __str__(self) -> str:
        limits = (("since", self.since), ("before", self.before), ("by", self.as_of))
        return "".join(f" {word} {instant}" for word, instant in limits if instant)


ANY_TIME: Final = When()


def resolve(snapshot: str, cluster: str | None, *, as_of: str | None = None, now: datetime | None = None) -> str:
    """The directory or URL that `snapshot` names; for `latest`, the cluster's newest (as of an ISO 8601 instant, if one
    is given). Raises `SnapshotError`.
    """
    return resolve_all((snapshot,), cluster, When(as_of=as_of), now=now)[0]


def resolve_all(
    given: Sequence[str],
    cluster: str | None,
    when: When = ANY_TIME,
    *,
    root: str | None = None,
    now: datetime | None = None,
    pass_over: PassOver | None = None,
) -> tuple[str, ...]:
    """Directories and URLs as they are named; for `latest` the cluster's newest, for `all` every one of the interval,
    in the order of their capture. `root`: where to look instead of TIDEGAUGE_SNAPSHOTS; `now`: what is dated later, by
    more than clocks differ, is not the newest, and `pass_over` hears of it; by default it is said. Raises
    `SnapshotError`.
    """
    at = now or datetime.now(UTC)
    hears = pass_over or Met().pass_over
    return tuple(place for name in given for place in _places(name, cluster, when, root, at, hears))


def _places(
    name: str, cluster: str | None, when: When, root: str | None, now: datetime, pass_over: PassOver
) -> list[str]:
    if name not in (LATEST, ALL):
        return [name]
    if not cluster:
        raise SnapshotError(f"`{name}` needs the cluster's name: --cluster NAME.")
    directory = location(root or settings.snapshots_root()) / cluster
    since, before, as_of = (instant(w) for w in (when.since, when.before, when.as_of))
    if name == LATEST and not str(when):
        last = newest(directory, now=now, pass_over=pass_over, captured=captured_at)
        found = [] if last is None else [last]
    else:
        chosen = captured(directory, since=since, before=before, as_of=as_of)
        taken = islice(until(now, chosen, pass_over), 1) if name == LATEST else chosen
        found = [place for _, place in taken]
    if not found:
        raise SnapshotError(
            f"No snapshot of {cluster} in {directory}{f', captured{when}' if str(when) else ''}. Name one, or put one "
            f"there: a directory with a {MANIFEST_NAME} (`tidegauge capture` and `tidegauge snapshot adopt` write it). "
            "TIDEGAUGE_SNAPSHOTS says where they are."
        )
    return [str(place) for place in reversed(found)]


def instant(given: str | None) -> datetime | None:
    """An instant; without a zone it is the machine's own time."""
    if not given:
        return None
    try:
        return datetime.fromisoformat(given).astimezone(UTC)
    except (OverflowError, ValueError) as error:  # its zone may lead out of the calendar
        raise SnapshotError(f"{given} is no instant ({error}). Write it like 2026-11-21T03:00:00Z.") from error


def captured_at(snapshot: Snapshot) -> datetime | None:
    """When a snapshot was captured: by its manifest, else by the last record of its metadata log."""
    from tidegauge.derivation.metadata.metadata_log import read_metadata

    told = captured_by_manifest(snapshot)
    if told is not None:
        return told
    unread: list[LeftOut] = []
    manifest = settled(snapshot.root, snapshot.manifest)
    at = read_metadata(snapshot.root, listing(manifest), unread).history.last_record_at_ms
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC)


def captured(
    directory: Location,
    *,
    since: datetime | None = None,
    before: datetime | None = None,
    as_of: datetime | None = None,
) -> Iterator[Dated]:
    """A cluster's snapshots with the instant of their capture, the newest first, those of the future among them.

    An object store notes when it was given a manifest, which was captured before: there, manifests are read from the
    last one down, and no more of them than it takes to know the next newest.
    """
    is_dated = not isinstance(directory, Path)
    waiting: list[tuple[float, str]] = []
    for written, name in sorted(manifests(directory), reverse=True):
        if is_dated and since is not None and written < since.timestamp():
            break
        while is_dated and waiting and -waiting[0][0] >= written:
            yield _popped(waiting, directory)
        at = dated(directory / name, written, captured_at)[0].timestamp()
        too_early = since is not None and at < since.timestamp()
        too_late = (before is not None and at >= before.timestamp()) or (as_of is not None and at > as_of.timestamp())
        if not too_early and not too_late:
            heapq.heappush(waiting, (-at, name))
    while waiting:
        yield _popped(waiting, directory)


def _popped(waiting: list[tuple[float, str]], directory: Location) -> Dated:
    at, name = heapq.heappop(waiting)
    return datetime.fromtimestamp(-at, UTC), directory / name
