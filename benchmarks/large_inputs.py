"""Sound inputs at the ends of what clusters have, for `limits.py`: seeds and templates in, log dirs out.

Each is added to a small simulated cluster, as a plain copy. A batch is made once and laid down many times, with other
numbers in it and its checksum computed anew; what is zeros is a hole, so that 50 GB take a few megabytes of a disk.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scan import checksums
from simulate import simulated

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.coordinator_schemas import COORDINATOR_SCHEMAS
from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.framed_records import write_framed
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.metadata_records import METADATA_SCHEMAS
from tidegauge.kafka_log.records import Record, RecordBatch, read_records
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.schema_writer import write_message
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.snapshots.manifest import Consistency

SEED: Final = 20_261_125
_AT_MS: Final = 1_795_000_000_000
_LARGE_BATCH: Final = 100_000_000
_GROUP_PARTITIONS: Final = 50
_AT_ONCE: Final = 1 << 16

Change = Callable[[NDArray[np.uint8], NDArray[np.int64]], None]
"""Writes other numbers into batches, by row, of which the places among all are given."""


def cluster(directory: Path) -> Path:
    """A small sound one, of three brokers; its brokers' log dirs and nothing that tells of them."""
    world = simulated(records=1_000, partitions=4, batch=10)
    write_snapshot(
        directory, snapshot_of(world), cluster="limits", snapshot_id="large", consistency=Consistency.ATOMIC,
        truth=world.truth.to_json(),
    )  # fmt: skip
    for told in (*directory.glob("MANIFEST.*"), directory / "TRUTH.json"):
        told.unlink()
    return directory


def _batch(
    records: list[Record], *, epoch: int = 0, producer_id: int = -1, codec: CompressionType | None = None
) -> bytes:
    batch = RecordBatch(
        base_offset=0, last_offset=len(records) - 1, partition_leader_epoch=epoch, crc=0, attributes=0,
        base_timestamp=_AT_MS, max_timestamp=_AT_MS, producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1, base_sequence=0 if producer_id >= 0 else -1,
        records=tuple(records),
    )  # fmt: skip
    return write_batch(batch, codec=CompressionType.NONE if codec is None else codec)


def _record(offset: int, key: bytes | None, value: bytes) -> Record:
    return Record(offset=offset, timestamp=_AT_MS, key=key, value=value)


def _lay(path: Path, template: bytes, numbers: NDArray[np.int64], change: Change, *, base_offset: int = 0) -> None:
    """Appends a batch for each of the numbers."""
    size, records = len(template), int.from_bytes(template[57:61], "big")
    with path.open("ab") as log:
        for start in range(0, len(numbers), _AT_ONCE):
            part = numbers[start : start + _AT_ONCE]
            rows = np.tile(np.frombuffer(template, np.uint8), (len(part), 1))
            _put(rows, 0, base_offset + (start + np.arange(len(part))) * records, ">i8")
            change(rows, part)
            crcs = np.empty(len(part), np.uint32)
            checksums(rows.ctypes.data, size, len(part), crcs)
            _put(rows, 17, crcs, ">u4")
            log.write(rows.tobytes())


def _put(rows: NDArray[np.uint8], at: int, values: NDArray[Any], dtype: str) -> None:
    rows[:, at : at + np.dtype(dtype).itemsize] = values.astype(dtype).view(np.uint8).reshape(len(rows), -1)


def _partition(directory: Path, name: str) -> Path:
    """A new partition of broker 1."""
    (checkpoint,) = directory.glob("broker-1/**/replication-offset-checkpoint")
    place = checkpoint.parent / name
    place.mkdir(exist_ok=True)
    return place


def _log(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


# ---------------------------------------------------------------------------------------------------- large by bytes


def _hollow_batch() -> bytes:
    """The beginning of a batch of one record, whose value, all zeros, follows."""
    whole = _batch([_record(0, None, bytes(_LARGE_BATCH - layout.HEADER_BYTES - 16))])
    return whole[: layout.HEADER_BYTES + 16]


def _hollow(path: Path, head: bytes, batches: int, base_offset: int) -> None:
    with path.open("wb") as log:
        for number in range(batches):
            log.seek(number * _LARGE_BATCH)
            log.write((base_offset + number).to_bytes(8, "big") + head[8:])
        log.truncate(batches * _LARGE_BATCH)


def partition_of_50_gb(directory: Path) -> None:
    """Fifty segments of ten batches of 100 MB."""
    place, head = _partition(directory, "large-0"), _hollow_head()
    for segment in range(50):
        _hollow(place / _log(10 * segment), head, 10, 10 * segment)


def segment_of_4_gb(directory: Path) -> None:
    """One of 2 GB, as large as Kafka writes any, and one of 4 GB, which is none of Kafka's."""
    place, head = _partition(directory, "large-0"), _hollow_head()
    _hollow(place / _log(0), head, 21, 0)
    _hollow(place / _log(21), head, 43, 21)


def batch_of_100_mb(directory: Path) -> None:
    """Packed bytes of which nothing can be spared."""
    values = np.random.default_rng(SEED).integers(0, 256, (97_000, 1_000), np.uint8)
    records = [_record(number, None, value.tobytes()) for number, value in enumerate(values)]
    (_partition(directory, "large-0") / _log(0)).write_bytes(_batch(records, codec=CompressionType.ZSTD))


def _hollow_head() -> bytes:
    head = _hollow_batch()
    size = int.from_bytes(head[8:12], "big") + layout.LOG_OVERHEAD
    assert abs(size - _LARGE_BATCH) < 16
    # A few bytes more of the value make it as long as it is to be.
    missing = _LARGE_BATCH - size
    whole = _batch([_record(0, None, bytes(_LARGE_BATCH - layout.HEADER_BYTES - 16 + missing))])
    assert len(whole) == _LARGE_BATCH
    assert not any(whole[layout.HEADER_BYTES + 16 :][:4096])
    assert crc32c(whole[layout.ATTRIBUTES_AT :]) == int.from_bytes(whole[17:21], "big")
    return whole[: layout.HEADER_BYTES + 16]


# ---------------------------------------------------------------------------------------------------- large by records


def metadata_log_of_5_million_records(directory: Path) -> None:
    """Followers that leave the in-sync replicas of a partition and come back to them."""
    log = max(next(directory.glob("broker-1/**/__cluster_metadata-0")).glob("*.log"))
    rows, _ = scan_buffer(log.read_bytes())
    topic = next(fields for fields in _metadata_records(log.read_bytes()) if fields.get("topic_id") and "isr" in fields)
    schema = next(s for s in METADATA_SCHEMAS.values() if s.name == "PartitionChangeRecord")

    def change(isr: list[int]) -> bytes:
        fields = {"partition_id": 0, "topic_id": topic["topic_id"], "isr": isr}
        return write_framed(schema, 2, fields)

    out, back = change([1, 2]), change([1, 2, 3])
    records = [_record(number, None, back if number % 2 else out) for number in range(60)]
    template = _batch(records, epoch=int(rows[-1]["partition_leader_epoch"]))
    partitions = np.random.default_rng(SEED).integers(0, 4, -(-5_000_000 // 60), np.int64)
    places = [
        at for at in range(len(template)) if template.startswith(out[:7], at) or template.startswith(back[:7], at)
    ]

    def other_partition(batches: NDArray[np.uint8], of: NDArray[np.int64]) -> None:
        for place in places:
            _put(batches, place + 3, of, ">i4")

    _lay(log, template, partitions, other_partition, base_offset=int(rows[-1]["last_offset"]) + 1)


def _metadata_records(log: bytes) -> list[Mapping[str, Any]]:
    from tidegauge.kafka_log.metadata_records import MetadataRecord, decode_metadata_record

    found = []
    rows, _ = scan_buffer(log)
    for row in rows[rows["control_type"] == -1]:
        read = read_records(log[row["position"] : row["position"] + row["size_bytes"]])
        for record in read if isinstance(read, tuple) else ():
            decoded = decode_metadata_record(record.value or b"")
            if isinstance(decoded, MetadataRecord):
                found.append(decoded.fields)
    return found


def two_million_producers(directory: Path) -> None:
    """Each of one batch."""
    template = _batch([_record(0, None, b"x")], producer_id=0)

    def other_producer(batches: NDArray[np.uint8], of: NDArray[np.int64]) -> None:
        _put(batches, 43, of, ">i8")

    _lay(_partition(directory, "large-0") / _log(0), template, np.arange(2_000_000), other_producer)


def a_million_groups(directory: Path) -> None:
    """Each has committed one offset of one partition."""
    key = write_message(
        COORDINATOR_SCHEMAS["OffsetCommitKey"], {"group": "g0000000", "topic": "orders", "partition": 0}, 0
    )
    value = write_message(
        COORDINATOR_SCHEMAS["OffsetCommitValue"],
        {"offset": 1, "leader_epoch": 0, "metadata": "", "commit_timestamp": _AT_MS}, 3,
    )  # fmt: skip
    template = _batch([_record(0, b"\0\1" + key, b"\0\3" + value)])
    at = template.index(b"g0000000") + 1
    groups = np.arange(1_000_000)
    digits = (groups[:, None] // 10 ** np.arange(6, -1, -1) % 10 + ord("0")).astype(np.uint8)
    code = np.full(len(groups), ord("g"), np.int64)
    for column in digits.T:
        code = (31 * code + column) & 0xFFFFFFFF
    signed = np.where(code >= 1 << 31, code - (1 << 32), code)
    partition = np.where(signed == -(1 << 31), 0, np.abs(signed)) % _GROUP_PARTITIONS

    def other_group(batches: NDArray[np.uint8], of: NDArray[np.int64]) -> None:
        batches[:, at : at + 7] = digits[of]

    for number in range(_GROUP_PARTITIONS):
        place = _partition(directory, f"{CONSUMER_OFFSETS}-{number}")
        for old in place.iterdir():
            old.unlink()
        _lay(place / _log(0), template, groups[partition == number], other_group)


LARGE: Final[Mapping[str, Callable[[Path], None]]] = {
    "a partition of 50 GB": partition_of_50_gb,
    "a segment of 2 GB and one of 4 GB": segment_of_4_gb,
    "a batch of 100 MB": batch_of_100_mb,
    "a metadata log of 5 million records": metadata_log_of_5_million_records,
    "2 million producers": two_million_producers,
    "1 million groups": a_million_groups,
}
