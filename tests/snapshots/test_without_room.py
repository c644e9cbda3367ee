"""Copies without the room at their end: what is stored and what is told of it are together the source's bytes."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.snapshots.test_manifest import MANIFEST
from tidegauge.snapshots.copying import Meter, copy_file
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.listing import listing
from tidegauge.snapshots.local_path import LARGEST_FILE_OF_KAFKA
from tidegauge.snapshots.manifest import FileEntry, Manifest, from_json, to_json
from tidegauge.snapshots.source_files import SourceFile
from tidegauge.snapshots.throttle import Throttle

BLOCK = 4096
PIECES = st.lists(
    st.tuples(st.sampled_from([b"\0", b"x", b"\0x", b"x\0"]), st.sampled_from([0, 1, 7, BLOCK // 2, BLOCK, 3 * BLOCK])),
    max_size=5,
)


class Bytes:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        self.data += data

    def skip(self, size: int) -> None:
        self.data += bytes(size)


class InChunks(Throttle):
    """No limit, and chunks of a size."""

    def __init__(self, size: int) -> None:
        super().__init__(None)
        self._size = size

    @property
    def chunk_bytes(self) -> int:
        return self._size


def copied_without_room(path: Path, chunk_bytes: int) -> tuple[bytes, int, str]:
    sink, meter = Bytes(), Meter(throttle=InChunks(chunk_bytes))
    with path.open("rb") as file:
        found = copy_file(SourceFile(file.fileno()), sink, meter, without_room=True)
    assert found.size_bytes == len(sink.data)
    assert found.source_size_bytes == path.stat().st_size
    return bytes(sink.data), found.zeros_behind, found.sha256


@settings(deadline=None)
@given(
    pieces=PIECES,
    hole=st.sampled_from([0, 1, BLOCK - 1, BLOCK, 5 * BLOCK + 3]),
    chunk=st.sampled_from([5, 4096, 1 << 20]),
)
def test_bytes_and_zeros_are_the_source(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[bytes, int]], hole: int, chunk: int
) -> None:
    path = tmp_path_factory.mktemp("room") / "x.index"
    written = b"".join(what * count for what, count in pieces)
    path.write_bytes(written)
    os.truncate(path, len(written) + hole)
    data, zeros, digest = copied_without_room(path, chunk)
    assert data + bytes(zeros) == path.read_bytes()
    assert digest == hashlib.sha256(data).hexdigest()
    # A block or more is told; and where it is told, none of it is stored.
    assert zeros == 0 or (zeros >= BLOCK and not data.endswith(b"\0"))
    assert zeros > 0 or len(data) - len(data.rstrip(b"\0")) < BLOCK


def manifest(path: str, **changes: int) -> Manifest:
    entry = FileEntry(path=path, size_bytes=24, **changes)
    return replace(MANIFEST, brokers=(replace(MANIFEST.brokers[0], files=(entry,)),))


@pytest.mark.parametrize("suffix", ["index", "timeindex", "index.deleted", "timeindex.swap"])
def test_an_index_says_how_large_it_was(suffix: str) -> None:
    told = manifest(f"broker-3/orders-0/{0:020d}.{suffix}", zeros_behind=8192)
    read = from_json(to_json(told), place=Path(), where="here")
    assert read == told
    (file,) = read.files()
    assert file.log_size_bytes == 8216


def test_a_manifest_from_before_says_nothing_of_room() -> None:
    value = json.loads(to_json(manifest(f"broker-3/orders-0/{0:020d}.index")))
    assert "zeros_behind" not in value["brokers"][0]["files"][0]
    (file,) = from_json(json.dumps(value), place=Path(), where="here").files()
    assert (file.zeros_behind, file.log_size_bytes) == (0, 24)


@pytest.mark.parametrize("name", [f"{0:020d}.log", f"{0:020d}.snapshot", "leader-epoch-checkpoint"])
def test_nothing_else_has_room(name: str) -> None:
    with pytest.raises(SnapshotError, match="is no index"):
        from_json(to_json(manifest(f"broker-3/orders-0/{name}", zeros_behind=8192)), place=Path(), where="here")


def test_a_claim_of_more_zeros_than_a_file_of_kafka_has_is_named_and_not_read() -> None:
    path = f"broker-3/orders-0/{0:020d}.index"
    found = listing(manifest(path, zeros_behind=LARGEST_FILE_OF_KAFKA))
    assert any(left.path == path and "larger than any file of Kafka's" in left.reason for left in found.unread)
