"""Shares of a snapshot that each broker's machine writes, and what joins them."""

from pathlib import Path

import pytest

from tests.snapshots.brokers import Log, log_dir, offsets_in
from tests.snapshots.test_capture_live import captured
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.capture import Capture, Captured, finish
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.file_taking import Way
from tidegauge.snapshots.manifest import MANIFEST_NAME, Consistency, Mode, part_name
from tidegauge.snapshots.verification import verify


@pytest.fixture
def brokers(tmp_path: Path) -> list[str]:
    for node in (1, 2):
        Log.new(log_dir(tmp_path / f"data-{node}", node=node) / "orders-0").append(node)
    return [f"{node}={tmp_path / f'data-{node}'}" for node in (1, 2)]


def joined(root: Path) -> Captured:
    return finish(Capture(cluster="test", snapshot_id="one", out=root, way=Way(mode=Mode.FULL)))


def test_shares_become_a_snapshot_when_they_are_joined(tmp_path, brokers):
    for broker in brokers:
        assert captured(tmp_path / "out", broker, part=True).manifest is None
        assert not (tmp_path / "out" / MANIFEST_NAME).exists()
    manifest = joined(tmp_path / "out").manifest
    assert [b.broker_id for b in manifest.brokers] == [1, 2]
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        MANIFEST_NAME, "broker-1", "broker-2", part_name("broker-1"), part_name("broker-2"),
    }  # fmt: skip
    assert verify(open_snapshot(tmp_path / "out")) == ()
    assert [offsets_in(tmp_path / f"out/broker-{b}/orders-0") for b in (1, 2)] == [[0], [0, 1]]


def test_a_share_that_is_there_is_told_of_and_not_written_again(tmp_path, brokers):
    first = captured(tmp_path / "out", brokers[0], part=True)
    again = captured(tmp_path / "out", brokers[0], part=True)
    assert again.brokers == first.brokers
    assert again.bytes_read == 0


def test_a_share_of_another_mode_or_a_whole_capture_never_overwrites_one(tmp_path, brokers):
    captured(tmp_path / "out", brokers[0], part=True)
    for changes in ({"part": True, "way": Way(mode=Mode.HEADERS)}, {}):
        with pytest.raises(SnapshotError, match="holds finished shares of brokers already"):
            captured(tmp_path / "out", brokers[0], **changes)


def test_shares_that_were_joined_already_are_joined(tmp_path, brokers):
    captured(tmp_path / "out", brokers[0], part=True)
    first = joined(tmp_path / "out")
    written = (tmp_path / "out" / MANIFEST_NAME).stat()
    assert joined(tmp_path / "out").manifest == first.manifest
    now = (tmp_path / "out" / MANIFEST_NAME).stat()
    assert (now.st_ino, now.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_nothing_is_joined_while_a_share_is_missing(tmp_path, brokers):
    with pytest.raises(SnapshotError, match="holds no broker's share"):
        joined(tmp_path / "out")
    captured(tmp_path / "out", brokers[0], part=True)
    (tmp_path / "out/.capture-broker-2.jsonl").write_text("{}\n")
    with pytest.raises(SnapshotError, match=r"capture of broker 2 .* is not finished"):
        joined(tmp_path / "out")
    assert not (tmp_path / "out" / MANIFEST_NAME).exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"consistency": Consistency.ATOMIC}, "by consistency"),
        ({"way": Way(mode=Mode.HEADERS)}, "by mode"),
        ({"cluster": "other"}, "by cluster"),
    ],
)
def test_shares_that_do_not_belong_together_are_not_joined(tmp_path, brokers, changes, says):
    captured(tmp_path / "out", brokers[0], part=True)
    captured(tmp_path / "out", brokers[1], part=True, **changes)
    with pytest.raises(SnapshotError, match=says):
        joined(tmp_path / "out")


@pytest.mark.parametrize("changes", [{"cluster": "other"}, {"snapshot_id": "another"}])
def test_shares_of_another_name_than_the_one_that_is_asked_for_are_not_joined(tmp_path, brokers, changes):
    for broker in brokers:
        captured(tmp_path / "out", broker, part=True)
    wanted = {"cluster": "test", "snapshot_id": "one"} | changes
    with pytest.raises(SnapshotError, match="are of test/one, and "):
        finish(Capture(out=tmp_path / "out", way=Way(mode=Mode.FULL), **wanted))
    assert not (tmp_path / "out" / MANIFEST_NAME).exists()


def test_shares_of_two_clusters_or_of_one_disk_are_not_joined(tmp_path, brokers):
    captured(tmp_path / "out", brokers[0], part=True)
    (tmp_path / "data-2/meta.properties").write_text("version=1\nnode.id=2\ndirectory.id=x\ncluster.id=other\n")
    captured(tmp_path / "out", brokers[1], part=True)
    with pytest.raises(SnapshotError, match="of 2 clusters"):
        joined(tmp_path / "out")

    text = (tmp_path / "data-1/meta.properties").read_text()
    (tmp_path / "data-2/meta.properties").write_text(text.replace("node.id=1", "node.id=2"))
    captured(tmp_path / "again", brokers[0], part=True)
    captured(tmp_path / "again", brokers[1], part=True)
    with pytest.raises(SnapshotError, match=r"have the same directory\.id"):
        joined(tmp_path / "again")


def test_what_is_no_share_is_named(tmp_path):
    (tmp_path / ".part-broker-1.json").write_text("{")
    with pytest.raises(SnapshotError, match="is not a broker's share"):
        joined(tmp_path)
