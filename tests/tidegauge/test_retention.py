"""Run directories and snapshots: what is old goes, what is not ours or still needed stays."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.snapshots.test_removal import deep
from tests.store.helpers import audit
from tidegauge import store
from tidegauge.audit.future_snapshots import Met
from tidegauge.cli.retention import retain
from tidegauge.runs.run_lock import held
from tidegauge.snapshots.manifest import BrokerCapture, Consistency, Manifest, Mode, Source, to_json
from tidegauge.snapshots.removal import _Descent, removed

NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=30)


def run_directory(root: Path, name: str, run_id: str, cluster: str, *, days_ago: float) -> Path:
    directory = root / name / cluster
    (directory / "facts" / "replicas").mkdir(parents=True)
    (directory / "facts" / "replicas" / "part-0.parquet").write_bytes(b"x" * 1000)
    (directory / "run.json").write_text("{}")
    (directory / "report.json").write_text(json.dumps({"run": {"run_id": run_id, "cluster": cluster}}))
    at = (NOW - timedelta(days=days_ago)).timestamp()
    for path in (*directory.iterdir(), directory):
        os.utime(path, (at, at))
    return directory


def snapshot(root: Path, name: str, *, days_ago: float, text: str = "") -> Path:
    (root / name).mkdir(parents=True)
    (root / name / "MANIFEST.json").write_text(text)
    at = (NOW - timedelta(days=days_ago)).timestamp()
    os.utime(root / name / "MANIFEST.json", (at, at))
    return root / name


@pytest.fixture
def url(store_url: str) -> str:
    with store.connect(store_url, "begin anew") as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS tidegauge CASCADE")
    store.migrate(store_url)
    return store_url


def told(
    url: str,
    runs: Path,
    *,
    days: float = 10,
    facts_days: float = 5,
    snapshots: bool = False,
    dry_run: bool = False,
    say=lambda _: None,
):
    return list(
        retain(
            url,
            now=NOW,
            runs_before=NOW - timedelta(days=days),
            facts_before=NOW - timedelta(days=facts_days),
            runs_root=runs,
            with_snapshots=snapshots,
            dry_run=dry_run,
            pass_over=Met(say).pass_over,
        )
    )


def test_a_directory_stays_as_long_as_its_run_and_its_facts_do_not(url: str, tmp_path: Path) -> None:
    published = audit(url, "c", "s1", day=1)
    kept = run_directory(tmp_path, "a", published, "c", days_ago=20)
    look = run_directory(tmp_path, "b", "never-published", "c", days_ago=20)
    fresh = run_directory(tmp_path, "d", "another-look", "c", days_ago=1)
    (tmp_path / "somebody's").mkdir()
    before = told(url, tmp_path, dry_run=True)
    assert all(path.is_dir() for path in (kept / "facts", look, fresh))
    after = told(url, tmp_path)
    assert [line.replace("would be removed", "removed") for line in before] == after
    assert not look.exists()
    assert (kept / "report.json").exists()
    assert not (kept / "facts").exists()
    assert (fresh / "facts").exists()
    assert (tmp_path / "somebody's").exists()
    assert told(url, tmp_path) == after[:1]


def test_an_audit_that_is_not_done_keeps_its_facts(url: str, tmp_path: Path) -> None:
    """Without them it would find nothing, and that would be published."""
    audit(url, "c", "s1", day=1)
    held_one, queued, dead = (run_directory(tmp_path, name, name, "x", days_ago=6) for name in ("a", "b", "d"))
    for directory in (held_one, queued, dead):
        (directory / "report.json").unlink()
        (directory / "coverage.json").write_text("{}")
        (directory / "work").mkdir()
        at = (NOW - timedelta(days=0.5 if directory == queued else 6)).timestamp()
        for path in directory.iterdir():
            os.utime(path, (at, at))
    with held(held_one):
        told(url, tmp_path, facts_days=0)
        assert (held_one / "facts").exists(), "an audit is at work there"
        assert (queued / "facts").exists(), "its next step may be queued"
        assert not (dead / "facts").exists()
        assert not (dead / "coverage.json").exists(), "nobody judges what is left"
        told(url, tmp_path, days=5)
        assert held_one.exists()
        assert not dead.exists()
    told(url, tmp_path, days=5)
    assert not held_one.exists()


def test_facts_are_nobody_s_before_the_first_of_them_goes(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ends the command meanwhile leaves some of them."""
    directory = run_directory(tmp_path, "a", audit(url, "c", "s1", day=1), "c", days_ago=6)
    run_directory(tmp_path, "b", "newer", "c", days_ago=1)
    (directory / "coverage.json").write_text("{}")
    at = (NOW - timedelta(days=6)).timestamp()
    os.utime(directory / "coverage.json", (at, at))
    monkeypatch.setattr(_Descent, "to_the_end", broken_off)
    with pytest.raises(KeyboardInterrupt):
        told(url, tmp_path)
    assert (directory / "facts" / "replicas" / "part-0.parquet").exists()
    assert not (directory / "coverage.json").exists()


def broken_off(_: object) -> int:
    raise KeyboardInterrupt


def test_the_newest_directory_of_a_cluster_stays_whole(url: str, tmp_path: Path) -> None:
    audit(url, "c", "s1", day=1)
    older, newest = (run_directory(tmp_path, name, name, "c", days_ago=age) for name, age in (("a", 50), ("b", 40)))
    told(url, tmp_path)
    assert not older.exists()
    assert (newest / "facts").exists()


def test_old_snapshots_go_only_if_asked_and_the_newest_two_stay(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", str(tmp_path / "snapshots"))
    cluster = tmp_path / "snapshots" / "c"
    places = {name: snapshot(cluster, name, days_ago=age) for name, age in (("a", 50), ("b", 40), ("c", 30), ("d", 1))}
    (cluster / "unfinished").mkdir()
    os.link(places["a"] / "MANIFEST.json", places["d"] / "hard")
    told(url, tmp_path / "runs")
    assert all(place.exists() for place in places.values())
    (places["d"] / "soft").symlink_to(places["b"] / "MANIFEST.json")
    told(url, tmp_path / "runs", snapshots=True)
    assert sorted(p.name for p in cluster.iterdir()) == ["b", "c", "d", "unfinished"]
    assert (places["d"] / "hard").exists()
    (places["d"] / "soft").unlink()
    told(url, tmp_path / "runs", snapshots=True)
    assert sorted(p.name for p in cluster.iterdir()) == ["c", "d", "unfinished"]


def test_no_link_is_followed(url: str, tmp_path: Path) -> None:
    elsewhere = run_directory(tmp_path / "elsewhere", "x", "r", "c", days_ago=50)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(elsewhere.parent)
    told(url, tmp_path / "runs")
    assert (elsewhere / "facts").exists()


def dated(at: datetime) -> str:
    """A manifest that says so."""
    at_ms = int(at.timestamp() * 1000)
    broker = BrokerCapture(
        broker_id=1, directory="broker-1", rack=None, log_dirs=(), read_started_at_ms=at_ms,
        read_finished_at_ms=at_ms, files=(),
    )  # fmt: skip
    return to_json(
        Manifest(
            cluster="c", cluster_id=None, snapshot_id="s", source=Source.CAPTURED, mode=Mode.FULL,
            consistency=Consistency.FUZZY, brokers=(broker,), left_out=(),
        )
    )  # fmt: skip


def test_snapshots_dated_in_the_future_let_no_other_go(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", str(tmp_path / "snapshots"))
    cluster = tmp_path / "snapshots" / "c"
    for name, days in (("a", 50), ("b", 40), ("c", 30)):
        snapshot(cluster, name, days_ago=days, text=dated(NOW - timedelta(days=days)))
    for name in ("forged", "forged too"):
        snapshot(cluster, name, days_ago=1, text=dated(datetime(9999, 1, 1, tzinfo=UTC)))
    snapshot(cluster, "of a time to come", days_ago=-40_000)
    said: list[str] = []
    told(url, tmp_path / "runs", snapshots=True, say=said.append)
    assert sorted(p.name for p in cluster.iterdir()) == ["b", "c", "forged", "forged too", "of a time to come"]
    assert len(said) == 3
    assert any("forged is passed over: it is dated 9999-01-01 00:00:00 UTC, and here it is" in line for line in said)


@pytest.mark.slow
def test_a_snapshot_of_5000_levels_goes_and_one_with_links_in_a_circle_stays(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", str(tmp_path / "snapshots"))
    cluster = tmp_path / "snapshots" / "c"
    places = [snapshot(cluster, name, days_ago=age) for name, age in (("a", 50), ("b", 40), ("c", 30), ("d", 1))]
    deep(places[0] / "deep", 5000)
    deep(places[3] / "deep", 5000)
    (places[3] / "circle").symlink_to("circle")
    (cluster / "link").symlink_to(places[2])
    assert f"{places[0]} removed" in told(url, tmp_path / "runs", snapshots=True)
    assert not places[0].exists()
    assert (cluster / "link" / "MANIFEST.json").exists()
    removed(cluster, places[3])  # pytest could not
