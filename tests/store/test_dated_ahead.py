"""The store on a real Postgres: snapshots that are dated in the future, told until somebody has seen to them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.store.helpers import rows
from tidegauge import store
from tidegauge.snapshots.catalogue import DatedAhead
from tidegauge.snapshots.manifest import LAST_INSTANT_MS

NOW_MS = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp() * 1000)


def claim(cluster: str, snapshot_id: str = "forged", **values: Any) -> DatedAhead:
    said: dict[str, Any] = {"place": f"/backup/{snapshot_id}", "claimed_at_ms": LAST_INSTANT_MS} | values
    return DatedAhead(cluster=cluster, snapshot_id=snapshot_id, believed_at_ms=NOW_MS, **said)


def kept(url: str, cluster: str) -> list[tuple[Any, ...]]:
    return rows(
        url,
        "SELECT opening, snapshot_id, met_by, times_met, is_open, settled_by FROM tidegauge.v_dated_ahead "
        "WHERE cluster = %s ORDER BY opening",
        cluster,
    )


def test_a_wrong_clock_is_one_row_until_somebody_settles_it_and_another_when_it_comes_back(
    url: str, cluster: str
) -> None:
    for night in ("monday", "tuesday"):
        store.note_dated_ahead(url, [claim(cluster, night)], met_by=f"/runs/{night}")
    assert kept(url, cluster) == [(1, "tuesday", "/runs/tuesday", 2, True, None)]
    assert store.settle_dated_ahead(url, cluster, by="sre", note="ntp was off") == 1
    assert store.settle_dated_ahead(url, cluster, by="sre") == 0
    assert kept(url, cluster) == [(1, "tuesday", "/runs/tuesday", 2, False, "sre")]
    store.note_dated_ahead(url, [claim(cluster)], met_by="/runs/friday")
    assert [row[:5] for row in kept(url, cluster)][1:] == [(2, "forged", "/runs/friday", 1, True)]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_last_millisecond_of_the_calendar_is_told_in_any_server_s_zone(url: str, cluster: str, zone: str) -> None:
    store.note_dated_ahead(url, [claim(cluster)], met_by="/runs/x")
    with store.connect(url, "tell its zone") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        (database,) = cursor.fetchone()
        cursor.execute(f'ALTER DATABASE "{database}" SET timezone TO %s', (zone,))
    try:
        (found,) = (each for each in store.dated_ahead(url) if each.cluster == cluster)
        assert found.claimed_at_utc == datetime(9999, 12, 31, 23, 59, 59, 999000)
        assert found.believed_at == datetime(2026, 11, 21, 12, tzinfo=UTC)
    finally:
        with store.connect(url, "tell its zone") as connection, connection.cursor() as cursor:
            cursor.execute(f'ALTER DATABASE "{database}" RESET timezone')


def test_names_of_any_characters_are_kept(url: str, cluster: str) -> None:
    odd = f"{cluster}\0'; DROP TABLE x; \udcff"
    store.note_dated_ahead(url, [claim(odd, "id\0\udcff", place=None)], met_by="/runs/\udcff")
    (found,) = (each for each in store.dated_ahead(url) if each.cluster.startswith(cluster))
    assert (found.snapshot_id, found.place, found.met_by) == ("id\u2400\\xff", None, "/runs/\\xff")
