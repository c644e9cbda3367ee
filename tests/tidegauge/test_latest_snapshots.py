"""`latest` is the newest snapshot that has a manifest."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from tidegauge.audit.future_snapshots import Met
from tidegauge.audit.latest_snapshots import When, resolve, resolve_all
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import MANIFEST_NAME, BrokerCapture, Consistency, Manifest, Mode, Source, to_json


@pytest.fixture
def root(monkeypatch, tmp_path):
    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", str(tmp_path))
    for age, name in enumerate(("c", "a", "b")):
        directory = tmp_path / "prod" / name
        directory.mkdir(parents=True)
        (directory / "MANIFEST.json").touch()
        os.utime(directory / "MANIFEST.json", (1000 - age, 1000 - age))
    (tmp_path / "prod" / "unfinished").mkdir()
    return tmp_path


def test_the_newest_manifest_wins_whatever_its_name(root):
    assert resolve("latest", "prod") == str(root / "prod" / "c")


def test_a_path_is_a_path(root):
    assert resolve("some/where", "prod") == "some/where"


@pytest.mark.parametrize("cluster", ["other", None])
def test_nothing_to_choose_from_is_a_snapshot_error(root, cluster):
    with pytest.raises(SnapshotError):
        resolve("latest", cluster)


def test_as_of_an_earlier_instant_later_ones_do_not_count(root):
    assert resolve("latest", "prod", as_of="1970-01-01T00:16:39Z") == str(root / "prod" / "a")
    assert resolve("latest", "prod", as_of="") == str(root / "prod" / "c")
    with pytest.raises(SnapshotError, match=r"by 1970-01-01T00:00:00\+00:00"):
        resolve("latest", "prod", as_of="1970-01-01T00:00:00+00:00")
    with pytest.raises(SnapshotError, match="no instant"):
        resolve("latest", "prod", as_of="yesterday")


@pytest.fixture
def days(monkeypatch, tmp_path):
    """Three days of January with a snapshot each (the second has two), all copied here today."""
    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", str(tmp_path))
    for name, day, hour in (("c", 1, 3), ("a", 2, 3), ("d", 2, 23), ("b", 3, 0)):
        dated(tmp_path / "prod" / name, datetime(2026, 1, day, hour, tzinfo=UTC))
    return tmp_path / "prod"


def dated(directory, instant):
    at = int(instant.timestamp() * 1000)
    broker = BrokerCapture(
        broker_id=1, directory="broker-1", rack=None, log_dirs=(), read_started_at_ms=at,
        read_finished_at_ms=at, files=(),
    )  # fmt: skip
    manifest = Manifest(
        cluster="prod", cluster_id=None, snapshot_id=directory.name, source=Source.CAPTURED, mode=Mode.FULL,
        consistency=Consistency.FUZZY, brokers=(broker,), left_out=(),
    )  # fmt: skip
    directory.mkdir(parents=True)
    (directory / MANIFEST_NAME).write_text(to_json(manifest), encoding="utf-8")


def of_day(day):
    return When(since=f"2026-01-0{day}T00:00:00+00:00", before=f"2026-01-0{day + 1}T00:00:00+00:00")


def test_a_day_s_snapshot_is_the_newest_captured_on_it_whenever_it_was_copied_here(days):
    found = {day: resolve_all(("latest",), "prod", of_day(day)) for day in (1, 2, 3)}
    assert found == {1: (str(days / "c"),), 2: (str(days / "d"),), 3: (str(days / "b"),)}
    assert resolve_all(("all",), "prod", of_day(2)) == (str(days / "a"), str(days / "d"))
    assert resolve_all(("all",), "prod") == tuple(str(days / name) for name in "cadb")


def test_a_day_without_a_snapshot_is_an_error_that_names_it(days):
    with pytest.raises(SnapshotError, match=r"No snapshot of prod .*, captured since 2026-01-04.* before 2026-01-05"):
        resolve_all(("latest",), "prod", of_day(4))


def test_another_root_may_be_named(days, tmp_path):
    with pytest.raises(SnapshotError, match=f"{tmp_path}/elsewhere"):
        resolve_all(("latest",), "prod", root=str(tmp_path / "elsewhere"))


NOW = datetime(2026, 1, 4, tzinfo=UTC)


@pytest.mark.parametrize("ahead", [timedelta(hours=2), timedelta(days=365 * 7000)], ids=["two hours", "ages"])
@pytest.mark.parametrize("when", [When(), When(since="2026-01-01T00:00:00Z")], ids=["newest", "of an interval"])
def test_what_is_dated_in_the_future_is_never_the_latest_and_is_told(days, when, ahead):
    last = resolve_all(("latest",), "prod", when, now=NOW)
    dated(days / "forged", NOW + ahead)
    said = []
    assert resolve_all(("latest",), "prod", when, now=NOW, pass_over=Met(said.append).pass_over) == last
    assert len(said) == 1
    assert f"{days / 'forged'} is passed over: it is dated" in said[0]
    assert "and here it is 2026-01-04 00:00:00 UTC" in said[0]
    every = resolve_all(("all",), "prod", when, now=NOW, pass_over=Met(said.append).pass_over)
    assert str(days / "forged") in every, "an audit refuses it by its name"


def test_clocks_may_differ_a_little(days):
    dated(days / "ahead", NOW + timedelta(minutes=30))
    assert resolve("latest", "prod", now=NOW) == str(days / "ahead")


def test_where_all_are_of_the_future_there_is_none(tmp_path):
    dated(tmp_path / "prod" / "forged", NOW + timedelta(days=1))
    with pytest.raises(SnapshotError, match="No snapshot of prod"):
        resolve_all(("latest",), "prod", root=str(tmp_path), now=NOW, pass_over=lambda _: None)
