"""A cluster's snapshots, as they lie in its directory: when each was written, and which one is the newest.

In: a cluster's directory or prefix, the time. Out: places. The rule that must hold: what is dated in the future is no
cluster's newest, since it would be for as long as that is; whoever asks hears of it. When a plain copy was captured its
logs say, which are not read here: `audit.latest_snapshots` does that.
"""

import errno
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tidegauge.snapshots.adopt import Snapshot, open_snapshot
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import LAST_INSTANT_MS, MANIFEST_NAME, Manifest

CLOCKS_APART_MS: Final = 3_600_000
"""How far the clock of who captured a snapshot may be ahead of the auditor's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedAhead:
    """A snapshot that is dated in the future: what it claims, and what time it was where that was met."""

    cluster: str
    snapshot_id: str
    place: str | None
    claimed_at_ms: int
    believed_at_ms: int


PassOver = Callable[[DatedAhead], None]
"""Hears of each snapshot that is passed over, since it is dated in the future."""
Dated = tuple[datetime, Location]
"""A snapshot, with the instant of its capture."""
CapturedAt = Callable[[Snapshot], datetime | None]
"""Tells when a snapshot was captured, if anything does."""


def finished_at_ms(manifest: Manifest) -> int | None:
    """When the last broker of a capture had been read; None for a plain copy."""
    instants = (b.read_finished_at_ms for b in manifest.brokers)
    return max((at for at in instants if at is not None), default=None)


def captured_at(snapshot: Snapshot) -> datetime | None:
    """When a snapshot was captured, by its manifest; None for a plain copy."""
    at = finished_at_ms(snapshot.manifest)
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC)


def dated(place: Location, written: float, captured: CapturedAt = captured_at) -> Dated:
    """A snapshot with its instant; one that cannot be opened counts as of its manifest, and is told of when used.
    `written`: when that was.
    """
    try:
        at = captured(open_snapshot(place, settle=False))
    except SnapshotError:
        at = None
    # A file's time may be one that no calendar has.
    return datetime.fromtimestamp(min(written, LAST_INSTANT_MS / 1000), UTC) if at is None else at, place


def newest(
    directory: Location, *, now: datetime, pass_over: PassOver, captured: CapturedAt = captured_at
) -> Location | None:
    """The newest snapshot in a cluster's directory, by when it was written; None if it has none."""
    written = sorted(manifests(directory), reverse=True)
    instants = (dated(directory / name, at, captured) for at, name in written)
    _, found = next(until(now, instants, pass_over), (None, None))
    return found


def manifests(root: Location) -> Iterator[tuple[float, str]]:
    """When each snapshot below was finished, and its directory's name."""
    try:
        if not root.is_dir():
            return
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return  # A cluster's name that a manifest made up: nothing can lie there.
        raise
    for directory in root.iterdir():
        try:
            finished_at = (directory / MANIFEST_NAME).stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):
            continue  # Not a snapshot yet.
        yield finished_at, directory.name


def until(now: datetime, snapshots: Iterable[Dated], pass_over: PassOver) -> Iterator[Dated]:
    """Those that are not dated in the future. Of the others it is told by the names of their directories: what else
    they say of themselves is as little known as their date.
    """
    for at, place in snapshots:
        if is_in_future(at, now):
            pass_over(dated_ahead(place.parent.name, place.name, str(place), at, now))
        else:
            yield at, place


def dated_ahead(cluster: str, snapshot_id: str, place: str | None, at: datetime, now: datetime) -> DatedAhead:
    """What such a snapshot claims, and what is believed."""
    return DatedAhead(
        cluster=cluster, snapshot_id=snapshot_id, place=place, claimed_at_ms=_ms(at), believed_at_ms=_ms(now)
    )


def is_in_future(at: datetime, now: datetime) -> bool:
    """Whether a snapshot is dated so far ahead that no audit takes it."""
    return is_ahead(_ms(at), now_ms=_ms(now))


def is_ahead(at_ms: int, *, now_ms: int) -> bool:
    """Whether what is dated so is dated in the future, by more than clocks may differ."""
    return at_ms > now_ms + CLOCKS_APART_MS


def passed_over(claim: DatedAhead) -> str:
    """What to say of one that others are taken instead of."""
    return (
        f"{claim.place or claim.snapshot_id} is passed over: it is dated {as_text(claim.claimed_at_ms)}, and here "
        f"it is {as_text(claim.believed_at_ms)}. Set the clock that is wrong, or remove the snapshot."
    )


def as_text(at_ms: int) -> str:
    """An instant as a message has it, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
