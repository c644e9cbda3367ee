"""Snapshots that are dated in the future: what was met of them in, what somebody is told until it is settled out.

The rules that must hold: a cluster has one open row, however many such snapshots it has and however often they are met,
so that a wrong clock is told once and not every night; nothing but somebody's word ends it, since no later audit tells
whether the clock was wrong or the date made up.
"""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from tidegauge.snapshots.catalogue import DatedAhead
from tidegauge.snapshots.manifest import as_text
from tidegauge.store.connection import by_column, connect
from tidegauge.store.rows import text_value

_NOTE: Final = """
WITH last AS (
    SELECT coalesce(max(opening), 0) AS opening, coalesce(bool_or(settled_at IS NULL), false) AS is_open
    FROM tidegauge.dated_ahead WHERE cluster = %(cluster)s
)
INSERT INTO tidegauge.dated_ahead AS d
    (cluster, opening, snapshot_id, place, claimed_at, believed_at, met_by, began_at, met_at, times_met)
SELECT %(cluster)s, opening + (NOT is_open)::integer, %(snapshot_id)s, %(place)s, %(claimed_at)s, %(believed_at)s,
       %(met_by)s, clock_timestamp(), clock_timestamp(), 1 FROM last
ON CONFLICT (cluster, opening) DO UPDATE SET snapshot_id = excluded.snapshot_id, place = excluded.place,
    claimed_at = excluded.claimed_at, believed_at = excluded.believed_at, met_by = excluded.met_by,
    met_at = excluded.met_at, times_met = d.times_met + 1
"""
_OPEN: Final = """
SELECT cluster, snapshot_id, place, claimed_at_utc, believed_at, met_by, met_at, times_met FROM tidegauge.v_dated_ahead
WHERE is_open ORDER BY cluster
"""
_SETTLE: Final = """
UPDATE tidegauge.dated_ahead SET settled_at = clock_timestamp(), settled_by = %(by)s, note = %(note)s
WHERE cluster = %(cluster)s AND settled_at IS NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDatedAhead:
    """A cluster with snapshots that are dated in the future, of which nobody has said why; the last one's words.

    `claimed_at_utc` has no zone, as no calendar has a later year than the one it may name.
    """

    cluster: str
    snapshot_id: str
    place: str | None
    claimed_at_utc: datetime
    believed_at: datetime
    met_by: str
    met_at: datetime
    times_met: int


def note_dated_ahead(url: str, met: Iterable[DatedAhead], *, met_by: str) -> None:
    """Keeps what was met. Raises `StoreError`."""
    with connect(url, "keep which snapshots are dated in the future") as connection, connection.cursor() as cursor:
        for each in met:
            values = {
                "cluster": text_value(as_text(each.cluster)),
                "snapshot_id": text_value(as_text(each.snapshot_id)),
                "place": None if each.place is None else text_value(as_text(each.place)),
                "claimed_at": _instant(each.claimed_at_ms),
                "believed_at": _instant(each.believed_at_ms),
                "met_by": text_value(as_text(met_by)),
            }
            cursor.execute(_NOTE, values)


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at_ms)


def dated_ahead(url: str) -> tuple[OpenDatedAhead, ...]:
    """What nobody has settled. Raises `StoreError`."""
    with connect(url, "tell which snapshots are dated in the future") as connection, connection.cursor() as cursor:
        cursor.execute(_OPEN)
        return tuple(OpenDatedAhead(**row) for row in by_column(cursor))


def settling_date(cluster: str) -> str:
    """The command by which somebody says that it was seen to."""
    return f"tidegauge store settle {shlex.quote(cluster)} --dated-ahead --by NAME"


def settle_dated_ahead(url: str, cluster: str, *, by: str, note: str = "") -> int:
    """Says that somebody has seen to it; what is met after that is told anew. How many are over by that. Raises
    `StoreError`.
    """
    told = {"cluster": cluster, "by": by, "note": note}
    with connect(url, f"settle the dates of {cluster}") as connection, connection.cursor() as cursor:
        cursor.execute(_SETTLE, told)
        return int(cursor.rowcount)
