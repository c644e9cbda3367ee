"""Small files written again: what brokers wrote comes out byte for byte, every file of every kind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tidegauge.kafka_log.checkpoints import (
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
    write_leader_epoch_checkpoint,
    write_offset_checkpoint,
)
from tidegauge.kafka_log.indexes import parse_offset_index, parse_time_index, write_offset_index, write_time_index
from tidegauge.kafka_log.producer_snapshot import parse_producer_snapshot, write_producer_snapshot
from tidegauge.kafka_log.properties import (
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
    write_clean_shutdown,
    write_meta_properties,
    write_partition_metadata,
    write_quorum_state,
)
from tidegauge.kafka_log.transaction_index import parse_transaction_index, write_transaction_index

Golden = Callable[[str], Path]


def _meta_properties(data: bytes, _: Path) -> bytes:
    said = parse_meta_properties(data)
    assert said.node_id is not None
    assert said.directory_id is not None
    assert said.cluster_id is not None
    return write_meta_properties(node_id=said.node_id, directory_id=said.directory_id, cluster_id=said.cluster_id)


def _quorum_state(data: bytes, _: Path) -> bytes:
    said = parse_quorum_state(data)
    assert said.leader_epoch is not None
    assert said.voted_directory_id is not None
    return write_quorum_state(
        leader_id=said.leader_id,
        leader_epoch=said.leader_epoch,
        voted_id=said.voted_id,
        voted_directory_id=said.voted_directory_id,
    )


def _offset_index(data: bytes, path: Path) -> bytes:
    read = parse_offset_index(data, base_offset=int(path.stem), log_size_bytes=1 << 31, active=True)
    return write_offset_index(read.offsets, read.positions, base_offset=int(path.stem), size_bytes=len(data))


def _time_index(data: bytes, path: Path) -> bytes:
    read = parse_time_index(data, base_offset=int(path.stem), active=True)
    return write_time_index(read.timestamps, read.offsets, base_offset=int(path.stem), size_bytes=len(data))


REWRITE: dict[str, Callable[[bytes, Path], bytes]] = {
    "*-offset-checkpoint": lambda data, _: write_offset_checkpoint(parse_offset_checkpoint(data).entries),
    "leader-epoch-checkpoint": lambda data, _: write_leader_epoch_checkpoint(
        parse_leader_epoch_checkpoint(data).entries
    ),
    "*.snapshot": lambda data, _: write_producer_snapshot(parse_producer_snapshot(data).entries),
    "*.txnindex": lambda data, _: write_transaction_index(parse_transaction_index(data).entries),
    "partition.metadata": lambda data, _: write_partition_metadata(parse_partition_metadata(data).topic_id or ""),
    ".kafka_cleanshutdown": lambda data, _: write_clean_shutdown(parse_clean_shutdown(data).broker_epoch or -1),
    "meta.properties": _meta_properties,
    "quorum-state": _quorum_state,
    "*.index": _offset_index,
    "*.timeindex": _time_index,
}


@pytest.mark.parametrize("pattern", REWRITE)
def test_a_brokers_file_comes_out_as_it_was(golden: Golden, pattern: str) -> None:
    root = golden("healthy")
    written = 0
    for path in sorted(root.glob(f"broker-*/**/{pattern}")):
        data = path.read_bytes()
        # An untouched file is empty; comments hold the time of writing; preallocated files are as good as one another.
        if not data or (path.parent.name == "__cluster_metadata-0" and path.suffix in (".index", ".timeindex")):
            continue
        expected = b"".join(line for line in data.splitlines(keepends=True) if not line.startswith(b"#"))
        assert REWRITE[pattern](data, path) == (expected if path.name == "meta.properties" else data), path
        written += 1
    assert written > 0
