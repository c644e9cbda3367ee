"""Damage done to a copy of a capture, and what is then wrong in its facts.

In: a capture's directory. Out: a smaller copy of it that a test may break, writers of the bytes that a disk, a bug or
an operator might leave there, and `wrong`: the columns that invariants judge, wherever they say that all is not well.
"""

import os
import shutil
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import google_crc32c
from numpy.typing import NDArray

from tests.derivation.pipeline import Derived, Row
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.snapshots.holes import read_written

_COUNTED: Final = {
    "segments": (
        "length_errors",
        "torn_tail",
        "magic_errors",
        "crc_errors",
        "offset_order_errors",
        "record_count_errors",
        "control_batch_errors",
        "producer_field_errors",
        "epoch_missing_errors",
        "epoch_order_errors",
        "offset_gaps",
    ),
    "index_files": (
        "form_errors",
        "pointer_errors",
        "range_errors",
        "missing_entries",
        "extra_entries",
        "wrong_entries",
        "last_stable_offset_errors",
        "misplaced",
    ),
    "producers": ("lost_gaps", "nonzero_starts", "epoch_regressions", "duplicate_batches", "overlapping_batches"),
    "replicas": ("epoch_checkpoint_missing", "epoch_checkpoint_disorder"),
    "divergences": ("records_at_stake", "declared_committed"),
    "transactions": ("hanging", "contradicting_markers"),
    "committed_offsets": ("below_log_start", "above_log_end"),
}
"""Columns where anything but 0, false and null is amiss."""

_OFFSETS: Final = {
    "divergences": ("first_differing_offset", "first_differing_undiverged_offset", "identity_violation_offset"),
    "losses": ("start_offset", "end_offset"),
}
"""Columns where any value is."""


def wrong(facts: Derived) -> set[str]:
    """Everything that is amiss, a line each: relation, topic-partition, broker, what of it, column=value."""
    found = set()
    for relation, columns in _COUNTED.items():
        for row in facts.rows.get(relation, []):
            found |= {f"{_subject(relation, row)} {c}={_value(row[c])}" for c in columns if row[c]}
    for relation, columns in _OFFSETS.items():
        for row in facts.rows.get(relation, []):
            found |= {f"{_subject(relation, row)} {c}={row[c]}" for c in columns if row[c] is not None}
    for row in facts.rows.get("divergences", []):
        if row["divergence_offset"] < row["follower_log_end_offset"]:
            found.add(f"{_subject('divergences', row)} divergence_offset={row['divergence_offset']}")
    for row in facts.rows.get("replicas", []):
        found |= {f"{_subject('replicas', row)} {what}" for what in _of_replica(row)}
    for row in facts.rows.get("epoch_spans", []):
        found |= {f"{_subject('epoch_spans', row)} {what}" for what in _of_epoch(row)}
    for row in facts.rows.get("checkpoint_files", []):
        if not row["readable"]:
            found.add(f"checkpoint_files {row['path']} unreadable")
    for row in facts.rows.get("partitions", []):
        lower, upper = row["high_watermark_lower"], row["high_watermark_upper"]
        if lower is not None and upper is not None and upper < lower:
            found.add(f"{_subject('partitions', row)} high watermark in [{lower}, {upper}]")
        missing = sorted(set(row["replicas"] or ()) - set(row["captured_replicas"]))
        if missing:
            found.add(f"{_subject('partitions', row)} without {missing}")
    return found


def _value(value: Any) -> int:
    return int(value)


def _subject(relation: str, row: Row) -> str:
    who = row.get("follower_id", row.get("broker_id"))
    at = f"@{who}" if who is not None and relation != "transactions" else ""
    what = row.get("path") or ""
    what = what.rsplit("/", 1)[-1] if relation != "checkpoint_files" else what
    if relation in ("producers", "transactions"):
        what = f"producer {row['producer_id']}"
    elif relation == "epoch_spans":
        what = f"epoch {row['leader_epoch']}"
    return " ".join(filter(None, (relation, f"{row['topic']}-{row['partition']}{at}", what)))


def _of_replica(row: Row) -> Iterable[str]:
    for name in ("high_watermark", "recovery_point_offset"):
        if row[name] is not None and row[name] > row["log_end_offset"]:
            yield f"{name} {row[name]} above {row['log_end_offset']}"
    if row["topic_id"] is not None and row["topic_id"] != row["metadata_topic_id"] and row["metadata_known"]:
        yield "topic_id"
    if row["readable_end_offset"] != row["log_end_offset"]:
        yield f"log ends at {row['log_end_offset']}, readable to {row['readable_end_offset']}"
    if row["snapshot_replay_possible"] and row["open_first_unstable_offset"] != row["snapshot_first_unstable_offset"]:
        yield "snapshot_first_unstable_offset"


def _of_epoch(row: Row) -> Iterable[str]:
    told, found = row["checkpoint_start_offset"], row["start_offset"]
    if row["epoch_checkpoint_missing"]:
        return
    if told is None and found is not None:
        yield "not in the checkpoint"
    elif told is not None and found is not None and told != found and not row["is_first_entry"]:
        yield f"checkpoint says {told}, batches {found}"
    if found is not None and row["election_known"] and row["elected_leader_id"] is None:
        yield "never elected"


def with_holes(source: str, target: str) -> str:
    """Copies a file with the hole at its end: of an index of 10 MiB most is one."""
    data, hole = read_written(Path(source))
    with open(target, "wb") as out:
        out.write(data)
        out.truncate(len(data) + hole)
    shutil.copystat(source, target)
    return target


def copy_of(capture: Path, directory: Path, *partitions: str) -> Path:
    """The log directories of some partitions of a capture, with what lies beside them."""
    for broker in sorted(capture.glob("broker-*")):
        target = directory / broker.name
        target.mkdir(parents=True)
        for path in sorted(broker.iterdir()):
            if path.is_file():
                shutil.copy(path, target)
            elif path.name in partitions:
                # Tests may remove the metadata log but never write to it, and its indexes are large and mostly holes.
                whole = path.name.startswith("__cluster_metadata")
                shutil.copytree(path, target / path.name, copy_function=os.link if whole else with_holes)
    return directory


def segments(replica: Path) -> list[Path]:
    """A replica's `.log` files in order."""
    return sorted(replica.glob("*.log"))


def edit(path: Path, change: Callable[[bytearray], bytes | bytearray | None]) -> None:
    """Reads a file, changes its bytes (in place, or gives others) and writes it."""
    data = bytearray(path.read_bytes())
    changed = change(data)
    path.write_bytes(data if changed is None else changed)


def batches(path: Path) -> NDArray[Any]:
    """Headers of a segment's batches."""
    return scan_buffer(path.read_bytes())[0]


def place(row: Any) -> tuple[int, int]:
    """Where a batch begins and ends in its file."""
    return int(row["position"]), int(row["position"]) + int(row["size_bytes"])


def sealed(data: bytearray, start: int, end: int) -> None:
    """Gives a batch the checksum of the bytes that it has now."""
    struct.pack_into(">I", data, start + 17, google_crc32c.value(bytes(data[start + 21 : end])))


def sealed_snapshot(data: bytearray) -> bytearray:
    """The same for a producer snapshot."""
    struct.pack_into(">I", data, 2, google_crc32c.value(bytes(data[6:])))
    return data


def producers_in(snapshot: Path) -> list[bytes]:
    """The entries of a producer snapshot, 46 bytes each (`PRODUCER_ENTRY`)."""
    data = snapshot.read_bytes()
    return [data[at : at + 46] for at in range(10, len(data), 46)]


def with_producers(snapshot: Path, entries: Iterable[bytes]) -> None:
    """A producer snapshot with other entries, its count and checksum made right."""
    kept = list(entries)

    def change(data: bytearray) -> bytearray:
        struct.pack_into(">i", data, 6, len(kept))
        return sealed_snapshot(data[:10] + b"".join(kept))

    edit(snapshot, change)


PRODUCER_ENTRY: Final = ">qhiqiqiq"
"""Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, transaction's offset."""


def open_producer(row: Any, *, coordinator_epoch: int) -> bytes:
    """The entry of a producer whose first batch of a transaction is this one, and the last of the log."""
    first, last = int(row["base_offset"]), int(row["last_offset"])
    sequence = int(row["base_sequence"]) + last - first
    told = (int(row["producer_id"]), int(row["producer_epoch"]), sequence, last, last - first)
    return struct.pack(PRODUCER_ENTRY, *told, int(row["max_timestamp"]), coordinator_epoch, first)
