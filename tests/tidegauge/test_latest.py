"""`latest` is the newest snapshot that has a manifest."""

import os
from datetime import UTC, datetime

import pytest

from kafka_log.types import BrokerId
from snapshots.errors import SnapshotError
from snapshots.manifest import MANIFEST_NAME, BrokerCapture, Consistency, Manifest, Mode, Source, to_json
from tidegauge.latest import When, resolve, resolve_all


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
        at = int(datetime(2026, 1, day, hour, tzinfo=UTC).timestamp() * 1000)
        broker = BrokerCapture(
            broker_id=BrokerId(1), directory="broker-1", rack=None, log_dirs=(), read_started_at_ms=at,
            read_finished_at_ms=at, files=(),
        )  # fmt: skip
        manifest = Manifest(
            cluster="prod", cluster_id=None, snapshot_id=name, source=Source.CAPTURED, mode=Mode.FULL,
            consistency=Consistency.FUZZY, brokers=(broker,), left_out=(),
        )  # fmt: skip
        (tmp_path / "prod" / name).mkdir(parents=True)
        (tmp_path / "prod" / name / MANIFEST_NAME).write_text(to_json(manifest), encoding="utf-8")
    return tmp_path / "prod"


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
