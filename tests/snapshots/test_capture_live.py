"""Capturing while the broker works: whatever happens between two reads, the copy is one that Kafka could have left."""

import itertools
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.snapshots.brokers import Log, digest, log_dir, offsets_in
from tidegauge.snapshots.capture import Capture, Captured, capture
from tidegauge.snapshots.copying import Meter
from tidegauge.snapshots.file_taking import Way
from tidegauge.snapshots.manifest import Mode
from tidegauge.snapshots.sources import broker_sources
from tidegauge.snapshots.throttle import Throttle


def captured(root: Path, *given: str, meanwhile: Callable[[], None] = lambda: None, **changes: object) -> Captured:
    """Captures brokers, one partition after the other if nothing else is said; `meanwhile` runs before each file and
    after each read, in one thread at a time.
    """
    clock, one = iter(range(1_000_000)), threading.RLock()

    def now_ms() -> int:
        with one:
            meanwhile()
            return next(clock)

    def tick(partitions: int, size_bytes: int) -> None:
        with one:
            meanwhile()

    sources, cluster_id = broker_sources(given)
    wanted = {"cluster": "test", "snapshot_id": "one", "out": root, "way": Way(mode=Mode.FULL), "readers": 1, **changes}
    meter = Meter(throttle=Throttle(None), now_ms=now_ms, tick=tick)
    return capture(Capture(sources=sources, cluster_id=cluster_id, **wanted), meter)


class Broker:
    """Does something at random each time it is called, with one log that is deleted from and one that is compacted."""

    def __init__(self, directory: Path, seed: int) -> None:
        log_dir(directory)
        self._random = random.Random(seed)
        self._calls = itertools.count()
        self.plain = Log.new(directory / "plain-0")
        self.compacted = Log.new(directory / "compacted-0", compacted=True)
        for log in (self.plain, self.compacted):
            for _ in range(4):
                log.append(5)
                log.roll()
            log.append(3)
            log.meanwhile = lambda: None

    def step(self) -> None:
        log = self._random.choice([self.plain, self.compacted])
        choice = self._random.random()
        if choice < 0.3:
            log.append()
        elif choice < 0.4 and log.end > log.active:
            log.roll()
        elif choice < 0.55 and len(log.segments) > 2:
            log.compact() if log.compacted else log.retain()
        elif choice < 0.6:
            log.expire()

    def now_and_then(self) -> None:
        """With several readers as much goes on during each reading of a log as all of them call for."""
        if next(self._calls) % 32 == 0:
            self.step()


READERS = pytest.mark.parametrize(("readers", "step"), [(1, Broker.step), (3, Broker.now_and_then)])


@READERS
@pytest.mark.parametrize("seed", range(25))
def test_a_copy_has_no_hole_whatever_the_broker_does_meanwhile(tmp_path, seed, readers, step):
    broker = Broker(tmp_path / "data", seed)
    held = broker.plain.end, broker.compacted.end
    captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=lambda: step(broker), readers=readers)

    plain = offsets_in(tmp_path / "out/broker-1/plain-0")
    assert plain == list(range(plain[0], plain[-1] + 1))
    assert plain[-1] + 1 >= held[0]
    compacted = offsets_in(tmp_path / "out/broker-1/compacted-0")
    assert compacted == sorted(set(compacted))
    assert set(range(0, held[1], 2)) <= set(compacted)


@READERS
@pytest.mark.parametrize("seed", range(25, 40))
def test_beside_a_sealed_log_lies_the_index_of_the_same_generation(tmp_path, seed, readers, step):
    broker = Broker(tmp_path / "data", seed)
    captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=lambda: step(broker), readers=readers)
    for topic in ("plain-0", "compacted-0"):
        logs = sorted((tmp_path / "out/broker-1" / topic).glob("*.log"))
        for log in logs[:-1]:
            assert log.with_suffix(".index").read_bytes() == digest(log.read_bytes())
        for log in logs[1:]:
            assert log.with_suffix(".snapshot").exists()


def once(at: Callable[[], bool], action: Callable[[], None]) -> Callable[[], None]:
    done = []

    def meanwhile() -> None:
        if not done and at():
            done.append(True)
            action()

    return meanwhile


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log_dir(tmp_path / "data")
    log = Log.new(tmp_path / "data" / "orders-0")
    for _ in range(3):
        log.append(5)
        log.roll()
    log.append(2)
    return log


def is_copied(tmp_path: Path, name: str) -> Callable[[], bool]:
    return lambda: (tmp_path / "out/broker-1" / name).exists()


def test_segments_that_retention_takes_in_between_leave_no_hole_and_are_noted(tmp_path, log):
    def retention() -> None:
        log.retain()
        log.retain()
        log.expire()

    meanwhile = once(is_copied(tmp_path, f"orders-0/{0:020d}.log"), retention)
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=meanwhile)
    assert offsets_in(tmp_path / "out/broker-1/orders-0") == list(range(10, 17))
    noted = {x.path: x.reason for x in result.left_out}
    assert noted["broker-1/orders-0"].startswith("segments 0, 5: vanished while the broker was read")
    assert {f.path for f in result.manifest.files()} == {
        path.relative_to(tmp_path / "out").as_posix()
        for path in (tmp_path / "out/broker-1").rglob("*")
        if path.is_file()
    }


def test_a_topic_that_is_deleted_while_it_is_read_is_read_to_its_end(tmp_path, log):
    gone = tmp_path / "data" / f"orders-0.{'0' * 32}-delete"
    meanwhile = once(is_copied(tmp_path, f"orders-0/{0:020d}.log"), lambda: log.directory.rename(gone))
    captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=meanwhile)
    assert offsets_in(tmp_path / "out/broker-1/orders-0") == list(range(17))


def test_a_topic_that_is_deleted_before_it_is_read_is_noted(tmp_path, log):
    gone = tmp_path / "data" / f"orders-0.{'0' * 32}-delete"
    first = Log.new(tmp_path / "data" / "first-0")
    first.append()
    meanwhile = once(is_copied(tmp_path, f"first-0/{0:020d}.log"), lambda: log.directory.rename(gone))
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=meanwhile)
    assert ("broker-1/orders-0", "vanished while the broker was read") in {(x.path, x.reason) for x in result.left_out}
    assert not (tmp_path / "out/broker-1/orders-0").exists() or not any((tmp_path / "out/broker-1/orders-0").iterdir())


def test_a_topic_made_anew_in_between_is_not_mixed_with_checkpoints_of_the_old_one(tmp_path, log):
    first = Log.new(tmp_path / "data" / "first-0")
    first.append()

    def again() -> None:
        log.directory.rename(tmp_path / "data" / f"orders-0.{'0' * 32}-delete")
        Log.new(tmp_path / "data" / "orders-0").append()

    meanwhile = once(is_copied(tmp_path, f"first-0/{0:020d}.log"), again)
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=meanwhile)
    noted = {x.path: x.reason for x in result.left_out}
    assert noted["broker-1/orders-0"] == "deleted and made anew while the broker was read"
    assert not any(f.path.startswith("broker-1/orders-0/") for f in result.manifest.files())


def test_a_topic_made_while_the_broker_is_read_is_taken_too(tmp_path, log):
    def make() -> None:
        Log.new(tmp_path / "data" / "later-0").append(3)

    captured(
        tmp_path / "out",
        f"1={tmp_path / 'data'}",
        meanwhile=once(is_copied(tmp_path, f"orders-0/{0:020d}.log"), make),
    )
    assert offsets_in(tmp_path / "out/broker-1/later-0") == [0, 1, 2]


def test_a_log_that_is_cut_while_it_is_read_is_read_again(tmp_path, log):
    end = log.end

    def cut() -> None:
        log.truncate(end - 1)
        (log.directory / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n1 {end - 1}\n")

    captured(
        tmp_path / "out",
        f"1={tmp_path / 'data'}",
        meanwhile=once(is_copied(tmp_path, f"orders-0/{log.active:020d}.index"), cut),
    )
    assert offsets_in(tmp_path / "out/broker-1/orders-0")[-1] == end - 2


def test_an_index_that_is_cut_while_it_is_read_is_read_again(tmp_path, log):
    # Kafka makes an index with room for all its entries, most of it a hole, and cuts that off when it rolls.
    name = f"orders-0/{log.active:020d}.timeindex"
    index = tmp_path / "data" / name
    index.write_bytes(b"x" * 12)
    os.truncate(index, 12288)
    calls = itertools.count()
    captured(
        tmp_path / "out",
        f"1={tmp_path / 'data'}",
        meanwhile=once(
            lambda: is_copied(tmp_path, name)() and next(calls) == 1,  # behind the first block, before the hole
            lambda: os.truncate(index, 12),
        ),
    )
    assert (tmp_path / "out/broker-1" / name).read_bytes() == b"x" * 12


def test_epochs_are_kept_as_they_were_before_the_logs_and_after(tmp_path, log):
    epochs = log.directory / "leader-epoch-checkpoint"
    result = captured(tmp_path / "quiet", f"1={tmp_path / 'data'}")
    entry = next(f for f in result.manifest.files() if f.path.endswith("leader-epoch-checkpoint"))
    assert entry.read_again_at_ms > entry.read_at_ms
    assert not (tmp_path / "quiet/broker-1/orders-0/leader-epoch-checkpoint.after").exists()

    captured(
        tmp_path / "out",
        f"1={tmp_path / 'data'}",
        meanwhile=once(is_copied(tmp_path, f"orders-0/{0:020d}.log"), lambda: epochs.write_text("0\n2\n0 0\n1 16\n")),
    )
    copy = tmp_path / "out/broker-1/orders-0"
    assert (copy / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert (copy / "leader-epoch-checkpoint.after").read_text() == "0\n2\n0 0\n1 16\n"


def test_a_marker_of_a_clean_stop_is_kept_only_if_it_was_there_all_the_time(tmp_path, log):
    marker = tmp_path / "data" / ".kafka_cleanshutdown"
    marker.write_text('{"version":0,"brokerEpoch":13}')
    captured(tmp_path / "stopped", f"1={tmp_path / 'data'}")
    assert (tmp_path / "stopped/broker-1/.kafka_cleanshutdown").exists()

    meanwhile = once(is_copied(tmp_path, f"orders-0/{0:020d}.log"), marker.unlink)
    result = captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=meanwhile)
    assert not (tmp_path / "out/broker-1/.kafka_cleanshutdown").exists()
    assert "broker-1/.kafka_cleanshutdown" in {x.path for x in result.left_out}


def test_the_metadata_log_is_taken_first_and_what_was_added_to_it_last(tmp_path, log):
    metadata = Log.new(tmp_path / "data" / "__cluster_metadata-0")
    metadata.append(4)
    seen = []

    def meanwhile() -> None:
        if is_copied(tmp_path, "meta.properties")() and not seen:
            seen.append((tmp_path / "out/broker-1/__cluster_metadata-0" / f"{0:020d}.log").exists())
            metadata.append(3)

    captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=meanwhile)
    assert seen == [True]
    assert offsets_in(tmp_path / "out/broker-1/__cluster_metadata-0") == list(range(7))


def test_a_producer_snapshot_that_is_written_right_behind_the_roll_is_taken(tmp_path, log):
    log.roll()
    snapshot = log.directory / f"{log.active:020d}.snapshot"
    data = snapshot.read_bytes()
    snapshot.unlink()
    meanwhile = once(
        is_copied(tmp_path, f"orders-0/{log.active:020d}.timeindex"), lambda: snapshot.write_bytes(data) and None
    )
    captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=meanwhile)
    assert (tmp_path / "out/broker-1/orders-0" / snapshot.name).read_bytes() == data


def test_an_index_that_came_with_what_the_cleaner_put_there_brings_its_log_along(tmp_path, log):
    log.compacted = True

    def clean() -> None:
        log.compact()
        (log.directory / f"{0:020d}.txnindex").write_bytes(b"of both")

    meanwhile = once(is_copied(tmp_path, f"orders-0/{log.active:020d}.timeindex"), clean)
    captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=meanwhile)
    copy = tmp_path / "out/broker-1/orders-0"
    assert (copy / f"{0:020d}.txnindex").read_bytes() == b"of both"
    assert (copy / f"{0:020d}.index").read_bytes() == digest((copy / f"{0:020d}.log").read_bytes())
    assert offsets_in(copy) == [0, 2, 4, 6, 8, *range(10, 17)]


def test_a_checkpoint_that_is_being_written_is_no_file_that_vanished(tmp_path, log):
    half = tmp_path / "data" / "replication-offset-checkpoint.tmp"
    half.write_text("0\n")
    meanwhile = once(is_copied(tmp_path, "replication-offset-checkpoint"), half.unlink)
    assert captured(tmp_path / "out", f"1={tmp_path / 'data'}", meanwhile=meanwhile).left_out == ()
