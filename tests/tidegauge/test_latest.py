"""`latest` is the newest snapshot that has a manifest."""

import os

import pytest

from snapshots.errors import SnapshotError
from tidegauge.latest import resolve


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
