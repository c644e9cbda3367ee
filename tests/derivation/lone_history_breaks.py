"""What happened to a copy of the small cluster between two snapshots, and the invariant that alone tells of it.

Family C, and what groups do in time. In: the files of before and of after, the same. Out: both, one thing changed.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.derivation.coordinator_breaks import with_fields
from tests.derivation.damage import batches, edit, place, sealed
from tests.derivation.lone_cluster_breaks import cut
from tests.derivation.lone_log_breaks import everywhere
from tests.derivation.rejoined import set_high_watermark
from tests.derivation.small_cluster import BROKERS
from tests.derivation.storage_breaks import checkpointed
from tidegauge.kafka_log.batch import CONTROL_BIT
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.coordinator_records import (
    OtherCoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from tidegauge.kafka_log.records import Record, RecordBatch, read_batch

Change = Callable[[Path, Path], None]


def high_watermark_back(before: Path, after: Path) -> None:
    set_high_watermark(after / "broker-3/plain-0", 20)


def tail_lost_on_one_replica(before: Path, after: Path) -> None:
    cut(after, "broker-3", "plain-0", 50)
    set_high_watermark(after / "broker-3/plain-0", 40)


def log_start_back(before: Path, after: Path) -> None:
    for directory, offset in ((before, 33), (after, 12)):
        for broker in BROKERS:
            checkpointed(directory / broker, "log-start-offset-checkpoint", "plain", 0, offset)


def other_words(path: Path, at: int) -> None:
    """Other bytes in a batch's last value, under its epoch, with a checksum that fits."""
    start, end = place(batches(path)[at])

    def change(data: bytearray) -> None:
        data[end - 3] ^= 0x55
        sealed(data, start, end)

    edit(path, change)


def committed_records_exchanged(before: Path, after: Path) -> None:
    everywhere(after, "plain-0", lambda path: other_words(path, 2))


def tail_written_again_in_its_epoch(before: Path, after: Path) -> None:
    """All replicas forgot a batch that nobody had committed, and their leader wrote another in the same epoch."""
    for directory in (before, after):
        for broker in BROKERS:
            set_high_watermark(directory / broker / "plain-0", 40)
        for broker in BROKERS[::2]:
            cut(directory, broker, "plain-0", 50)
    other_words(next((after / "broker-2/plain-0").glob("*.log")), -1)


def commit_back(before: Path, after: Path) -> None:
    """An operator sets the group back: one commit more, of an offset below."""
    everywhere(after, "__consumer_offsets-0", _with_another_commit)


def _with_another_commit(path: Path) -> None:
    data, rows = path.read_bytes(), batches(path)
    found = (read_batch(data[slice(*place(row))]) for row in rows)
    commit, record = [
        (batch, record)
        for batch in found
        if isinstance(batch, RecordBatch) and not batch.attributes & CONTROL_BIT
        for record in batch.records
        if _commits(record)
    ][-1]
    decoded = decode_coordinator_record("__consumer_offsets", record.key, record.value)
    assert isinstance(decoded, OtherCoordinatorRecord)
    key, value = encode_coordinator_record("__consumer_offsets", with_fields(decoded, offset=20))
    end = int(rows[-1]["last_offset"]) + 1
    less = replace(record, offset=end, key=key, value=value)
    path.write_bytes(data + write_batch(replace(commit, base_offset=end, last_offset=end, records=(less,))))


def _commits(record: Record) -> bool:
    decoded = decode_coordinator_record("__consumer_offsets", record.key, record.value)
    assert isinstance(decoded, OtherCoordinatorRecord)
    key: Mapping[str, Any] = decoded.key
    return decoded.name == "OffsetCommit" and key["topic"] == "orders" and key["partition"] == 0


LONE_HISTORY_BREAKS: Final[Mapping[Change, str]] = MappingProxyType(
    {
        high_watermark_back: "C07",
        tail_lost_on_one_replica: "C08",
        log_start_back: "C09",
        committed_records_exchanged: "C10",
        tail_written_again_in_its_epoch: "C11",
        commit_back: "J04",
    }
)
