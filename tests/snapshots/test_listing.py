"""The listing: each file of a manifest is placed, or named as unread with the reason."""

from collections.abc import Iterator

import pytest

from tests.conftest import Golden
from tidegauge.snapshots.adopt import survey
from tidegauge.snapshots.listing import LogDirListing, SnapshotListing, listing
from tidegauge.snapshots.manifest import BrokerCapture, Consistency, FileEntry, LogDir, Manifest, Mode, Source


def of_files(*paths: str, log_dirs: tuple[str, ...] = (".",)) -> SnapshotListing:
    broker = BrokerCapture(
        broker_id=1,
        directory="broker-1",
        rack=None,
        log_dirs=tuple(LogDir(name=name, directory_id=None) for name in log_dirs),
        read_started_at_ms=None,
        read_finished_at_ms=None,
        files=tuple(FileEntry(path=f"broker-1/{path}", size_bytes=1) for path in paths),
    )
    return listing(
        Manifest(
            cluster="c",
            cluster_id=None,
            snapshot_id="s",
            source=Source.CAPTURED,
            mode=Mode.FULL,
            consistency=Consistency.FUZZY,
            brokers=(broker,),
            left_out=(),
        )
    )


def test_segments_come_in_offset_order_with_their_files() -> None:
    names = [f"a-0/{base:020d}.{kind}" for base in (100, 20, 0) for kind in ("timeindex", "log", "index")]
    (log_dir,) = of_files(*names, f"a-0/{100:020d}.txnindex", f"a-0/{100:020d}.snapshot").log_dirs
    (replica,) = log_dir.replicas
    assert [s.base_offset for s in replica.segments] == [0, 20, 100]
    last = replica.segments[-1]
    assert last.log.path == f"broker-1/a-0/{100:020d}.log"
    assert [f is not None for f in (last.index, last.timeindex, last.txnindex)] == [True, True, True]
    assert replica.segments[0].txnindex is None
    assert [offset for offset, _ in replica.snapshots] == [100]


@pytest.mark.parametrize(
    ("directory", "topic", "partition", "state"),
    [
        ("orders-0", "orders", 0, "live"),
        ("or-de-rs-12", "or-de-rs", 12, "live"),
        ("__cluster_metadata-0", "__cluster_metadata", 0, "live"),
        ("orders-3.168733c02a894cbdb92ca368f30bb306-delete", "orders", 3, "deleted"),
        ("orders-3.168733c02a894cbdb92ca368f30bb306-future", "orders", 3, "future"),
        ("orders-3.168733c02a894cbdb92ca368f30bb306-stray", "orders", 3, "stray"),
    ],
)
def test_names_of_partition_directories(directory: str, topic: str, partition: int, state: str) -> None:
    found = of_files(f"{directory}/{0:020d}.log")
    (replica,) = found.log_dirs[0].replicas
    assert (replica.topic, replica.partition, replica.state) == (topic, partition, state)
    assert [r.state for r in found.replicas()] == ([state] if state in ("live", "future") else [])


def test_what_does_not_belong_is_named() -> None:
    found = of_files(
        "a-0/123.log",
        "no partition/x",
        "a-0/deep/er",
        f"a-0/{7:020d}.index",
        f"a-0/{0:020d}.log.deleted",
        "a-0/leader-epoch-checkpoint",
        "remote-log-index-cache/x",
        "meta.properties",
    )
    assert {u.path: u.reason for u in found.unread} == {
        "broker-1/a-0/123.log": "its name is not that of a Kafka segment file",
        "broker-1/no partition/x": "not in a partition directory",
        "broker-1/a-0/deep/er": "deeper than a partition directory",
        f"broker-1/a-0/{7:020d}.log": "not in the copy: each replica that a broker serves has a segment, and each "
        "index its log",
    }
    (replica,) = found.log_dirs[0].replicas
    assert replica.segments == ()
    assert [f.path for f in replica.orphans] == [f"broker-1/a-0/{7:020d}.index"]
    assert replica.named("leader-epoch-checkpoint") is not None
    assert replica.named("partition.metadata") is None
    assert set(found.log_dirs[0].files) == {"meta.properties"}


def test_log_dirs_do_not_mix() -> None:
    found = of_files(f"d1/a-0/{0:020d}.log", f"d2/a-1/{0:020d}.log", "d2/meta.properties", log_dirs=("d1", "d2"))
    assert [(d.name, [r.partition for r in d.replicas]) for d in found.log_dirs] == [("d1", [0]), ("d2", [1])]
    assert [set(d.files) for d in found.of_broker(1)] == [set(), {"meta.properties"}]
    assert found.of_broker(2) == ()


def test_metadata_snapshots_newest_last() -> None:
    found = of_files(*(f"__cluster_metadata-0/{end:020d}-{1:010d}.checkpoint" for end in (500, 0, 90)))
    names = [f.path.rsplit("/", 1)[-1] for f in found.log_dirs[0].replicas[0].metadata_checkpoints()]
    assert [int(name.split("-")[0]) for name in names] == [0, 90, 500]


def test_every_file_of_a_real_capture_is_placed(golden: Golden) -> None:
    manifest = survey(golden("healthy"))
    found = listing(manifest)
    assert found.unread == ()
    placed = sum(len(d.files) for d in found.log_dirs)
    for log_dir in found.log_dirs:
        for replica in log_dir.replicas:
            beside = sum(f is not None for s in replica.segments for f in (s.log, s.index, s.timeindex, s.txnindex))
            placed += beside + len(replica.snapshots) + len(replica.orphans) + len(replica.other)
    assert placed == len(list(manifest.files()))


def test_a_headers_file_stands_for_its_log() -> None:
    found = of_files(f"a-0/{0:020d}.headers", f"a-0/{0:020d}.index", f"a-0/{9:020d}.headers.deleted")
    (replica,) = found.log_dirs[0].replicas
    (segment,) = replica.segments
    assert segment.log.path == f"broker-1/a-0/{0:020d}.headers"
    assert segment.index is not None
    assert [f.path for f in replica.other] == [f"broker-1/a-0/{9:020d}.headers.deleted"]
    assert found.unread == ()


def test_a_log_beside_its_headers_file_is_not_read_twice() -> None:
    found = of_files(f"a-0/{0:020d}.headers", f"a-0/{0:020d}.log")
    assert len(found.log_dirs[0].replicas[0].segments) == 1
    assert [u.reason for u in found.unread] == ["the snapshot holds both this log and its headers file"]


class _Looks(tuple[LogDirListing, ...]):
    """Log dirs that count how often somebody goes through all of them."""

    looks = 0

    def __iter__(self) -> Iterator[LogDirListing]:
        _Looks.looks += 1
        return super().__iter__()


def test_nobody_goes_through_all_log_dirs_for_each_broker(golden: Golden) -> None:
    """Whoever writes a manifest may name a million brokers."""
    found = listing(survey(golden("one-controller")))
    counted = SnapshotListing(log_dirs=_Looks(found.log_dirs), unread=found.unread)
    for broker_id in range(1, 104):
        assert counted.of_broker(broker_id) == tuple(d for d in found.log_dirs if d.broker_id == broker_id)
    assert _Looks.looks == 1
