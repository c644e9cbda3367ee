"""Refused snapshots on the console: another cluster's, and those that are dated in the future."""

import httpx
import pytest

from tests.console.test_pages import LINKS, page, text_of
from tests.store.helpers import audit
from tests.store.test_dated_ahead import claim
from tests.store.test_identity import OURS, audited
from tidegauge import store
from tidegauge.snapshots.errors import SnapshotError


@pytest.mark.slow
def test_a_refused_snapshot_is_told_on_the_fleet_and_on_its_cluster_until_somebody_settles_it(
    console: httpx.Client, filled_store: str
) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    audited(filled_store, "refusing", "s1", cluster_id=OURS)
    with pytest.raises(SnapshotError):
        audited(filled_store, "refusing", "forged", cluster_id=hostile, day=1)
    for path in ("/", LINKS.cluster("refusing")):
        markup = page(console, path)
        assert f"bears the name refusing and is of cluster.id {hostile} , where {OURS} is known" in text_of(markup)
        assert "<script>alert(1)" not in markup
        rows = console.get(f"{path.rstrip('/')}/figures/refused.json").json()["rows"]
        assert [(row["snapshot_id"], row["refusals"]) for row in rows] == [("forged", 1)]
    assert "Refused snapshots" not in page(console, LINKS.cluster("production"))
    store.settle(filled_store, "refusing", hostile, "not_ours", by="ada")
    assert "Refused snapshots" not in page(console, "/")


@pytest.mark.slow
def test_a_snapshot_of_the_future_is_told_on_the_fleet_its_cluster_and_in_metrics_until_somebody_settles_it(
    console: httpx.Client, filled_store: str
) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    audit(filled_store, "early", "s1")
    store.note_dated_ahead(filled_store, [claim("early", hostile)], met_by="/runs/1")
    for path in ("/", LINKS.cluster("early")):
        markup = page(console, path)
        told = f"{hostile} of early says that it was captured at 9999-12-31 23:59 UTC, and it was"
        assert told in text_of(markup)
        assert "<script>alert(1)" not in markup
        rows = console.get(f"{path.rstrip('/')}/figures/dated-ahead.json").json()["rows"]
        assert [(row["snapshot_id"], row["times_met"], row["met_by"]) for row in rows] == [(hostile, 1, "/runs/1")]
    metrics = console.get("/metrics").text
    assert 'tidegauge_open_refusals{cluster="early",reason="dated_ahead"} 1.0' in metrics
    assert 'tidegauge_open_refusals{cluster="early",reason="other_cluster"} 0.0' in metrics
    store.settle_dated_ahead(filled_store, "early", by="ada")
    assert "dated in the future" not in page(console, "/")
    assert 'tidegauge_open_refusals{cluster="early",reason="dated_ahead"} 0.0' in console.get("/metrics").text
