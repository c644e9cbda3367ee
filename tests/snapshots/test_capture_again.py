"""Captures that build on another: one that was killed and goes on, and one after an earlier snapshot."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.snapshots.brokers import Log, log_dir, offsets_in
from tests.snapshots.test_capture_live import captured, once
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.capture import unfinished
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import MANIFEST_NAME, part_name
from tidegauge.snapshots.reuse import earlier
from tidegauge.snapshots.verification import verify


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log_dir(tmp_path / "data")
    log = Log.new(tmp_path / "data" / "orders-0")
    for _ in range(4):
        log.append(200)
        log.roll()
    log.append(20)
    return log


def killed(tmp_path: Path, when: Callable[[], bool]) -> None:
    """A capture by another process that dies, as by a power cut, at this point."""
    child = os.fork()
    if child == 0:
        try:
            kill = once(when, lambda: os.kill(os.getpid(), signal.SIGKILL))
            captured(tmp_path / "out/one", f"1={tmp_path / 'data'}", meanwhile=kill)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


def has(tmp_path: Path, name: str) -> Callable[[], bool]:
    return lambda: (tmp_path / "out/one/broker-1" / name).exists()


def test_a_capture_that_was_killed_goes_on_and_reads_no_sealed_log_twice(tmp_path, log):
    killed(tmp_path, has(tmp_path, f"orders-0/{600:020d}.log"))
    assert not (tmp_path / "out/one" / MANIFEST_NAME).exists()
    assert unfinished(tmp_path / "out") == ["one"]
    log.append(5)

    sizes = {p.name: p.stat().st_size for p in log.directory.glob("*.log")}
    result = captured(tmp_path / "out/one", f"1={tmp_path / 'data'}")
    assert offsets_in(tmp_path / "out/one/broker-1/orders-0") == list(range(825))
    assert result.bytes_read < sum(sizes.values()) - sizes[f"{0:020d}.log"] - sizes[f"{200:020d}.log"] + 50_000
    assert result.bytes_read < sum(sizes.values())
    assert verify(open_snapshot(tmp_path / "out/one")) == ()
    assert unfinished(tmp_path / "out") == []
    assert {p.name for p in (tmp_path / "out/one").iterdir()} == {MANIFEST_NAME, part_name("broker-1"), "broker-1"}


def test_what_goes_on_is_as_if_it_had_begun_now(tmp_path, log):
    killed(tmp_path, has(tmp_path, f"orders-0/{600:020d}.log"))
    log.compact()
    log.expire()
    (log.directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 810\n")
    result = captured(tmp_path / "out/one", f"1={tmp_path / 'data'}")
    copy = tmp_path / "out/one/broker-1/orders-0"
    assert offsets_in(copy) == [*range(0, 400, 2), *range(400, 820)]
    assert (copy / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 810\n"
    assert verify(open_snapshot(tmp_path / "out/one")) == ()
    at = {f.path.removeprefix("broker-1/"): f.read_at_ms for f in result.manifest.files()}
    assert at["replication-offset-checkpoint"] < min(t for p, t in at.items() if p.endswith(".log"))


def test_a_log_that_was_cut_off_by_the_crash_is_copied_again(tmp_path, log):
    killed(tmp_path, has(tmp_path, f"orders-0/{600:020d}.log"))
    with (tmp_path / f"out/one/broker-1/orders-0/{200:020d}.log").open("r+b") as file:
        file.truncate(100)
    with (tmp_path / "out/one/.capture-broker-1.jsonl").open("a") as file:
        file.write('{"path": "broker-1/orders-0/000')
    captured(tmp_path / "out/one", f"1={tmp_path / 'data'}")
    assert offsets_in(tmp_path / "out/one/broker-1/orders-0") == list(range(820))


def test_an_unfinished_capture_of_another_log_dir_is_not_gone_on_with(tmp_path, log):
    killed(tmp_path, has(tmp_path, f"orders-0/{200:020d}.log"))
    log_dir(tmp_path / "other")
    with pytest.raises(SnapshotError, match="was begun for other log dirs or in another mode"):
        captured(tmp_path / "out/one", f"1={tmp_path / 'other'}")


@pytest.fixture
def first(tmp_path: Path, log: Log) -> Path:
    captured(tmp_path / "first", f"1={tmp_path / 'data'}")
    return tmp_path / "first"


def again(tmp_path: Path, first: Path, **changes: object):
    manifest = open_snapshot(first).manifest
    return captured(tmp_path / "second", f"1={tmp_path / 'data'}", earlier=earlier(first, manifest), **changes)


def links(directory: Path) -> dict[str, int]:
    return {p.name: p.stat().st_nlink for p in sorted(directory.glob("*.log"))}


def test_sealed_segments_that_an_earlier_snapshot_holds_are_linked_and_not_read(tmp_path, log, first):
    log.append(30)
    log.roll()
    log.append(3)
    result = again(tmp_path, first)
    copy = tmp_path / "second/broker-1/orders-0"
    assert links(copy) == {f"{base:020d}.log": 2 if base < 800 else 1 for base in (0, 200, 400, 600, 800, 850)}
    assert offsets_in(copy) == list(range(853))
    logs = sum((copy / f"{base:020d}.log").stat().st_size for base in (0, 200, 400, 600))
    assert logs <= result.linked_bytes < logs + 10_000
    assert result.bytes_read < logs / 2
    assert verify(open_snapshot(tmp_path / "second")) == ()
    at = {f.path.removeprefix("broker-1/"): f.read_at_ms for f in result.manifest.files()}
    assert at["replication-offset-checkpoint"] < at[f"orders-0/{0:020d}.log"]


def test_a_segment_that_the_cleaner_wrote_anew_with_size_and_time_of_the_old_one_is_copied(tmp_path, log, first):
    old = log.directory / f"{200:020d}.log"
    data, times = old.read_bytes(), (old.stat().st_atime_ns, old.stat().st_mtime_ns)
    new = old.with_suffix(".cleaned")
    new.write_bytes(data[:-1] + b"!")
    os.utime(new, ns=times)
    new.rename(old)
    result = again(tmp_path, first)
    copy = tmp_path / f"second/broker-1/orders-0/{200:020d}.log"
    assert copy.read_bytes() == old.read_bytes()
    assert result.rotten == []


def test_a_volume_that_was_restored_is_read_but_linked_where_its_bytes_are_the_same(tmp_path, log, first):
    shutil.move(tmp_path / "data", tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", tmp_path / "data")
    result = again(tmp_path, first)
    assert links(tmp_path / "second/broker-1/orders-0")[f"{0:020d}.log"] == 2
    assert result.bytes_read > result.linked_bytes


def test_bits_that_rotted_at_the_source_are_found_by_reading_again(tmp_path, log, first):
    # As if the disk had changed what nobody wrote: the earlier snapshot's digest is another one.
    manifest = open_snapshot(first).manifest
    held = earlier(first, manifest)
    files = held.by_directory_id["dir-1-data"]
    name = f"orders-0/{200:020d}.log"
    files[name] = type(files[name])(
        **{f: getattr(files[name], f) for f in files[name].__slots__} | {"sha256": "0" * 64}
    )
    result = captured(tmp_path / "second", f"1={tmp_path / 'data'}", earlier=held, reread=True)
    assert result.rotten == [f"broker-1/{name}"]
    counted = links(tmp_path / "second/broker-1/orders-0")
    assert (counted[f"{200:020d}.log"], counted[f"{0:020d}.log"]) == (1, 2)


def test_a_topic_made_anew_under_the_same_name_is_not_linked(tmp_path, log, first):
    (log.directory / "partition.metadata").write_text("version: 0\ntopic_id: another_______________\n")
    result = again(tmp_path, first)
    assert result.linked_files == 0
    assert offsets_in(tmp_path / "second/broker-1/orders-0") == list(range(820))


def test_what_was_removed_from_the_earlier_snapshot_is_copied(tmp_path, log, first):
    (first / f"broker-1/orders-0/{400:020d}.log").unlink()
    again(tmp_path, first)
    assert offsets_in(tmp_path / "second/broker-1/orders-0") == list(range(820))


def test_the_earlier_snapshot_stays_as_it_was(tmp_path, log, first):
    log.append(5)
    again(tmp_path, first)
    log.compact()
    shutil.rmtree(tmp_path / "second")
    again(tmp_path, first)
    assert verify(open_snapshot(first)) == ()
