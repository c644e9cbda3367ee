"""What to look for in files that no fact tells of: whether a look-alike is really there.

In: a snapshot's directory, and the earlier one's if there is one. Out: whether it shows what its name says.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.derivation.damage import batches, segments
from tidegauge.kafka_log.batch import CONTROL_BIT, DELETE_HORIZON_BIT
from tidegauge.kafka_log.checkpoints import parse_leader_epoch_checkpoint
from tidegauge.kafka_log.producer_snapshot import parse_producer_snapshot

Looks = Callable[[Path, Path | None], bool]
BROKERS: Final = ("broker-1", "broker-2", "broker-3")


def _batches(directory: Path, partition: str, broker: str = "broker-1") -> Iterator[Any]:
    for path in segments(directory / broker / partition):
        yield from batches(path)


def _cleaned(directory: Path) -> Iterator[Any]:
    return (row for row in _batches(directory, "compacted-0") if int(row["attributes"]) & DELETE_HORIZON_BIT)


def cleaned_batches_differ(directory: Path, previous: Path | None) -> bool:
    """One batch, at one offset, with another checksum on each replica."""
    checksums = [
        {int(row["base_offset"]): int(row["crc"]) for row in _batches(directory, "compacted-0", broker)}
        for broker in BROKERS
    ]
    return any(len({of.get(int(row["base_offset"])) for of in checksums}) > 1 for row in _cleaned(directory))


def base_timestamp_above_the_largest(directory: Path, previous: Path | None) -> bool:
    """In a batch with a delete horizon."""
    return any(row["base_timestamp"] > row["max_timestamp"] for row in _cleaned(directory))


def producer_snapshot_without_a_last_sequence(directory: Path, previous: Path | None) -> bool:
    """A snapshot's producer has none, while the log holds data of it."""
    written = {int(row["producer_id"]) for row in _batches(directory, "livetx-0") if int(row["base_sequence"]) >= 0}
    found = parse_producer_snapshot(max((directory / "broker-1/livetx-0").glob("*.snapshot")).read_bytes())
    return any(e.last_sequence == -1 and e.producer_id in written for e in found.entries)


def replicas_have_other_producer_snapshots(directory: Path, previous: Path | None) -> bool:
    """And one of them lies inside of a segment."""
    kept = {b: {p.stem for p in (directory / b / "busy-0").glob("*.snapshot")} for b in BROKERS}
    inside = {b: kept[b] - {p.stem for p in segments(directory / b / "busy-0")} for b in BROKERS}
    ends = {b: max(kept[b]) for b in BROKERS}
    return any(inside[b] - {ends[b]} for b in BROKERS) and len(set(map(frozenset, kept.values()))) > 1


def deleted_directories_wait(directory: Path, previous: Path | None) -> bool:
    """A directory of a deleted topic is still there."""
    return any(directory.glob("broker-*/*-delete"))


def control_batch_of_three_records(directory: Path, previous: Path | None) -> bool:
    """The first batch of the metadata log."""
    first = next(_batches(directory, "__cluster_metadata-0"))
    return bool(int(first["attributes"]) & CONTROL_BIT) and int(first["record_count"]) == 3


def time_index_of_zeros_only(directory: Path, previous: Path | None) -> bool:
    """The first entry of a time index that is not empty says time 0."""
    indexes = (path.read_bytes() for path in directory.glob("broker-*/*/*.timeindex"))
    return any(data and not any(data[:12]) for data in indexes)


def more_abort_markers_than_index_entries(directory: Path, previous: Path | None) -> bool:
    """Of orders-0 and its producer there is nothing but the marker."""
    rows = list(_batches(directory, "orders-0"))
    entries = sum(path.stat().st_size // 34 for path in (directory / "broker-1/orders-0").glob("*.txnindex"))
    return sum(int(row["control_type"]) == 0 for row in rows) > entries


def the_same_sequence_again_and_again(directory: Path, previous: Path | None) -> bool:
    """One producer id and epoch, and base sequence 0 more than once, in committed offsets."""
    found = [
        (partition.name, int(row["producer_id"]), int(row["producer_epoch"]))
        for partition in (directory / "broker-1").glob("__consumer_offsets-*")
        for row in _batches(directory, partition.name)
        if int(row["base_sequence"]) == 0 and int(row["producer_id"]) >= 0
    ]
    return len(found) > len(set(found))


def producers_that_the_next_snapshot_lacks(directory: Path, previous: Path | None) -> bool:
    """Batches of a producer, and behind them a producer snapshot that does not name it."""
    for replica in sorted((directory / "broker-1").glob("*-[0-9]")):
        if replica.name.startswith("__") or "compact" in replica.name:
            continue
        for path in replica.glob("*.snapshot"):
            named = {entry.producer_id for entry in parse_producer_snapshot(path.read_bytes()).entries}
            before = (row for row in _batches(directory, replica.name) if int(row["last_offset"]) < int(path.stem))
            if any(int(row["producer_id"]) not in {-1, *named} for row in before):
                return True
    return False


def epochs_are_listed_no_more(directory: Path, previous: Path | None) -> bool:
    """A replica that is the same one listed an epoch, without a batch of it, that it does not list now."""
    assert previous is not None
    for path in previous.glob("broker-*/*/leader-epoch-checkpoint"):
        later = directory / path.relative_to(previous)
        if not later.exists() or _topic_id(later) != _topic_id(path):
            continue
        then, now = (
            {e.leader_epoch for e in parse_leader_epoch_checkpoint(p.read_bytes()).entries} for p in (path, later)
        )
        written = {int(row["partition_leader_epoch"]) for row in _rows(path.parent)}
        if then - now - written:
            return True
    return False


def _topic_id(path: Path) -> str:
    return (path.parent / "partition.metadata").read_text()


def _rows(replica: Path) -> Iterator[Any]:
    for path in segments(replica):
        yield from batches(path)


def segment_without_an_index(directory: Path, previous: Path | None) -> bool:
    """A log file, and no offset index beside it."""
    return any(not path.with_suffix(".index").exists() for path in directory.glob("broker-*/tierall-0/*.log"))


def bootstrap_file(directory: Path, previous: Path | None) -> bool:
    """The one that formatting left, up to 4.3."""
    return any(directory.glob("broker-*/bootstrap.checkpoint")) or any(
        directory.glob("broker-*/*/bootstrap.checkpoint")
    )


LOOKS: Final[Mapping[str, Looks]] = MappingProxyType(
    {
        look.__name__: look
        for look in (
            cleaned_batches_differ,
            base_timestamp_above_the_largest,
            producer_snapshot_without_a_last_sequence,
            replicas_have_other_producer_snapshots,
            deleted_directories_wait,
            control_batch_of_three_records,
            time_index_of_zeros_only,
            more_abort_markers_than_index_entries,
            the_same_sequence_again_and_again,
            producers_that_the_next_snapshot_lacks,
            epochs_are_listed_no_more,
            segment_without_an_index,
            bootstrap_file,
        )
    }
)
