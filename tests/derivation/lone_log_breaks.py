"""Breaks of one log in a copy of the small cluster, and the invariant that alone tells of each as a root.

Families A, B, C and E. Checksums are made right, and what should be alike on all replicas is changed alike, so that
nothing but the one thing is wrong.
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.derivation.coordinator_breaks import header
from tests.derivation.damage import batches, edit, place, sealed, segments
from tests.derivation.small_cluster import BROKERS, Break
from tests.derivation.storage_breaks import checkpointed, rewritten
from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry, write_producer_snapshot
from tidegauge.kafka_log.records import RecordBatch, read_batch


def log(d: Path, partition: str, broker: str = "broker-1") -> Path:
    """A replica's active segment."""
    return segments(d / broker / partition)[-1]


def everywhere(d: Path, partition: str, change: Callable[[Path], None]) -> None:
    """The same to each replica's active segment."""
    for broker in BROKERS:
        change(log(d, partition, broker))


def in_header(d: Path, partition: str, nth: int, *fields: tuple[int, str, int]) -> None:
    """Other numbers in the header of a batch, on each replica."""
    for at, form, value in fields:
        everywhere(d, partition, lambda path, a=at, f=form, v=value: header(path, batches(path)[nth], a, f, v))  # type: ignore[misc]


def row(d: Path, partition: str, nth: int) -> Any:
    """The header of a batch."""
    return batches(log(d, partition))[nth]


def first_that(d: Path, partition: str, wanted: Callable[[Any], bool]) -> int:
    """Which batch is the last such one."""
    return max(n for n, each in enumerate(batches(log(d, partition))) if wanted(each))


# ------------------------------------------------------------------------------------------------ A: batches and files


def an_older_format(d: Path) -> None:
    """Messages of format 1 in the place of the last batch, as an older client's segment would hold."""

    def change(path: Path) -> None:
        last = batches(path)[-1]
        start, end = place(last)
        body = struct.pack(">bbqii", 1, 0, int(last["max_timestamp"]), -1, 4) + b"word"
        message = struct.pack(">I", zlib.crc32(body)) + body
        offsets = range(int(last["base_offset"]), int(last["last_offset"]) + 1)
        older = b"".join(struct.pack(">qi", offset, len(message)) + message for offset in offsets)
        edit(path, lambda data: data[:start] + older + data[end:])

    everywhere(d, "plain-0", change)


def fewer_records_than_offsets(d: Path) -> None:
    def less(batch: RecordBatch) -> RecordBatch:
        return replace(batch, records=batch.records[:-1])

    everywhere(d, "plain-0", lambda path: rewritten(path, 2, less))


def control_batch_of_the_wrong_shape(d: Path) -> None:
    nth = first_that(d, "orders-1", lambda each: int(each["control_type"]) == 1)
    attributes = int(row(d, "orders-1", nth)["attributes"]) & ~layout.TRANSACTIONAL_BIT
    in_header(d, "orders-1", nth, (layout.ATTRIBUTES_AT, ">h", attributes))


def producer_fields_that_do_not_fit(d: Path) -> None:
    in_header(d, "plain-0", 2, (layout.PRODUCER_EPOCH_AT, ">h", 5))


def no_leader_epoch(d: Path) -> None:
    in_header(d, "plain-0", 2, (12, ">i", -1))


def segment_named_above_its_first_batch(d: Path) -> None:
    for broker in BROKERS:
        for path in sorted((d / broker / "plain-0").glob(f"{0:020d}.*")):
            path.rename(path.with_stem(f"{1:020d}"))


def segments_that_overlap(d: Path) -> None:
    """The first batch of a segment stands at the end of the one before, too."""
    for broker in BROKERS:
        path = log(d, "plain-0", broker)
        data, rows = path.read_bytes(), batches(path)
        (start, end), middle = place(rows[3]), int(rows[3]["base_offset"])
        path.write_bytes(data[:end])
        path.with_name(f"{middle:020d}.log").write_bytes(data[start:])
        for suffix in (".index", ".timeindex"):
            path.with_suffix(suffix).write_bytes(b"")
            path.with_name(f"{middle:020d}{suffix}").write_bytes(b"")
        path.with_name(f"{middle:020d}.snapshot").write_bytes(write_producer_snapshot([]))


# --------------------------------------------------------------------------------------- B: derived files, checkpoints


def transaction_index_cut_short(d: Path) -> None:
    edit(next((d / "broker-1/orders-1").glob("*.txnindex")), lambda data: data[:-3])


def producer_snapshot_of_what_is_to_come(d: Path) -> None:
    """A snapshot inside the log with a producer whose last batch lies behind it."""
    last = row(d, "orders-0", -1)
    entry = ProducerSnapshotEntry(
        producer_id=int(last["producer_id"]),
        producer_epoch=int(last["producer_epoch"]),
        last_sequence=int(last["base_sequence"]) + 9,
        last_offset=int(last["last_offset"]),
        offset_delta=9,
        timestamp=int(last["max_timestamp"]),
        coordinator_epoch=-1,
        current_transaction_first_offset=None,
    )
    name = f"{int(last['base_offset']):020d}.snapshot"
    (d / "broker-1/orders-0" / name).write_bytes(write_producer_snapshot([entry]))


def producer_snapshot_with_a_transaction_that_nobody_began(d: Path) -> None:
    """A snapshot inside the log, from which a broker would go on with a transaction open."""
    first = row(d, "orders-1", 0)
    entry = ProducerSnapshotEntry(
        producer_id=int(first["producer_id"]) + 1,
        producer_epoch=0,
        last_sequence=0,
        last_offset=0,
        offset_delta=0,
        timestamp=int(first["max_timestamp"]),
        coordinator_epoch=-1,
        current_transaction_first_offset=0,
    )
    name = f"{int(first['last_offset']) + 1:020d}.snapshot"
    (d / "broker-1/orders-1" / name).write_bytes(write_producer_snapshot([entry]))


def producer_snapshot_above_the_log(d: Path) -> None:
    (d / f"broker-1/plain-0/{900:020d}.snapshot").write_bytes(write_producer_snapshot([]))


def epochs_miscounted(d: Path) -> None:
    path = d / "broker-1/orders-0/leader-epoch-checkpoint"
    path.write_text(path.read_text().replace("0\n2\n", "0\n7\n", 1))


def epoch_that_starts_elsewhere(d: Path) -> None:
    path = d / "broker-1/orders-0/leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n1 60\n")


def flushed_further_than_the_log(d: Path) -> None:
    checkpointed(d / "broker-1", "recovery-point-offset-checkpoint", "plain", 0, 900)


def log_start_above_the_log(d: Path) -> None:
    checkpointed(d / "broker-1", "log-start-offset-checkpoint", "plain", 0, 900)


# ---------------------------------------------------------------------------------------------------- E: producers


def last_data(d: Path, *fields: tuple[int, str, int]) -> None:
    """Other numbers in the last batch of orders-0, on each replica."""
    in_header(d, "orders-0", -1, *fields)


def a_sequence_is_missing(d: Path) -> None:
    last_data(d, (layout.BASE_SEQUENCE_AT, ">i", int(row(d, "orders-0", -1)["base_sequence"]) + 5))


def a_new_epoch_begins_late(d: Path) -> None:
    last_data(d, (layout.PRODUCER_EPOCH_AT, ">h", 1), (layout.BASE_SEQUENCE_AT, ">i", 40))


def a_zombie_writes(d: Path) -> None:
    """The batch before the last is of the next epoch, so the last one is of an older."""
    in_header(d, "orders-0", -2, (layout.PRODUCER_EPOCH_AT, ">h", 1), (layout.BASE_SEQUENCE_AT, ">i", 0))


def a_batch_twice(d: Path) -> None:
    last_data(d, (layout.BASE_SEQUENCE_AT, ">i", int(row(d, "orders-0", -2)["base_sequence"])))


def batches_that_overlap(d: Path) -> None:
    last_data(d, (layout.BASE_SEQUENCE_AT, ">i", int(row(d, "orders-0", -2)["base_sequence"]) + 5))


def the_same_records_in_a_new_epoch(d: Path) -> None:
    """The last batch again has what the one before has, as a client that gave up and sent anew leaves it."""

    def again(path: Path) -> None:
        *_, before, last = batches(path)
        (start, end), data = place(before), path.read_bytes()
        copy = bytearray(data[start:end])
        struct.pack_into(">q", copy, layout.BASE_OFFSET_AT, int(last["base_offset"]))
        struct.pack_into(">h", copy, layout.PRODUCER_EPOCH_AT, 1)
        struct.pack_into(">i", copy, layout.BASE_SEQUENCE_AT, 0)
        sealed(copy, 0, len(copy))
        path.write_bytes(data[: place(last)[0]] + copy)

    everywhere(d, "orders-0", again)


def a_producer_id_that_nobody_gave(d: Path) -> None:
    last_data(d, (layout.PRODUCER_ID_AT, ">q", 777_777), (layout.BASE_SEQUENCE_AT, ">i", 0))


def a_producer_for_each_message(d: Path) -> None:
    """Behind the log's end 1,001 batches of as many producers."""

    def more(path: Path) -> None:
        last = batches(path)[-1]
        start, end = place(last)
        found = read_batch(path.read_bytes()[start:end])
        assert not isinstance(found, Corruption)
        one = replace(found, base_sequence=0)
        made = []
        for number in range(1_001):
            at = int(last["last_offset"]) + 1 + number
            record = replace(one.records[0], offset=at)
            made.append(
                write_batch(
                    replace(one, base_offset=at, last_offset=at, records=(record,), producer_id=at + at // 1000)
                )
            )
        edit(path, lambda data: bytes(data) + b"".join(made))

    everywhere(d, "orders-0", more)


LONE_LOG_BREAKS: Final[Mapping[Break, str]] = MappingProxyType(
    {
        an_older_format: "A02",
        fewer_records_than_offsets: "A05",
        control_batch_of_the_wrong_shape: "A07",
        producer_fields_that_do_not_fit: "A08",
        no_leader_epoch: "A09",
        segment_named_above_its_first_batch: "A11",
        segments_that_overlap: "A12",
        transaction_index_cut_short: "B05",
        producer_snapshot_of_what_is_to_come: "B09",
        producer_snapshot_above_the_log: "B10",
        epochs_miscounted: "B12",
        epoch_that_starts_elsewhere: "B14",
        flushed_further_than_the_log: "B17",
        log_start_above_the_log: "B18",
        a_sequence_is_missing: "E01",
        a_new_epoch_begins_late: "E02",
        a_zombie_writes: "E03",
        a_batch_twice: "E04",
        batches_that_overlap: "E05",
        the_same_records_in_a_new_epoch: "E06",
        a_producer_id_that_nobody_gave: "E07",
        a_producer_for_each_message: "E08",
    }
)
