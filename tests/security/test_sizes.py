"""Files that claim more than any of Kafka's has: named, and neither opened, digested nor copied.

What they hold is not there, so that no work may grow with it. The limits are those of docs/guides/limits.md.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.kafka_log.writing import batch, record
from tests.snapshots.brokers import log_dir
from tests.snapshots.test_capture_live import captured
from tidegauge.snapshots.adopt import Snapshot, adopt, open_snapshot
from tidegauge.snapshots.file_taking import Way
from tidegauge.snapshots.listing import listing
from tidegauge.snapshots.local_path import LARGEST_FILE_OF_KAFKA, LARGEST_FILE_READ_WHOLE
from tidegauge.snapshots.location import local
from tidegauge.snapshots.manifest import FileEntry, LeftOut, Mode
from tidegauge.snapshots.topic_names import TopicNames
from tidegauge.snapshots.verification import verify

TERABYTE: Final = 1 << 40
LOG: Final = f"{0:020d}.log"
CLAIMS: Final = (f"{1:020d}.index", f"{1:020d}.log", f"{2:020d}.snapshot")
REASON: Final = f"cannot be read: {TERABYTE} bytes, larger than any file of Kafka's: these have up to {(1 << 31) - 1}"
TOLD: Final = [LeftOut(path=f"broker-1/orders-0/{name}", reason=REASON) for name in CLAIMS]
HASHED: Final = Way(mode=Mode.HEADERS, names=TopicNames(b"a key that is kept"))


def claiming(path: Path, size: int) -> None:
    with path.open("ab") as file:
        file.truncate(size)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A broker with one sound log, and beside it files that claim a terabyte."""
    log_dir(tmp_path / "copy" / "broker-1")
    partition = tmp_path / "copy" / "broker-1" / "orders-0"
    partition.mkdir(exist_ok=True)
    (partition / LOG).write_bytes(batch(0, record(0, b"key", b"value"), 1))
    for name in CLAIMS:
        claiming(partition / name, TERABYTE)
    return tmp_path / "copy"


def lying(snapshot: Snapshot) -> Snapshot:
    """A manifest that tells of such files as of any others."""
    (broker,) = snapshot.manifest.brokers
    entries = tuple(FileEntry(path=left.path, size_bytes=TERABYTE, sha256="0" * 64) for left in TOLD)
    brokers = (replace(broker, files=(*broker.files, *entries)),)
    return replace(snapshot, manifest=replace(snapshot.manifest, brokers=brokers, left_out=()))


def test_a_plain_copy_names_them(copy: Path) -> None:
    manifest = open_snapshot(copy).manifest
    assert list(manifest.left_out) == TOLD
    assert f"broker-1/orders-0/{LOG}" in {file.path for file in manifest.files()}


def test_nobody_opens_them_to_read_on(copy: Path) -> None:
    for left in TOLD:
        with pytest.raises(OSError, match="larger than any file of Kafka's"):
            (local(copy) / left.path).open("rb")


def test_adopting_and_verifying_digests_none_of_them(copy: Path) -> None:
    adopted = adopt(copy, cluster="prod")
    assert list(adopted.manifest.left_out) == TOLD
    assert verify(adopted) == ()
    assert [left for left in verify(lying(adopted)) if left in TOLD] == TOLD


def test_a_manifest_that_lists_them_has_them_named_as_unread(copy: Path) -> None:
    found = listing(lying(adopt(copy, cluster="prod")).manifest)
    assert [left for left in found.unread if left in TOLD] == TOLD
    assert found.unread_logs() == {"broker-1/orders-0": (1,)}
    (replica,) = found.replicas()
    assert [segment.base_offset for segment in replica.segments] == [0]


@pytest.mark.parametrize("way", [Way(mode=Mode.FULL), Way(mode=Mode.HEADERS), HASHED])
def test_a_capture_names_them_and_copies_what_is_there(copy: Path, tmp_path: Path, way: Way) -> None:
    result = captured(tmp_path / "out", f"1={copy / 'broker-1'}", way=way)
    assert [left.reason for left in result.left_out] == [REASON] * len(CLAIMS)
    assert any(file.path.endswith((LOG, f"{0:020d}.headers")) for file in result.brokers[0].files)


def test_the_largest_file_that_a_broker_writes_is_read(copy: Path) -> None:
    path = copy / "broker-1" / "orders-0" / LOG
    claiming(path, LARGEST_FILE_OF_KAFKA)
    with (local(copy) / "broker-1" / "orders-0" / LOG).open("rb") as file:
        assert file.read(8) == bytes(8)
    assert f"broker-1/orders-0/{LOG}" in {file.path for file in open_snapshot(copy).manifest.files()}


def test_a_checkpoint_is_not_held_whole_to_hash_its_names(copy: Path, tmp_path: Path) -> None:
    """More of it than is read whole of any file, though a file of Kafka's may be larger."""
    size = LARGEST_FILE_READ_WHOLE + 1
    claiming(copy / "broker-1" / "replication-offset-checkpoint", size)
    result = captured(tmp_path / "out", f"1={copy / 'broker-1'}", way=HASHED)
    named = {left.path: left.reason for left in result.left_out}
    assert named["broker-1/replication-offset-checkpoint"] == (
        f"cannot be read: {size} bytes, more than the {LARGEST_FILE_READ_WHOLE} that are read"
    )
