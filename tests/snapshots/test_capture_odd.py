"""Captures of and beside what should not be there: pipes, closed directories, snapshots around log dirs, other keys."""

import errno
import os
from pathlib import Path

import pytest

from tests.snapshots.brokers import Log, log_dir, offsets_in
from tests.snapshots.test_capture_live import captured, once
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.capture import JOURNAL
from tidegauge.snapshots.errors import AuditError, SnapshotError
from tidegauge.snapshots.file_taking import Way
from tidegauge.snapshots.manifest import MANIFEST_NAME, Mode
from tidegauge.snapshots.reuse import earlier
from tidegauge.snapshots.sources import broker_sources, must_not_hold
from tidegauge.snapshots.target import LocalTarget
from tidegauge.snapshots.topic_names import TopicNames
from tidegauge.snapshots.verification import verify

HASHED = Way(mode=Mode.HEADERS, names=TopicNames(b"a key that is kept"))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log_dir(tmp_path / "data")
    log = Log.new(tmp_path / "data" / "orders-0")
    for _ in range(3):
        log.append(50)
        log.roll()
    log.append(7)
    return log


def closed(monkeypatch: pytest.MonkeyPatch, directory: str) -> None:
    """A directory that may be listed and not looked into: root, as whom tests run, may do all."""

    def denying(real):
        def call(name, *args, dir_fd=None, **options):
            if dir_fd is not None and os.readlink(f"/proc/self/fd/{dir_fd}").endswith(directory):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
            return real(name, *args, dir_fd=dir_fd, **options)

        return call

    monkeypatch.setattr(os, "stat", denying(os.stat))
    monkeypatch.setattr(os, "open", denying(os.open))


def test_a_pipe_under_a_logs_name_is_named_and_never_opened(tmp_path, log):
    os.mkfifo(log.directory / f"{900:020d}.log")
    os.mkfifo(log.directory / f"{0:020d}.txnindex")
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}")
    assert {(x.path, x.reason) for x in result.left_out} == {
        (f"broker-1/orders-0/{900:020d}.log", "not a regular file"),
        (f"broker-1/orders-0/{0:020d}.txnindex", "not a regular file"),
    }
    assert not (tmp_path / f"out/broker-1/orders-0/{900:020d}.log").exists()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/etc/hostname")])
def test_properties_that_are_a_pipe_or_a_link_are_not_read(tmp_path, log, make):
    (tmp_path / "data/meta.properties").unlink()
    make(tmp_path / "data/meta.properties")
    with pytest.raises(SnapshotError, match="is a link or no regular file"):
        broker_sources([f"1={tmp_path / 'data'}"])


def test_every_file_of_a_directory_that_is_closed_is_named(tmp_path, log, monkeypatch):
    closed(monkeypatch, "/orders-0")
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}")
    assert {x.path.rpartition("/")[2] for x in result.left_out} == {p.name for p in log.directory.iterdir()}
    assert {x.reason for x in result.left_out} == {"cannot be read: Permission denied"}


def test_a_closed_directory_that_is_no_partition_stops_nothing(tmp_path, log, monkeypatch):
    (tmp_path / "data/backup/inner").mkdir(parents=True)
    closed(monkeypatch, "/backup")
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}")
    assert [(x.path, x.reason) for x in result.left_out] == [
        ("broker-1/backup/inner", "cannot be read: Permission denied")
    ]
    assert offsets_in(tmp_path / "out/broker-1/orders-0") == list(range(157))


def test_a_segment_that_vanishes_right_before_it_is_looked_at_is_noticed(tmp_path, log, monkeypatch):
    real, name = os.stat, f"{50:020d}.log"

    def vanishing(path, *args, **options):
        if path == name and (log.directory / name).exists():
            log._rename(50)
        return real(path, *args, **options)

    monkeypatch.setattr(os, "stat", vanishing)
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}")
    assert "segments 50: vanished" in {x.path: x.reason for x in result.left_out}["broker-1/orders-0"]


def test_the_holes_of_a_log_are_not_read_in_headers_mode_either(tmp_path, log):
    active = log.directory / f"{log.active:020d}.log"
    os.truncate(active, 64 << 20)
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}", way=Way(mode=Mode.HEADERS))
    assert result.bytes_read < 1 << 20
    assert {f.source_size_bytes for f in result.manifest.files()} >= {64 << 20}


@pytest.mark.parametrize("out", ["", "x/.."])
def test_a_snapshot_around_a_log_dir_is_refused(tmp_path, log, out):
    with pytest.raises(SnapshotError, match="is in there: nothing of ours is ever written around one"):
        must_not_hold(broker_sources([f"1={tmp_path / 'data'}"])[0], tmp_path / out)


def test_a_disk_that_fills_takes_nobody_elses_files_with_it(tmp_path, log, monkeypatch):
    def full(fd: int, view: memoryview, position: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes").write_text("mine")
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(AuditError, match="no room"):
        captured(tmp_path / "out", f"1={tmp_path / 'data'}")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["notes"]


def test_a_whole_capture_never_passes_over_another_brokers_share(tmp_path, log):
    Log.new(log_dir(tmp_path / "other", node=2) / "orders-0").append()
    captured(tmp_path / "out", f"2={tmp_path / 'other'}", part=True)
    with pytest.raises(SnapshotError, match="what a capture of broker 2 has begun or finished"):
        captured(tmp_path / "out", f"1={tmp_path / 'data'}")
    assert not (tmp_path / "out" / MANIFEST_NAME).exists()


def stopped(tmp_path: Path, way: Way) -> None:
    """A capture that ends when it has copied two logs."""

    def stop() -> None:
        raise KeyboardInterrupt

    def has_two() -> bool:
        return len(list((tmp_path / "out").rglob("*.headers"))) > 2

    with pytest.raises(KeyboardInterrupt):
        captured(tmp_path / "out", f"1={tmp_path / 'data'}", way=way, meanwhile=once(has_two, stop))


@pytest.mark.parametrize("first", [HASHED, Way(mode=Mode.HEADERS, names=TopicNames.of_random_key())])
def test_a_capture_with_hashed_names_goes_on_with_what_the_same_key_made(tmp_path, log, first):
    whole = captured(tmp_path / "whole", f"1={tmp_path / 'data'}", way=HASHED)
    stopped(tmp_path, first)
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}", way=HASHED)
    assert (result.bytes_read < whole.bytes_read) == (first is HASHED)
    assert {f.path for f in result.manifest.files()} == {f.path for f in whole.manifest.files()}
    assert verify(open_snapshot(tmp_path / "out")) == ()


def test_what_one_key_made_is_forgotten_when_another_has_begun_anew(tmp_path, log):
    other = Way(mode=Mode.HEADERS, names=TopicNames(b"another key that is kept"))
    whole = captured(tmp_path / "whole", f"1={tmp_path / 'data'}", way=HASHED)
    stopped(tmp_path, HASHED)
    stopped(tmp_path, other)
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}", way=HASHED)
    assert result.bytes_read == whole.bytes_read


def test_the_line_that_a_crash_cut_off_does_not_swallow_the_next(tmp_path):
    (tmp_path / JOURNAL.format("broker-1")).write_text('{"whole": 1}\n{"cut')
    with LocalTarget(tmp_path).journal(JOURNAL.format("broker-1")) as note:
        note('{"next": 2}')
    lines = (tmp_path / JOURNAL.format("broker-1")).read_text().splitlines()
    assert lines == ['{"whole": 1}', '{"cut', '{"next": 2}']


def test_what_was_cut_in_the_earlier_snapshot_is_copied(tmp_path, log):
    captured(tmp_path / "first", f"1={tmp_path / 'data'}")
    os.truncate(tmp_path / f"first/broker-1/orders-0/{0:020d}.log", 100)
    held = earlier(tmp_path / "first", open_snapshot(tmp_path / "first").manifest)
    result = captured(tmp_path / "second", f"1={tmp_path / 'data'}", earlier=held)
    assert result.linked_files
    assert verify(open_snapshot(tmp_path / "second")) == ()


def test_a_directory_that_nobody_knows_is_named_by_a_hash():
    assert HASHED.shown("orders-backup").startswith("n-")
    assert HASHED.shown("orders-0") == f"{HASHED.names.hashed('orders')}-0"
    assert "orders" not in HASHED.shown(f"orders-0.{'0' * 32}-delete/orders")
    assert Way(mode=Mode.FULL).shown("orders-backup") == "orders-backup"
