"""A capture of what stands still: byte for byte, sparse, in order, from inside the log dirs only; and bad input."""

import errno
import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.pipeline import derived, derived_once
from tests.snapshots.brokers import Log, log_dir, offsets_in
from tests.snapshots.test_capture_live import captured
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.errors import AuditError, SnapshotError
from tidegauge.snapshots.manifest import MANIFEST_NAME, part_name
from tidegauge.snapshots.sources import broker_sources, must_not_hold
from tidegauge.snapshots.target import LocalTarget
from tidegauge.snapshots.verification import verify

BROKERS = (1, 2, 3)


def tree(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def given(source: Path) -> tuple[str, ...]:
    return tuple(f"{b}={source}/broker-{b}" for b in BROKERS)


@pytest.mark.parametrize("name", ["unclean-before", "tiered"])
def test_a_capture_is_the_log_dirs_byte_for_byte_and_as_its_manifest_says(golden: Golden, tmp_path, name):
    source = golden(name)
    before = {p: p.stat() for p in source.rglob("*")}
    result = captured(tmp_path / "out", *given(source))
    for broker in BROKERS:
        assert tree(tmp_path / f"out/broker-{broker}") == tree(source / f"broker-{broker}")
    assert result.left_out == ()
    assert verify(open_snapshot(tmp_path / "out")) == ()
    own = [f"broker-{broker}" for broker in BROKERS]
    assert {p.name for p in (tmp_path / "out").iterdir()} == {MANIFEST_NAME, *own, *map(part_name, own)}
    assert {p: (s.st_mtime_ns, s.st_ctime_ns, s.st_size) for p, s in before.items()} == {
        p: (s.st_mtime_ns, s.st_ctime_ns, s.st_size) for p, s in ((p, p.stat()) for p in source.rglob("*"))
    }


def test_facts_of_a_capture_are_those_of_the_log_dirs(golden: Golden, tmp_path):
    source = golden("unclean-before")
    captured(tmp_path / "out", *given(source))
    of_source, of_copy = derived_once(source).rows, derived(tmp_path / "out").rows
    ours = {"cluster", "snapshot_id", "rack", "read_started_at_ms", "read_finished_at_ms", "checkpoint_older_than_log"}
    ours |= {"epoch_checkpoint_read_again", "captured_at_ms", "follower_copied_after_leader"}
    ours |= {"later_checkpoint_start_offset", "later_checkpoint_last_leader_epoch"}
    # Of producers, how many are not forgotten by the moment of the copy: today's.
    ours |= {"live_producer_ids", "producer_ids_unless_expired", "new_producer_ids"}
    assert of_copy.keys() == of_source.keys()
    for relation, rows in of_source.items():
        same = [[{k: v for k, v in row.items() if k not in ours} for row in of] for of in (rows, of_copy[relation])]
        assert same[0] == same[1], relation
    assert {row["checkpoint_older_than_log"] for row in of_copy["replicas"] if row["topic"] == "orders"} == {True}
    assert {row["epoch_checkpoint_read_again"] for row in of_copy["epoch_spans"]} == {True}


def test_files_are_read_in_the_order_that_keeps_a_live_copy_sound(golden: Golden, tmp_path):
    result = captured(tmp_path / "out", *given(golden("unclean-before")))
    at = {f.path: f.read_at_ms for f in result.manifest.files()}
    user_logs = {p: t for p, t in at.items() if p.endswith(".log") and "/__cluster_metadata-0/" not in p}
    checkpoints = {
        p: t
        for p, t in at.items()
        if p.endswith(("-offset-checkpoint", "leader-epoch-checkpoint")) and "/__cluster_metadata-0/" not in p
    }
    metadata = {p: t for p, t in at.items() if "/__cluster_metadata-0/" in p and p.endswith(".log")}
    assert max(metadata.values()) < min(checkpoints.values())
    assert max(checkpoints.values()) < min(user_logs.values())
    # Brokers 2 and 3 were elected after broker 1: their metadata logs say that 2 leads orders-0.
    of_orders = {b: [t for p, t in user_logs.items() if p.startswith(f"broker-{b}/orders-0/")] for b in BROKERS}
    assert max(of_orders[1] + of_orders[3]) < min(of_orders[2])
    for path, instant in user_logs.items():
        assert instant < at[path.removesuffix(".log") + ".index"]
    internal = [t for p, t in user_logs.items() if "/__" in p]
    assert max(internal) < min(t for p, t in user_logs.items() if "/__" not in p)


def test_holes_stay_holes_and_blocks_of_zeros_become_some(tmp_path):
    directory = log_dir(tmp_path / "data")
    log = Log.new(directory / "orders-0")
    log.append(3)
    index = log.directory / f"{0:020d}.index"
    with index.open("wb") as file:
        file.truncate(10 << 20)
        file.seek(5 << 20)
        file.write(b"x" * 5000)
    (log.directory / f"{0:020d}.timeindex").write_bytes(b"y" * 5000 + bytes(4 << 20) + b"z")
    result = captured(tmp_path / "out", f"1={directory}")
    copy = tmp_path / "out/broker-1/orders-0"
    assert tree(copy) == tree(log.directory)
    assert (copy / index.name).stat().st_blocks * 512 <= 64 << 10
    assert (copy / f"{0:020d}.timeindex").stat().st_blocks * 512 <= 64 << 10
    assert result.bytes_read < 5 << 20
    assert verify(open_snapshot(tmp_path / "out")) == ()


def test_no_link_is_followed_out_of_a_log_dir_but_a_log_dir_may_be_one(tmp_path):
    directory = log_dir(tmp_path / "data")
    Log.new(directory / "orders-0").append()
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "passwords").write_text("hunter2")
    (directory / "payments-0").symlink_to(secret)
    (directory / "orders-0" / f"{9:020d}.log").symlink_to(secret / "passwords")
    os.mkfifo(directory / "orders-0" / "pipe")
    (tmp_path / "link").symlink_to(directory)
    result = captured(tmp_path / "out", f"1={tmp_path / 'link'}")
    assert {x.path: x.reason for x in result.left_out} == {
        "broker-1/payments-0": "a link; not followed",
        f"broker-1/orders-0/{9:020d}.log": "a link; not followed",
        "broker-1/orders-0/pipe": "not a regular file",
    }
    assert not any(b"hunter2" in data for data in tree(tmp_path / "out").values())
    assert offsets_in(tmp_path / "out/broker-1/orders-0") == [0]


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    directory = log_dir(tmp_path / "data")
    log = Log.new(directory / "orders-0")
    log.append()
    real = os.preadv

    def failing(fd: int, buffers: list[memoryview], position: int) -> int:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".timeindex"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(fd, buffers, position)

    (log.directory / f"{0:020d}.timeindex").write_bytes(b"x" * 12)
    monkeypatch.setattr(os, "preadv", failing)
    result = captured(tmp_path / "out", f"1={directory}")
    assert [(x.path, x.reason) for x in result.left_out] == [
        (f"broker-1/orders-0/{0:020d}.timeindex", "cannot be read at byte 0: Input/output error")
    ]
    assert not (tmp_path / f"out/broker-1/orders-0/{0:020d}.timeindex").exists()


def test_the_source_is_opened_for_reading_only_and_its_lock_is_not_touched(tmp_path, monkeypatch):
    directory = log_dir(tmp_path / "data")
    Log.new(directory / "orders-0").append()
    (directory / ".lock").touch()
    opened: list[tuple[str, int]] = []
    real = os.open

    def noting(path: str, flags: int, *args: object, **kwargs: object) -> int:
        below = kwargs.get("dir_fd")
        where = Path(os.readlink(f"/proc/self/fd/{below}"), path) if below is not None else path
        opened.append((str(where), flags))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", noting)
    captured(tmp_path / "out", f"1={directory}")
    writing = [path for path, flags in opened if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)]
    assert writing
    assert all(path.startswith(str(tmp_path / "out")) for path in writing)
    assert ".lock" not in {Path(path).name for path, _ in opened if not path.startswith(str(tmp_path / "out"))}
    assert (tmp_path / "out/broker-1/.lock").read_bytes() == b""


def test_several_log_dirs_get_folders_of_their_own(tmp_path):
    first, second = log_dir(tmp_path / "a/data"), log_dir(tmp_path / "b/data")
    (second / "meta.properties").write_text((first / "meta.properties").read_text().replace("dir-1-data", "dir-1-b"))
    Log.new(first / "orders-0").append()
    Log.new(second / "orders-1").append()
    result = captured(tmp_path / "out", f"1={first},{second}")
    assert [d.name for d in result.brokers[0].log_dirs] == ["data", "data.2"]
    found = derived(tmp_path / "out").rows["replicas"]
    assert {(r["partition"], r["log_dir"]) for r in found} == {(0, "data"), (1, "data.2")}


def test_what_waits_to_be_deleted_is_taken_last(tmp_path):
    directory = log_dir(tmp_path / "data")
    log = Log.new(directory / "orders-0")
    log.append(2)
    log.roll()
    log.retain()
    shutil.copytree(log.directory, directory / f"gone-0.{'0' * 32}-delete")
    result = captured(tmp_path / "out", f"1={directory}")
    assert tree(tmp_path / "out/broker-1") == tree(directory)
    at = {f.path: f.read_at_ms for f in result.manifest.files()}
    assert min(t for p, t in at.items() if "-delete/" in p) > max(t for p, t in at.items() if "/orders-0/" in p)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = log_dir(tmp_path / "data")
    Log.new(directory / "orders-0").append(10)
    return directory


@pytest.mark.parametrize(
    ("brokers", "says"),
    [
        (("1={0}/nowhere",), "nowhere, said to be a log dir of broker 1, does not exist"),
        (("1={0}",), "has no meta.properties"),
        (("1={0}/data/meta.properties",), "is not a directory"),
        (("2={0}/data",), "belongs to broker 1"),
        (("1={0}/data", "1={0}/data"), "Broker 1 is named twice"),
        (("1={0}/data,{0}/data",), "is named twice for broker 1"),
        (("1={0}/data,{0}/copy",), "have the same directory.id"),
        (("1={0}/data", "2={0}/other"), "log dirs of 2 clusters"),
        (("one={0}/data",), "names no broker"),
        (("1=",), "names no broker"),
        ((), "No broker was named"),
    ],
)
def test_bad_input_is_told_before_anything_is_written(data, tmp_path, brokers, says):
    shutil.copytree(data, tmp_path / "copy")
    log_dir(tmp_path / "other", node=2, cluster="BBBBBBBBBBBBBBBBBBBBBB")
    with pytest.raises(SnapshotError, match=says):
        captured(tmp_path / "out", *(b.format(tmp_path) for b in brokers))
    assert not (tmp_path / "out").exists()


def test_a_snapshot_inside_a_log_dir_is_refused(data):
    with pytest.raises(SnapshotError, match="inside broker 1's log dir"):
        must_not_hold(broker_sources([f"1={data}"])[0], data / "orders-0" / "snapshots")


def test_a_snapshot_is_never_overwritten(data, tmp_path):
    captured(tmp_path / "out", f"1={data}")
    before = tree(tmp_path / "out")
    with pytest.raises(SnapshotError, match="is a snapshot already, and none is ever overwritten"):
        captured(tmp_path / "out", f"1={data}")
    assert tree(tmp_path / "out") == before


def test_a_directory_of_somebody_else_is_not_written_into(data, tmp_path):
    (tmp_path / "out/broker-1").mkdir(parents=True)
    (tmp_path / "out/broker-1/notes").write_text("mine")
    with pytest.raises(SnapshotError, match="not what an interrupted capture left"):
        captured(tmp_path / "out", f"1={data}")
    assert tree(tmp_path / "out") == {"broker-1/notes": b"mine"}


def test_a_disk_that_fills_leaves_nothing(data, tmp_path, monkeypatch):
    real, written = os.pwrite, 0

    def filling(fd: int, view: memoryview, position: int) -> int:
        nonlocal written
        written += len(view)
        if written > 500:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, view, position)

    monkeypatch.setattr(os, "pwrite", filling)
    with pytest.raises(AuditError, match=r"no room for the snapshot.*has been removed again") as error:
        captured(tmp_path / "out", f"1={data}")
    assert not isinstance(error.value, SnapshotError)
    assert not (tmp_path / "out").exists()


def test_copies_are_for_the_owner_and_the_group(data, tmp_path):
    captured(tmp_path / "out", f"1={data}")
    assert stat.S_IMODE((tmp_path / f"out/broker-1/orders-0/{0:020d}.log").stat().st_mode) & 0o137 == 0


def test_a_local_target_never_writes_into_a_file_that_is_there(tmp_path):
    target = LocalTarget(tmp_path)
    (tmp_path / "held").write_bytes(b"old")
    os.link(tmp_path / "held", tmp_path / "file")
    with target.create("file") as sink:
        sink.write(b"new")
    assert ((tmp_path / "held").read_bytes(), (tmp_path / "file").read_bytes()) == (b"old", b"new")
