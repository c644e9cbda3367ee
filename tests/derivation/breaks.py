"""Ways to break one thing in a copy of a capture, and what of its facts each must make wrong."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.derivation.damage import batches, edit, place, sealed, sealed_snapshot, segments

PARTITIONS: Final = (
    "__cluster_metadata-0",
    "__consumer_offsets-0",
    "__consumer_offsets-1",
    "__consumer_offsets-2",
    "live-0",
    "livetx-0",
    "txn-0",
)
REPLICA: Final = "broker-2/live-0"
TRANSACTIONAL: Final = "broker-2/livetx-0"
Break = Callable[[Path], None]


def first(d: Path) -> Path:
    return segments(d / REPLICA)[0]


def last(d: Path) -> Path:
    return segments(d / REPLICA)[-1]


def flip_in_records(d: Path) -> None:
    _, end = place(batches(first(d))[3])
    edit(first(d), lambda b: b.__setitem__(end - 5, b[end - 5] ^ 1))


def flip_in_records_of_the_last_batch(d: Path) -> None:
    _, end = place(batches(last(d))[-1])
    edit(last(d), lambda b: b.__setitem__(end - 5, b[end - 5] ^ 1))


def flip_in_records_of_the_last_batch_after_a_crash(d: Path) -> None:
    flip_in_records_of_the_last_batch(d)
    crash(d)


def other_epoch(d: Path) -> None:
    start, _ = place(batches(first(d))[3])
    edit(first(d), lambda b: struct.pack_into(">i", b, start + 12, 7))


def other_magic(d: Path) -> None:
    start, _ = place(batches(first(d))[3])
    edit(first(d), lambda b: b.__setitem__(start + 16, b[start + 16] ^ 1))


def other_base_offset(d: Path) -> None:
    row = batches(first(d))[3]
    edit(first(d), lambda b: struct.pack_into(">q", b, place(row)[0], int(row["base_offset"]) + 1_000))


def crash(d: Path) -> None:
    (d / "broker-2/.kafka_cleanshutdown").unlink()


def negative_base_offset(d: Path) -> None:
    edit(first(d), lambda b: struct.pack_into(">q", b, 0, -5))


def cut_active(d: Path) -> None:
    edit(last(d), lambda b: b[:-37])


def cut_active_after_a_crash(d: Path) -> None:
    cut_active(d)
    crash(d)


def cut_sealed(d: Path) -> None:
    edit(segments(d / REPLICA)[1], lambda b: b[:-37])


def remove_middle_segment(d: Path) -> None:
    segments(d / REPLICA)[1].unlink()


def remove_first_segment(d: Path) -> None:
    first(d).unlink()


def swap_segments(d: Path) -> None:
    _, one, other, _ = segments(d / REPLICA)
    a, b = one.read_bytes(), other.read_bytes()
    one.write_bytes(b)
    other.write_bytes(a)


def zero_page(d: Path) -> None:
    edit(first(d), lambda b: b.__setitem__(slice(8192, 12288), bytes(4096)))


def text_log(d: Path) -> None:
    last(d).write_text("hello\n" * 100)


def text_sealed(d: Path) -> None:
    segments(d / REPLICA)[1].write_text("hello\n" * 100)


def empty_log(d: Path) -> None:
    last(d).write_bytes(b"")


def no_epoch_checkpoint(d: Path) -> None:
    (d / REPLICA / "leader-epoch-checkpoint").unlink()


def garbage_epoch_checkpoint(d: Path) -> None:
    (d / REPLICA / "leader-epoch-checkpoint").write_bytes(b"\x00\xffgarbage\n")


def raised_high_watermark(d: Path) -> None:
    p = d / "broker-2/replication-offset-checkpoint"
    p.write_text(p.read_text().replace("live 0 977", "live 0 99999"))


def bad_index_offset(d: Path) -> None:
    edit(first(d).with_suffix(".index"), lambda b: b.__setitem__(3, b[3] - 1))


def bad_index_position(d: Path) -> None:
    edit(first(d).with_suffix(".index"), lambda b: b.__setitem__(15, b[15] ^ 1))


def swapped(path: Path, size: int) -> None:
    """The first two entries change places."""
    edit(path, lambda b: b[size : 2 * size] + b[:size] + b[2 * size :])


def swapped_in_the_active_index(d: Path) -> None:
    swapped(last(d).with_suffix(".index"), 8)


def swapped_in_the_active_time_index(d: Path) -> None:
    swapped(last(d).with_suffix(".timeindex"), 12)


def swapped_in_the_transaction_index(d: Path) -> None:
    swapped(txn(d), 34)


def active_index_leads_behind_the_log(d: Path) -> None:
    """The position of the last entry, not its offset."""
    edit(last(d).with_suffix(".index"), lambda b: struct.pack_into(">i", b, len(b) - 4, 1 << 20))


def active_time_index_without_its_last_entry(d: Path) -> None:
    edit(last(d).with_suffix(".timeindex"), lambda b: b[:-12])


def odd_index(d: Path) -> None:
    edit(first(d).with_suffix(".index"), lambda b: b[:-3])


def bad_time_index(d: Path) -> None:
    edit(first(d).with_suffix(".timeindex"), lambda b: b.__setitem__(31, b[31] ^ 1))


def short_time_index(d: Path) -> None:
    edit(first(d).with_suffix(".timeindex"), lambda b: b[:-12])


def txn(d: Path) -> Path:
    return sorted((d / TRANSACTIONAL).glob("*.txnindex"))[0]


def txnindex_drop(d: Path) -> None:
    edit(txn(d), lambda b: b[34:])


def txnindex_add(d: Path) -> None:
    def add(b: bytearray) -> bytes:
        version, producer_id, _, marker, _ = struct.unpack(">hqqqq", b[-34:])
        return bytes(b) + struct.pack(">hqqqq", version, producer_id, marker + 1, marker + 2, marker + 3)

    edit(txn(d), add)


def txnindex_lso(d: Path) -> None:
    edit(txn(d), lambda b: struct.pack_into(">q", b, 26, struct.unpack_from(">q", b, 26)[0] - 1))


def txnindex_removed(d: Path) -> None:
    txn(d).unlink()


def snap(d: Path, n: int = 1) -> Path:
    return sorted((d / REPLICA).glob("*.snapshot"))[n]


def snapshot_crc(d: Path) -> None:
    edit(snap(d), lambda b: b.__setitem__(12, b[12] ^ 1))


def snapshot_sequence(d: Path) -> None:
    def change(b: bytearray) -> bytearray:
        b[10 + 10 + 3] ^= 1
        return sealed_snapshot(b)

    edit(snap(d), change)


def snapshot_dropped(d: Path) -> None:
    def change(b: bytearray) -> bytearray:
        struct.pack_into(">i", b, 6, 0)
        return sealed_snapshot(b[:10])

    edit(snap(d), change)


def no_producer_snapshots(d: Path) -> None:
    for path in (d / REPLICA).glob("*.snapshot"):
        path.unlink()


def topic_id(d: Path) -> None:
    (d / REPLICA / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABA")


def other_bytes(d: Path) -> None:
    start, end = place(batches(first(d))[5])

    def change(b: bytearray) -> None:
        b[end - 3] ^= 0x55
        sealed(b, start, end)

    edit(first(d), change)


def duplicated(d: Path) -> None:
    row = batches(last(d))[-1]
    start, end = place(row)

    def change(b: bytearray) -> bytes:
        again = bytearray(b[start:end])
        struct.pack_into(">q", again, 0, int(row["last_offset"]) + 1)
        return bytes(b + again)

    edit(last(d), change)


def dropped_batch(d: Path) -> None:
    start, end = place(batches(first(d))[5])
    edit(first(d), lambda b: b[:start] + b[end:])


def no_checkpoints(d: Path) -> None:
    for path in (d / "broker-2").glob("*-offset-checkpoint"):
        path.unlink()


def garbage_checkpoint(d: Path) -> None:
    (d / "broker-2/replication-offset-checkpoint").write_bytes(b"0\n2\nlive 0 x\n")


def swapped_epochs(d: Path) -> None:
    (d / REPLICA / "leader-epoch-checkpoint").write_text("0\n2\n1 500\n0 0\n")


EXPECTED: Final[dict[Break, tuple[str, ...]]] = {
    flip_in_records: ("segments live-0@2 00000000000000000000.log crc_errors=1",),
    flip_in_records_of_the_last_batch: ("segments live-0@2 00000000000000000963.log crc_errors=1",),
    flip_in_records_of_the_last_batch_after_a_crash: (
        "replicas live-0@2 high_watermark 977 above 976",
        "replicas live-0@2 log ends at 976, readable to 977",
        "replicas live-0@2 recovery_point_offset 977 above 976",
        "segments live-0@2 00000000000000000963.log crc_errors=1",
    ),
    other_epoch: (
        "divergences live-0@2 first_differing_offset=3",
        "divergences live-0@2 first_differing_undiverged_offset=3",
        "epoch_spans live-0@2 epoch 7 not in the checkpoint",
        "segments live-0@2 00000000000000000000.log epoch_order_errors=1",
    ),
    other_base_offset: (
        "divergences live-0@2 first_differing_offset=3",
        "divergences live-0@2 first_differing_undiverged_offset=3",
        "segments live-0@2 00000000000000000000.log offset_gaps=1",
        "segments live-0@2 00000000000000000000.log offset_order_errors=1",
    ),
    cut_active: (
        "index_files live-0@2 00000000000000000963.timeindex pointer_errors=1",
        "index_files live-0@2 00000000000000000977.snapshot misplaced=1",
        "index_files live-0@2 00000000000000000977.snapshot wrong_entries=1",
        "replicas live-0@2 high_watermark 977 above 976",
        "replicas live-0@2 recovery_point_offset 977 above 976",
        "segments live-0@2 00000000000000000963.log length_errors=1",
        "segments live-0@2 00000000000000000963.log torn_tail=1",
    ),
    cut_active_after_a_crash: (
        "index_files live-0@2 00000000000000000977.snapshot misplaced=1",
        "index_files live-0@2 00000000000000000977.snapshot wrong_entries=1",
        "replicas live-0@2 high_watermark 977 above 976",
        "replicas live-0@2 recovery_point_offset 977 above 976",
        "segments live-0@2 00000000000000000963.log length_errors=1",
        "segments live-0@2 00000000000000000963.log torn_tail=1",
    ),
    cut_sealed: (
        "index_files live-0@2 00000000000000000323.timeindex pointer_errors=1",
        "index_files live-0@2 00000000000000000644.snapshot wrong_entries=1",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000323.log length_errors=1",
        "segments live-0@2 00000000000000000323.log torn_tail=1",
    ),
    remove_middle_segment: (
        "divergences live-0@2 first_differing_offset=323",
        "divergences live-0@2 first_differing_undiverged_offset=323",
        "index_files live-0@2 00000000000000000644.snapshot wrong_entries=1",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000644.log offset_gaps=1",
    ),
    swap_segments: (
        "index_files live-0@2 00000000000000000323.index pointer_errors=59",
        "index_files live-0@2 00000000000000000323.timeindex pointer_errors=60",
        "index_files live-0@2 00000000000000000644.index pointer_errors=60",
        "index_files live-0@2 00000000000000000644.snapshot wrong_entries=1",
        "index_files live-0@2 00000000000000000644.timeindex pointer_errors=61",
        "index_files live-0@2 00000000000000000963.snapshot wrong_entries=1",
        "producers live-0@2 producer 8 duplicate_batches=313",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000323.log offset_gaps=1",
        "segments live-0@2 00000000000000000644.log offset_order_errors=1",
        "segments live-0@2 00000000000000000963.log offset_gaps=1",
    ),
    zero_page: (
        "index_files live-0@2 00000000000000000000.index pointer_errors=4",
        "index_files live-0@2 00000000000000000000.timeindex pointer_errors=4",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000000.log crc_errors=1",
        "segments live-0@2 00000000000000000000.log length_errors=1",
    ),
    text_log: (
        "index_files live-0@2 00000000000000000963.timeindex pointer_errors=3",
        "index_files live-0@2 00000000000000000977.snapshot misplaced=1",
        "index_files live-0@2 00000000000000000977.snapshot wrong_entries=1",
        "replicas live-0@2 high_watermark 977 above 963",
        "replicas live-0@2 recovery_point_offset 977 above 963",
        "segments live-0@2 00000000000000000963.log length_errors=1",
        "segments live-0@2 00000000000000000963.log torn_tail=1",
    ),
    text_sealed: (
        "index_files live-0@2 00000000000000000323.index form_errors=59",
        "index_files live-0@2 00000000000000000323.index pointer_errors=59",
        "index_files live-0@2 00000000000000000323.timeindex pointer_errors=60",
        "index_files live-0@2 00000000000000000644.snapshot wrong_entries=1",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000323.log length_errors=1",
        "segments live-0@2 00000000000000000323.log torn_tail=1",
    ),
    empty_log: (
        "index_files live-0@2 00000000000000000963.timeindex pointer_errors=3",
        "index_files live-0@2 00000000000000000977.snapshot misplaced=1",
        "index_files live-0@2 00000000000000000977.snapshot wrong_entries=1",
        "replicas live-0@2 high_watermark 977 above 963",
        "replicas live-0@2 recovery_point_offset 977 above 963",
    ),
    no_epoch_checkpoint: (
        "checkpoint_files broker-2/live-0/leader-epoch-checkpoint unreadable",
        "replicas live-0@2 epoch_checkpoint_missing=1",
    ),
    garbage_epoch_checkpoint: (
        "checkpoint_files broker-2/live-0/leader-epoch-checkpoint unreadable",
        "epoch_spans live-0@2 epoch 0 not in the checkpoint",
    ),
    raised_high_watermark: ("replicas live-0@2 high_watermark 99999 above 977",),
    bad_index_offset: ("index_files live-0@2 00000000000000000000.index pointer_errors=1",),
    bad_index_position: ("index_files live-0@2 00000000000000000000.index pointer_errors=1",),
    swapped_in_the_active_index: ("index_files live-0@2 00000000000000000963.index form_errors=1",),
    swapped_in_the_active_time_index: ("index_files live-0@2 00000000000000000963.timeindex form_errors=1",),
    swapped_in_the_transaction_index: ("index_files livetx-0@2 00000000000000000000.txnindex form_errors=1",),
    active_index_leads_behind_the_log: ("index_files live-0@2 00000000000000000963.index pointer_errors=1",),
    active_time_index_without_its_last_entry: ("index_files live-0@2 00000000000000000963.timeindex pointer_errors=1",),
    odd_index: ("index_files live-0@2 00000000000000000000.index form_errors=1",),
    bad_time_index: ("index_files live-0@2 00000000000000000000.timeindex pointer_errors=1",),
    short_time_index: ("index_files live-0@2 00000000000000000000.timeindex pointer_errors=1",),
    txnindex_drop: ("index_files livetx-0@2 00000000000000000000.txnindex missing_entries=1",),
    txnindex_add: ("index_files livetx-0@2 00000000000000000000.txnindex extra_entries=1",),
    txnindex_lso: ("index_files livetx-0@2 00000000000000000000.txnindex last_stable_offset_errors=1",),
    txnindex_removed: ("index_files livetx-0@2 00000000000000000000.txnindex missing_entries=12",),
    snapshot_crc: (
        "index_files live-0@2 00000000000000000644.snapshot extra_entries=1",
        "index_files live-0@2 00000000000000000644.snapshot form_errors=1",
        "index_files live-0@2 00000000000000000644.snapshot missing_entries=1",
    ),
    snapshot_sequence: ("index_files live-0@2 00000000000000000644.snapshot wrong_entries=1",),
    snapshot_dropped: ("index_files live-0@2 00000000000000000644.snapshot missing_entries=1",),
    topic_id: ("replicas live-0@2 topic_id",),
    other_bytes: (
        "divergences live-0@2 first_differing_offset=5",
        "divergences live-0@2 first_differing_undiverged_offset=5",
        "divergences live-0@2 identity_violation_offset=5",
    ),
    duplicated: (
        "divergences live-0@2 divergence_offset=977",
        "divergences live-0@2 records_at_stake=1",
        "producers live-0@2 producer 8 duplicate_batches=1",
    ),
    dropped_batch: (
        "divergences live-0@2 first_differing_offset=5",
        "divergences live-0@2 first_differing_undiverged_offset=5",
        "index_files live-0@2 00000000000000000000.index pointer_errors=52",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000000.log offset_gaps=1",
    ),
    no_checkpoints: (
        "checkpoint_files broker-2/cleaner-offset-checkpoint unreadable",
        "checkpoint_files broker-2/log-start-offset-checkpoint unreadable",
        "checkpoint_files broker-2/recovery-point-offset-checkpoint unreadable",
        "checkpoint_files broker-2/replication-offset-checkpoint unreadable",
    ),
    garbage_checkpoint: ("checkpoint_files broker-2/replication-offset-checkpoint unreadable",),
    swapped_epochs: ("replicas live-0@2 epoch_checkpoint_disorder=1",),
}
"""What each break makes wrong, to the last column; all else must stay as it was."""

LONE: Final[dict[Break, str]] = {
    flip_in_records: "A03",
    other_base_offset: "A04",
    negative_base_offset: "A11",
    cut_active: "A01",
    remove_middle_segment: "A13",
    bad_index_position: "B02",
    odd_index: "B01",
    swapped_in_the_active_index: "B01",
    swapped_in_the_active_time_index: "B04",
    swapped_in_the_transaction_index: "B05",
    bad_time_index: "B04",
    txnindex_drop: "B06",
    txnindex_lso: "B07",
    snapshot_crc: "B08",
    snapshot_sequence: "B11",
    no_producer_snapshots: "B23",
    garbage_epoch_checkpoint: "B12",
    swapped_epochs: "B13",
    no_epoch_checkpoint: "B15",
    raised_high_watermark: "B16",
    topic_id: "A18",
    other_epoch: "D01",
    other_bytes: "D03",
    empty_log: "D11",
}
"""Of these breaks the invariant that alone tells of it as a root."""
