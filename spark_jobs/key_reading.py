"""A compacted replica's records as digests, read on demand where the derive step runs.

In: a replica's facts, the snapshot's files. Out: a `KeyTable`, or the reason why there is none. The rules that must
hold: records are read of partitions only that a cleaner works on, one partition at a time, since only these are judged
key by key; what a headers snapshot does not have is "no payload"; a batch with a wrong checksum is not looked into.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kafka_log.batch import CONTROL_BIT, DELETE_HORIZON_BIT, MIN_RECORD_BYTES, TRANSACTIONAL_BIT
from kafka_log.old_formats import digest_entry, has_its_magic, of_old_format
from kafka_log.record_kernel import RECORD_DIGEST, digest_records
from snapshots.location import Location, open_bytes
from spark_jobs.facts.key_table import NO_INSTANT, KeyTable, KeyTableBuilder
from spark_jobs.facts.record_check import unpacked
from spark_jobs.facts.replica import ReplicaFacts
from spark_jobs.facts.upkeep import ReadKeys
from spark_jobs.segment_files import SegmentFile

NO_PAYLOAD: Final = "no payload"
UNREADABLE: Final = "a segment could not be read"
_COMMITTED: Final = "committed"


def key_reader(root: Location) -> ReadKeys:
    """Reads each replica's table once."""
    known: dict[str, KeyTable | str] = {}

    def read(replica: ReplicaFacts) -> KeyTable | str:
        name = replica.given.directory
        if name not in known:
            known[name] = _key_table(root, replica)
        return known[name]

    return read


def _key_table(root: Location, replica: ReplicaFacts) -> KeyTable | str:
    if replica.given.unread_bases:
        return UNREADABLE
    builder = KeyTableBuilder()
    for segment in replica.given.segments:
        try:
            with open_bytes(root / segment.stored_path) as file:
                source = SegmentFile(segment.stored_path, file, segment.size_bytes)
                if not source.has_records:
                    return NO_PAYLOAD
                taker = _Taker(builder)
                for _ in source.blocks(taker.take):
                    pass
        except OSError:
            return UNREADABLE
    return builder.table(t for t in replica.replay.transactions if t.outcome != _COMMITTED)


class _Taker:
    """Digests the records of a segment's rows."""

    def __init__(self, builder: KeyTableBuilder) -> None:
        self._builder = builder

    def take(self, rows: NDArray[Any], data: memoryview, first_position: int) -> None:
        data_rows = rows[
            (rows["crc_valid"] != 0)
            & has_its_magic(rows)
            & ((rows["attributes"] & CONTROL_BIT) == 0)
            & (rows["record_count"] > 0)
        ]
        parts: list[NDArray[Any]] = []
        counts = np.zeros(len(data_rows), dtype=np.int64)
        for number, row in enumerate(data_rows):
            start = int(row["position"]) - first_position
            digests = _digests(row, data[start : start + int(row["size_bytes"])])
            if digests is not None:
                parts.append(digests)
                counts[number] = len(digests)
        if not parts:
            return
        horizons = np.where(data_rows["attributes"] & DELETE_HORIZON_BIT, data_rows["base_timestamp"], NO_INSTANT)
        producers = np.where(data_rows["attributes"] & TRANSACTIONAL_BIT, data_rows["producer_id"], -1)
        self._builder.add(
            np.concatenate(parts),
            delete_horizon_ms=np.repeat(horizons, counts),
            producer_id=np.repeat(producers, counts),
            timestamp_ms=np.repeat(data_rows["max_timestamp"], counts),
        )


def _digests(row: Any, batch: memoryview) -> NDArray[Any] | None:
    """A digest of each of a batch's records; None if its bytes are not as many records as its header tells.

    Room is made for records that the bytes can hold, never for as many as the header promises.
    """
    if of_old_format(row):
        return digest_entry(batch, int(row["record_count"]))
    body = unpacked(row, batch)
    count = int(row["record_count"])
    if body is None or count > len(body) // MIN_RECORD_BYTES:
        return None
    out = np.zeros(count, dtype=RECORD_DIGEST)
    read: int = digest_records(body, 0, len(body), count, int(row["base_offset"]), out)
    return out if read == count else None
