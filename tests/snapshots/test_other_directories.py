"""Directories that are no log dir of Kafka: what is said of them, and which one is proposed."""

from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.snapshots.brokers import Log, log_dir
from tidegauge.runs.run import new_run
from tidegauge.snapshots.adopt import adopt, open_snapshot
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.other_directories import is_log_dir, log_dirs_below, what_it_holds
from tidegauge.snapshots.sources import broker_sources

REDPANDA = ("redpanda/controller/0_0/0-1-v1.log", "kafka/orders/0_12/0-1-v1.log", "kafka/orders/0_12/0-1-v1.base_index")
CONFLUENT = (f"0/2Wzl/a1b2/orders/0/{0:020d}_4_v0.segment", f"0/2Wzl/a1b2/orders/0/{0:020d}_4_v0.offset-index")
ZOOKEEPER = ("version-2/snapshot.0", "version-2/log.1", "myid")


def made(directory: Path, *files: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"x")
    return directory


def one_log(directory: Path, *, node: int = 1) -> Path:
    Log.new(log_dir(directory, node=node) / "orders-0").append(3)
    return directory


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ((), "is empty: is its volume mounted"),
        (("lost+found/x",), "holds nothing but lost\\+found"),
        (REDPANDA, "holds Redpanda's files, which are no Kafka log"),
        (tuple(f"data/{name}" for name in REDPANDA), "holds Redpanda's files"),
        (CONFLUENT, "holds objects of Confluent's tiered storage"),
        (ZOOKEEPER, "holds ZooKeeper's data"),
        (("server.log", "controller.log"), "holds what a broker writes for people to read"),
        (("bin/kafka-server-start.sh", "config/server.properties", "libs/kafka.jar"), "holds an installation of Kafka"),
        (("base/1/pg", "PG_VERSION"), "holds PostgreSQL's data"),
        (("a", "b", "c", "d", "e", "f"), "holds a, b, c, d, and 2 more, and nothing of Kafka's"),
        (("member-0/notes.txt",), "holds member-0, and nothing of Kafka's"),
    ],
)
def test_what_lies_there_instead_is_named(tmp_path: Path, files: tuple[str, ...], says: str) -> None:
    directory = made(tmp_path / "copy" / "broker-1", *files)
    assert not is_log_dir(directory)
    with pytest.raises(SnapshotError, match=rf"broker-1: no log dir of a broker: it {says}"):
        open_snapshot(tmp_path / "copy")
    with pytest.raises(SnapshotError, match="holds no broker's log directories"):
        adopt(tmp_path / "copy", cluster="prod")
    assert not (tmp_path / "copy/MANIFEST.json").exists()
    with pytest.raises(SnapshotError, match=rf"no log dir of a Kafka broker: it {says}"):
        broker_sources([f"1={directory}"])


@pytest.mark.parametrize("below", ["kafka-log1", "data-0/kafka-log1", "a volume/kafka/data"])
def test_the_root_of_a_volume_is_refused_with_the_log_dir_below_it(tmp_path: Path, below: str) -> None:
    """Strimzi's volumes are mounted at data-0, which is what a partition may be called, and hold kafka-log<id>."""
    root = made(tmp_path / "volumes" / "pvc", "lost+found/x")
    one_log(root / below)
    with pytest.raises(SnapshotError, match=f"Log dirs lie at {root / below}: name these"):
        broker_sources([f"1={root}"])
    with pytest.raises(SnapshotError, match=f"Log dirs lie at {root / below}: put each at"):
        open_snapshot(root)


def test_a_broker_of_a_copy_that_is_one_level_too_high_is_proposed_the_right_one(tmp_path: Path) -> None:
    made(tmp_path / "broker-1", "lost+found/x")
    one_log(tmp_path / "broker-1/data-0/kafka-log1")
    with pytest.raises(SnapshotError, match=rf"Log dirs lie at {tmp_path}/broker-1/data-0/kafka-log1: put each at"):
        open_snapshot(tmp_path)


def test_one_empty_mount_does_not_stop_the_others_and_is_named(tmp_path: Path) -> None:
    one_log(tmp_path / "broker-1")
    (tmp_path / "broker-2").mkdir()
    manifest = open_snapshot(tmp_path).manifest
    assert [b.broker_id for b in manifest.brokers] == [1]
    assert [(x.path, x.reason) for x in manifest.left_out] == [
        ("broker-2", "no log dir of a broker: it is empty: is its volume mounted?")
    ]


def test_one_whose_log_dirs_lie_deeper_is_named_with_their_places(tmp_path: Path) -> None:
    one_log(tmp_path / "broker-1")
    made(tmp_path / "broker-2", "lost+found/x")
    one_log(tmp_path / "broker-2/data/kafka-log2")
    left_out = {x.path: x.reason for x in open_snapshot(tmp_path).manifest.left_out}
    assert left_out["broker-2"] == (
        "its log dirs lie deeper, at broker-2/data/kafka-log2: put each at broker-2/<any name>"
    )


def test_a_log_dir_without_a_replica_is_one_and_alone_nothing_to_audit(tmp_path: Path) -> None:
    log_dir(tmp_path / "copy" / "broker-1", node=1)
    open_snapshot(tmp_path / "copy")
    with pytest.raises(SnapshotError, match="holds no replica of Kafka, so there is nothing to audit"):
        audited(tmp_path / "copy", tmp_path / "run")
    warnings: list[str] = []
    broker_sources([f"1={tmp_path}/copy/broker-1"], warn=warnings.append)
    assert any("There is no replica of Kafka in" in warning for warning in warnings)
    one_log(tmp_path / "copy" / "broker-2", node=2)
    assert [b.broker_id for b in open_snapshot(tmp_path / "copy").manifest.brokers] == [1, 2]
    audited(tmp_path / "copy", tmp_path / "run")


def test_what_was_adopted_before_and_holds_no_replica_is_refused_by_the_audit(tmp_path: Path) -> None:
    log_dir(tmp_path / "copy" / "broker-1", node=1)
    one_log(tmp_path / "copy/broker-1/volume/kafka")
    adopt(tmp_path / "copy", cluster="prod")
    with pytest.raises(SnapshotError, match=rf"Log dirs lie at {tmp_path}/copy/broker-1/volume/kafka: adopt these"):
        audited(tmp_path / "copy", tmp_path / "run")


def audited(snapshot: Path, run: Path) -> None:
    new_run(run, (str(snapshot),), store_url=None, fail_on="never", started_at_ms=0)


def test_a_log_dir_itself_and_a_directory_of_snapshots_are_told_apart(tmp_path: Path) -> None:
    one_log(tmp_path / "data")
    with pytest.raises(SnapshotError, match=r"This is a log dir itself: put it into a directory of its own"):
        open_snapshot(tmp_path / "data")
    one_log(tmp_path / "prod/first/broker-1")
    adopt(tmp_path / "prod/first", cluster="prod")
    with pytest.raises(SnapshotError, match=rf"It holds 1 snapshots: name one of them, such as {tmp_path}/prod/first"):
        open_snapshot(tmp_path / "prod")


def test_links_are_not_followed_and_a_search_ends(tmp_path: Path) -> None:
    one_log(tmp_path / "elsewhere")
    root = made(tmp_path / "root", "notes.txt")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "round").symlink_to(root)
    assert log_dirs_below(root) == ()
    deep = one_log(root / "1/2/3/4/5/6/7")
    assert log_dirs_below(root) == ()
    assert log_dirs_below(deep.parent) == (deep,)
    assert what_it_holds(root) == "holds 1, linked, notes.txt, round, and nothing of Kafka's"


def test_real_log_dirs_are_found(golden: Golden) -> None:
    for name in ("healthy", "soak-01", "tiered", "disk-failed"):
        assert {p.relative_to(golden(name)).parts[0] for p in log_dirs_below(golden(name))} >= {"broker-1", "broker-2"}
    assert [p.name for p in log_dirs_below(golden("disk-failed") / "broker-1")] == ["d1", "d2", "meta"]
