"""A broker's log dir beside those of real brokers: the same files, and what brokers leave lying about."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.derivation.pipeline import derived
from tests.sim_engine.handmade import NOW_MS, handmade, metadata_of, voters, with_leftovers
from tidegauge.kafka_log.checkpoints import parse_offset_checkpoint
from tidegauge.kafka_log.log_dir import CLEAN_SHUTDOWN, parse_partition_dir, parse_segment_file
from tidegauge.kafka_log.properties import parse_clean_shutdown, parse_meta_properties, parse_quorum_state
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.leftovers import Leftover, LeftSegment, cleaned_away, taken_away
from tidegauge.sim_engine.files.render import Beside, BrokerDisk, RenamedReplica, Replica, render_broker, root_files
from tidegauge.sim_engine.log.replica_log import (
    LogConfig,
    ReplicaLog,
    delete_segments,
    new_log,
    with_high_watermark,
    with_log_start,
)
from tidegauge.sim_engine.metadata.metadata_log import MetadataLog
from tidegauge.sim_engine.metadata.metadata_snapshot import first_snapshot
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.snapshots.manifest import Consistency

Golden = Callable[[str], Path]
DIRECTORY_IDS = {1: "AQEBAQEBAQEBAQEBAQEBAQ", 2: "AgICAgICAgICAgICAgICAg", 3: "AwMDAwMDAwMDAwMDAwMDAw"}
QUORUM = voters({1: 29091, 2: 29092, 3: 29093}, DIRECTORY_IDS)
MANY = TopicPartition("many", 0)


def disk(*, clean: bool = True) -> BrokerDisk:
    return handmade(QUORUM, cluster_id="BAQEBAQEBAQEBAQEBAQEBA", clean=clean).disks[0]


def names(made: BrokerDisk, directory: str) -> set[str]:
    prefix = f"{directory}/"
    return {name.removeprefix(prefix) for name, _ in render_broker(made) if name.startswith(prefix)}


@pytest.mark.parametrize("capture", ["healthy", "unclean-before", "pair-clean-b1"])
def test_small_files_are_those_of_a_real_broker(golden: Golden, capture: str) -> None:
    broker = golden(capture) / "broker-1"
    properties = parse_meta_properties((broker / "meta.properties").read_bytes())
    quorum = parse_quorum_state((broker / "__cluster_metadata-0" / "quorum-state").read_bytes())
    offsets = {}
    for name in ("replication", "recovery-point", "log-start", "cleaner"):
        data = (broker / f"{name}-offset-checkpoint").read_bytes()
        offsets[name] = {TopicPartition(e.topic, e.partition): e.offset for e in parse_offset_checkpoint(data).entries}
    marker = broker / CLEAN_SHUTDOWN
    made = BrokerDisk(
        broker_id=properties.node_id or 0,
        cluster_id=properties.cluster_id or "",
        directory_id=properties.directory_id or "",
        replicas={},
        metadata=new_log(LogConfig(), now_ms=0),
        quorum_leader_id=quorum.leader_id,
        quorum_leader_epoch=quorum.leader_epoch or 0,
        voted_id=quorum.voted_id,
        voted_directory_id=quorum.voted_directory_id or "",
        high_watermarks=offsets["replication"],
        recovery_points=offsets["recovery-point"],
        log_starts=offsets["log-start"],
        cleaner_offsets=offsets["cleaner"],
        clean_broker_epoch=parse_clean_shutdown(marker.read_bytes()).broker_epoch if marker.exists() else None,
    )
    files = {name: file.data for name, file in render_broker(made)}
    theirs = {path.name: path.read_bytes() for path in broker.iterdir() if path.is_file()}
    at_root = {name: data for name, data in files.items() if "/" not in name}
    assert at_root.keys() == theirs.keys()
    for name, data in theirs.items():
        # Comments tell when; a checkpoint's entries have the order of a hash table.
        lines = [line for line in data.splitlines(keepends=True) if not line.startswith(b"#")]
        if name.endswith("-offset-checkpoint"):
            assert sorted(at_root[name].splitlines()) == sorted(data.splitlines()), name
            assert at_root[name].splitlines()[:2] == data.splitlines()[:2], name
            assert len(at_root[name]) == len(data), name
        else:
            assert at_root[name] == b"".join(lines), name
    assert files["__cluster_metadata-0/quorum-state"] == (broker / "__cluster_metadata-0" / "quorum-state").read_bytes()


def test_the_metadata_logs_directory_has_the_files_of_a_real_one(golden: Golden) -> None:
    real = {path.name for path in (golden("healthy") / "broker-1" / "__cluster_metadata-0").iterdir()}
    made = disk()
    end = made.metadata.log_end_offset
    named = {name.replace(f"{end:020d}", f"{462:020d}") for name in names(made, "__cluster_metadata-0")}
    # The real one has taken a second snapshot.
    assert named == {name for name in real if not name.startswith(f"{259:020d}")}
    files = dict(render_broker(made))
    for kind, size in ((".index", 10485760), (".timeindex", 10485756)):
        assert files[f"__cluster_metadata-0/{0:020d}{kind}"].size_bytes == size


def test_what_nobody_wrote_yet_is_empty_or_says_so() -> None:
    made = replace(disk(clean=False), high_watermarks={}, recovery_points={}, log_starts={}, cleaner_offsets={})
    files = {name: file.data for name, file in root_files(made)}
    assert files["replication-offset-checkpoint"] == files["cleaner-offset-checkpoint"] == b""
    assert files["recovery-point-offset-checkpoint"] == files["log-start-offset-checkpoint"] == b"0\n0\n"


def test_a_lock_is_left_by_whoever_did_not_stop_in_good_order() -> None:
    stopped = {name for name, _ in root_files(disk(clean=True))}
    killed = {name for name, _ in root_files(disk(clean=False))}
    assert killed - stopped == {".lock"}
    assert stopped - killed == {CLEAN_SHUTDOWN}


def test_directories_that_wait_to_be_removed_keep_preallocated_indexes() -> None:
    files = dict(render_broker(with_leftovers(disk(clean=True))))
    directories = {name.partition("/")[0] for name in files if "/" in name}
    states = {parsed.state: name for name in directories if (parsed := parse_partition_dir(name)) is not None}
    assert states.keys() == {"live", "deleted", "stray"}
    log = disk().replicas[MANY].log
    active = f"{log.active.base_offset:020d}.index"
    for state in ("deleted", "stray"):
        assert files[f"{states[state]}/{active}"].size_bytes == log.config.segment_index_bytes
        # What was rolled away has been written down, the end has not.
        assert f"{states[state]}/{log.log_end_offset:020d}.snapshot" not in files
    assert files[f"many-0/{active}"].size_bytes < log.config.segment_index_bytes


def test_files_that_are_no_part_of_the_log_have_names_of_their_own() -> None:
    made = with_leftovers(disk(clean=False))
    found: dict[str, set[str]] = {}
    for name in names(made, "many-0"):
        segment = parse_segment_file(name)
        if segment is not None and segment.suffix:
            found.setdefault(segment.suffix, set()).add(segment.kind)
    assert found == {
        "deleted": {"log", "index", "timeindex", "snapshot"},
        "swap": {"log", "index", "timeindex"},
        "cleaned": {"log", "index", "timeindex"},
    }
    files = dict(render_broker(made))
    _, second, *_ = made.replicas[MANY].log.segments
    assert files[f"many-0/{second.base_offset:020d}.index.cleaned"].size_bytes == 8192


def test_retention_leaves_the_segments_that_it_took_and_their_snapshots() -> None:
    log = replace(disk().replicas[MANY].log, config=LogConfig(segment_bytes=4096, retention_bytes=8000))
    kept = delete_segments(log, now_ms=NOW_MS)
    left = taken_away(log, kept)
    assert [each.segment.base_offset for each in left] == [
        s.base_offset for s in log.segments if s.base_offset < kept.log_start_offset
    ]
    assert [each.producers is not None for each in left] == [False, *(True for _ in left[1:])]
    assert all(each.leftover is Leftover.DELETED for each in left)
    assert taken_away(log, log) == ()


def test_the_cleaner_leaves_a_segment_of_the_same_name() -> None:
    log = disk().replicas[MANY].log
    first, second, *others = log.segments
    written_anew = replace(first, batches=first.batches)
    cleaned = replace(log, segments=(written_anew, *others))
    left = cleaned_away(log, cleaned)
    assert [each.segment for each in left] == [first, second]
    made = replace(disk(), replicas={MANY: Replica(log=cleaned, topic_id="000001BBBBBBBBBBBBBBBQ", leftovers=left)})
    listed = names(made, "many-0")
    assert {f"{0:020d}.log", f"{0:020d}.log.deleted"} <= listed


def test_a_log_on_its_way_to_another_log_dir_of_its_broker(tmp_path: Path) -> None:
    whole = disk(clean=True)
    log = whole.replicas[MANY].log
    moving = RenamedReplica(
        partition=MANY,
        beside=Beside.FUTURE,
        unique="41e7c9fb4c53474b8f096ad21e61e60a",
        replica=Replica(log=half(log), topic_id=whole.replicas[MANY].topic_id),
    )
    assert moving.directory == "many-0.41e7c9fb4c53474b8f096ad21e61e60a-future"
    other = BrokerDisk(
        broker_id=1,
        cluster_id=whole.cluster_id,
        directory_id="BQUFBQUFBQUFBQUFBQUFBQ",
        log_dir="d2",
        replicas={},
        renamed=(moving,),
        metadata=whole.metadata,
        holds_metadata=False,
        quorum_leader_id=1,
        quorum_leader_epoch=1,
        # Its own high watermark is in the checkpoint of the log dir that it goes to.
        high_watermarks={MANY: half(log).high_watermark},
        clean_broker_epoch=whole.clean_broker_epoch,
    )
    disks = [replace(whole, log_dir="d1"), other]
    written = write_snapshot(
        tmp_path / "s", disks, cluster="c", snapshot_id="1", consistency=Consistency.QUIESCED, truth={}
    )
    (broker,) = written.manifest.brokers
    assert [(d.name, d.directory_id) for d in broker.log_dirs] == [
        ("d1", whole.directory_id),
        ("d2", other.directory_id),
    ]
    assert not (tmp_path / "s" / "broker-1" / "d2" / "__cluster_metadata-0").exists()
    rows = derived(tmp_path / "s").all("replicas", topic="many", partition=0)
    assert {row["log_end_offset"]: row["high_watermark"] for row in rows} == {
        log.log_end_offset: log.log_end_offset,
        # The auditor believes no checkpoint about a log that is not there yet.
        half(log).log_end_offset: None,
    }


def half(log: ReplicaLog) -> ReplicaLog:
    """The same log, as far as its first two segments."""
    end = log.segments[2].base_offset
    shorter = replace(log, segments=log.segments[:2], log_end_offset=end, high_watermark=0)
    snapshots = {at: entries for at, entries in log.snapshots.items() if at <= end}
    epochs = tuple(e for e in log.epochs if e.start_offset < end)
    return with_high_watermark(replace(shorter, snapshots=snapshots, epochs=epochs), end)


def test_other_files_stand_beside_all_else_or_in_its_place() -> None:
    made = replace(
        disk(),
        other_files={
            "many-0/leader-epoch-checkpoint": b"garbage",
            "meta.properties": b"",
            "remote-log-index-cache/x.index": b"1",
        },
    )
    listed = list(render_broker(made))
    files = dict(listed)
    assert len(files) == len(listed)
    assert files["many-0/leader-epoch-checkpoint"].data == b"garbage"
    assert files["meta.properties"].size_bytes == 0
    assert files["remote-log-index-cache/x.index"].data == b"1"


def test_the_same_disk_is_the_same_bytes() -> None:
    assert list(render_broker(disk())) == list(render_broker(disk()))
    first = first_snapshot(QUORUM, formatted_at_ms=NOW_MS)
    assert first == first_snapshot(QUORUM, formatted_at_ms=NOW_MS)
    assert isinstance(metadata_of(QUORUM, clean=True, small_segments=True)[0], MetadataLog)


def test_a_log_start_inside_a_segment_is_what_the_checkpoint_lists() -> None:
    made = disk()
    deleted = TopicPartition("deleted", 0)
    log = made.replicas[deleted].log
    assert made.log_starts == {deleted: log.log_start_offset}
    assert log == with_log_start(log, 10)
    assert LeftSegment(segment=log.active, leftover=Leftover.SWAP).producers is None
