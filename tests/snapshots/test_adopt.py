"""Adopting a plain copy, verifying it, and what is refused."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Golden
from tidegauge.cli.capture import to_read
from tidegauge.snapshots.adopt import adopt, open_snapshot, survey
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import MANIFEST_NAME, Consistency, Source
from tidegauge.snapshots.sources import broker_sources
from tidegauge.snapshots.verification import verify

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"


def log_dir(directory: Path, *, node: int, cluster: str = CLUSTER, partition: str = "orders-0") -> Path:
    replica = directory / partition
    replica.mkdir(parents=True)
    (replica / f"{0:020d}.log").write_bytes(b"0123456789")
    (replica / f"{0:020d}.index").write_bytes(b"")
    (directory / "meta.properties").write_text(
        f"version=1\nnode.id={node}\ndirectory.id=dir{node}{directory.name}\ncluster.id={cluster}\n"
    )
    (directory / "replication-offset-checkpoint").write_text("0\n0\n")
    return directory


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    root = tmp_path / "my copy"
    for node in (1, 2):
        log_dir(root / f"broker-{node}", node=node)
    return root


def listed(directory: Path) -> set[str]:
    return {f.path for f in survey(directory).files()}


def test_a_survey_names_every_file_and_writes_nothing(copy: Path) -> None:
    before = sorted(copy.rglob("*"))
    manifest = survey(copy)
    assert (manifest.cluster, manifest.cluster_id, manifest.consistency) == (CLUSTER, CLUSTER, Consistency.FUZZY)
    assert [b.broker_id for b in manifest.brokers] == [1, 2]
    assert {f.path for f in manifest.files()} == {
        p.relative_to(copy).as_posix() for p in copy.rglob("*") if p.is_file()
    }
    assert manifest.left_out == ()
    assert sorted(copy.rglob("*")) == before
    assert open_snapshot(copy, cluster="prod").manifest.cluster == "prod"


def test_the_id_of_a_copy_is_stable_and_another_copys_is_another(copy: Path) -> None:
    first = survey(copy).snapshot_id
    assert first == survey(copy).snapshot_id
    assert first.startswith("my-copy-")
    (copy / "broker-2/orders-0" / f"{0:020d}.log").write_bytes(b"longer than before")
    assert survey(copy).snapshot_id != first


def test_an_adopted_copy_verifies_and_is_not_adopted_twice(copy: Path) -> None:
    snapshot = adopt(copy, cluster="prod", consistency=Consistency.QUIESCED, snapshot_id="s-1")
    assert all(f.sha256 for f in snapshot.manifest.files())
    again = open_snapshot(copy)
    assert again.manifest == snapshot.manifest
    assert (again.manifest.cluster, again.manifest.snapshot_id) == ("prod", "s-1")
    assert verify(again) == ()
    with pytest.raises(SnapshotError, match="is a snapshot already"):
        adopt(copy, cluster="prod")
    assert [p.name for p in copy.iterdir() if p.name.startswith(".")] == []


def test_verify_names_what_is_missing_changed_resized_and_new(copy: Path) -> None:
    snapshot = adopt(copy, cluster="prod")
    one, other = (copy / f"broker-{n}/orders-0" for n in (1, 2))
    (one / f"{0:020d}.log").write_bytes(b"9876543210")
    (one / f"{0:020d}.index").unlink()
    (other / f"{0:020d}.log").write_bytes(b"short")
    (other / f"{10:020d}.log").write_bytes(b"")
    assert {p.path: p.reason for p in verify(snapshot)} == {
        f"broker-1/orders-0/{0:020d}.log": "its bytes have changed since the snapshot was taken",
        f"broker-1/orders-0/{0:020d}.index": "missing",
        f"broker-2/orders-0/{0:020d}.log": "5 bytes; the manifest says 10",
        f"broker-2/orders-0/{10:020d}.log": "not named in the manifest",
    }


def test_what_is_no_copy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="does not exist"):
        open_snapshot(tmp_path / "nowhere")
    file = tmp_path / "file.tar.gz"
    file.write_bytes(b"")
    with pytest.raises(SnapshotError, match=r"is not a directory\. Unpack it first"):
        open_snapshot(file)
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "broker-x").mkdir()
    with pytest.raises(SnapshotError, match="holds no broker's log directories: a snapshot has one directory"):
        open_snapshot(tmp_path)
    (tmp_path / "broker-1").symlink_to(tmp_path / "orders-0")
    with pytest.raises(SnapshotError, match=r"that can be read \(broker-1: not a directory of the copy itself\)"):
        open_snapshot(tmp_path)


def test_a_manifest_that_cannot_be_used_is_refused(copy: Path) -> None:
    (copy / MANIFEST_NAME).write_bytes(b"\xff\xfe")
    with pytest.raises(SnapshotError, match="cannot be read"):
        open_snapshot(copy)
    (copy / MANIFEST_NAME).write_text("{}")
    with pytest.raises(SnapshotError, match="not a manifest that can be used"):
        open_snapshot(copy)


def test_two_clusters_in_one_copy_are_refused(copy: Path) -> None:
    shutil.rmtree(copy / "broker-2")
    log_dir(copy / "broker-2", node=2, cluster="BBBBBBBBBBBBBBBBBBBBBB")
    with pytest.raises(SnapshotError, match=r"mixes log directories of 2 clusters: .*BBBB"):
        survey(copy)


def test_another_brokers_files_are_listed_and_do_not_count(copy: Path) -> None:
    (copy / "broker-2").rename(copy / "broker-7")
    assert [b.broker_id for b in survey(copy).brokers] == [1, 7]
    manifest = open_snapshot(copy).manifest
    assert [b.broker_id for b in manifest.brokers] == [1]
    assert [(f.broker_id, f.node_id) for f in manifest.foreign] == [(7, 2)]
    assert verify(open_snapshot(copy, settle=False)) == ()


def test_names_that_fit_no_broker_at_all_are_refused(copy: Path) -> None:
    (copy / "broker-1").rename(copy / "broker-8")
    (copy / "broker-2").rename(copy / "broker-7")
    with pytest.raises(SnapshotError, match=r"belongs to broker 2 \(it says node\.id=2\), not to broker 7.*Rename"):
        survey(copy)


def test_links_and_what_is_no_file_are_named_and_not_followed(copy: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    log_dir(outside, node=1)
    (copy / "broker-1/linked-0").symlink_to(outside / "orders-0")
    (copy / "broker-1/orders-0" / f"{10:020d}.log").symlink_to(outside / "orders-0" / f"{0:020d}.log")
    (copy / "broker-1/orders-0/dangling").symlink_to("/nowhere")
    os.mkfifo(copy / "broker-1/orders-0/pipe")
    manifest = survey(copy)
    assert {x.path: x.reason for x in manifest.left_out} == {
        "broker-1/linked-0": "a link; not followed",
        f"broker-1/orders-0/{10:020d}.log": "a link; not followed",
        "broker-1/orders-0/dangling": "a link; not followed",
        "broker-1/orders-0/pipe": "not a regular file",
    }
    assert len(list(manifest.files())) == 8


@pytest.fixture
def deep(copy: Path) -> Iterator[Path]:
    """The copy with 1,200 directories in one another, which are more than Python's stack has frames."""
    folders = [copy / "broker-1" / "orders-0"]
    for _ in range(1200):
        folders.append(folders[-1] / "d")
        folders[-1].mkdir()
    (folders[-1] / "file").touch()
    yield copy
    (folders[-1] / "file").unlink()
    for folder in reversed(folders[1:]):  # Whoever clears up after the test would stand on that stack.
        folder.rmdir()


def test_directories_without_end_are_named_and_not_entered(deep: Path) -> None:
    found = adopt(deep, cluster="production")
    (left,) = found.manifest.left_out
    assert left.path == "broker-1/orders-0" + "/d" * 64
    assert left.reason == "not read: more than 64 directories lie in one another here"
    assert len(list(found.manifest.files())) == 8
    assert verify(open_snapshot(deep)) == ()
    sources, _ = broker_sources([f"1={deep / 'broker-1'}"])
    _, size_bytes = to_read(sources)
    assert size_bytes > 0


@pytest.mark.parametrize("names", [("d1", "d2"), ("kafka-logs-1", "kafka-logs-2"), ("data-1",)])
def test_a_broker_with_several_log_dirs_whatever_their_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    for n, name in enumerate(names):
        log_dir(tmp_path / "broker-4" / name, node=4, partition=f"orders-{n}")
    (tmp_path / "broker-4/lost+found").mkdir()
    (broker,) = survey(tmp_path).brokers
    assert [d.name for d in broker.log_dirs] == list(names)
    assert [d.directory_id for d in broker.log_dirs] == [f"dir4{name}" for name in names]


def test_a_simulated_copy_says_so(copy: Path) -> None:
    (copy / "TRUTH.json").write_text("{}")
    assert survey(copy).source is Source.SIMULATED


def test_a_real_capture_is_listed_whole(golden: Golden) -> None:
    directory = golden("unclean-before")
    files = {p.relative_to(directory).as_posix() for p in directory.glob("broker-*/**/*") if p.is_file()}
    assert listed(directory) == files
    assert len(files) > 100
