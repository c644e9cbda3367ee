"""A compacted replica's records as digests, read on demand where the derive step runs.

In: a replica's facts, the snapshot's files. Out: a `KeyTable`, or the reason why there is none. The rules that must
hold: records are read of partitions only that a cleaner works on, one partition at a time, since only these are judged
key by key; what a headers snapshot does not have is "no payload"; a batch with a wrong checksum is not looked into; and
where a batch unpacks to more than is read there is no table, since a key that is not in it would be taken for lost.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.facts.cleanup.key_table import NO_INSTANT, KeyTable, KeyTableBuilder
from tidegauge.facts.cleanup.upkeep import ReadKeys
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.segments.record_check import unpacked
from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.batch import CONTROL_BIT, DELETE_HORIZON_BIT, MIN_RECORD_BYTES, TRANSACTIONAL_BIT
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.old_formats import digest_entry, has_its_magic, of_old_format
from tidegauge.kafka_log.record_kernel import (
    BROKEN_FORM,
    DIGESTS_AT_ONCE,
    RECORD_DIGEST,
    check_records,
    digest_records,
)
from tidegauge.snapshots.location import Location, open_bytes

NO_PAYLOAD: Final = "no payload"
UNREADABLE: Final = "a segment could not be read"
_COMMITTED: Final = "committed"


def key_reader(root: Location) -> ReadKeys:
    """Reads each replica's table once."""
    known: dict[str, KeyTable | str] = {}

    def read(replica: ReplicaFacts) -> KeyTable | str:
        name = replica.given.place.directory
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
                    if taker.not_read:
                        return UNREADABLE
        except OSError:
            return UNREADABLE
    return builder.table(t for t in replica.replay.transactions if t.outcome != _COMMITTED)


class _Taker:
    """Digests the records of a segment's rows."""

    def __init__(self, builder: KeyTableBuilder) -> None:
        self._builder = builder
        self._allowance = Allowance()
        self.not_read = False
        """A batch holds more than is read."""

    def take(self, rows: NDArray[Any], data: memoryview, first_position: int) -> None:
        data_rows = rows[
            (rows["crc_valid"] != 0)
            & has_its_magic(rows)
            & ((rows["attributes"] & CONTROL_BIT) == 0)
            & (rows["record_count"] > 0)
        ]
        parts: list[NDArray[Any]] = []
        numbers: list[int] = []
        waiting = 0
        for number, row in enumerate(data_rows):
            start = int(row["position"]) - first_position
            found = _digests(row, data[start : start + int(row["size_bytes"])], self._allowance)
            if isinstance(found, Corruption):
                self.not_read |= found.kind == Damage.NOT_READ
                continue
            for digests in found:
                parts.append(digests)
                numbers.append(number)
                waiting += len(digests)
                if waiting >= DIGESTS_AT_ONCE:
                    self._hand_over(data_rows[numbers], parts)
                    parts, numbers, waiting = [], [], 0
        if parts:
            self._hand_over(data_rows[numbers], parts)

    def _hand_over(self, rows: NDArray[Any], parts: list[NDArray[Any]]) -> None:
        """Digests, and of each part its batch's row."""
        counts = [len(digests) for digests in parts]
        horizons = np.where(rows["attributes"] & DELETE_HORIZON_BIT, rows["base_timestamp"], NO_INSTANT)
        producers = np.where(rows["attributes"] & TRANSACTIONAL_BIT, rows["producer_id"], -1)
        self._builder.add(
            np.concatenate(parts),
            delete_horizon_ms=np.repeat(horizons, counts),
            producer_id=np.repeat(producers, counts),
            timestamp_ms=np.repeat(rows["max_timestamp"], counts),
        )


def _digests(row: Any, batch: memoryview, allowance: Allowance) -> Iterable[NDArray[Any]] | Corruption:
    """Digests of a batch's records, `DIGESTS_AT_ONCE` in an array; a `Corruption` if its bytes are not as many records
    as its header tells, or, of kind NOT_READ, more than the log's allowance.

    Room is made for records that the bytes hold, never for as many as the header promises.
    """
    count = int(row["record_count"])
    if of_old_format(row):
        allowance.earn(len(batch))
        return digest_entry(batch, count, allowance=allowance)
    body = unpacked(row, batch, allowance)
    if isinstance(body, Corruption):
        return body
    if count > len(body) // MIN_RECORD_BYTES:
        return _not_digested(batch, Damage.RECORDS)
    if count > allowance.records:
        return _not_digested(batch, Damage.NOT_READ)
    allowance.spend(records=count)
    base_offset = int(row["base_offset"])
    if count > DIGESTS_AT_ONCE:
        # A batch is read all or not at all, so one that comes in pieces is walked over first.
        return _not_digested(batch, Damage.RECORDS) if _broken(row, body) else _in_pieces(body, count, base_offset)
    out = np.zeros(count, dtype=RECORD_DIGEST)
    read = digest_records(body, 0, len(body), base_offset, out) >= 0
    return (out,) if read else _not_digested(batch, Damage.RECORDS)


def _not_digested(batch: memoryview, kind: Damage) -> Corruption:
    return Corruption(kind=kind, position=0, end_position=len(batch), detail="its records are not those of its header")


def _broken(row: Any, body: NDArray[Any]) -> bool:
    """Whether the bytes are not as many records as the header tells; their offsets and times are not asked here."""
    return bool(check_records(body, 0, len(body), int(row["record_count"]), 0, 0, 0, 0) & BROKEN_FORM)


def _in_pieces(body: NDArray[Any], count: int, base_offset: int) -> Iterator[NDArray[Any]]:
    at = 0
    for first in range(0, count, DIGESTS_AT_ONCE):
        out = np.zeros(min(count - first, DIGESTS_AT_ONCE), dtype=RECORD_DIGEST)
        at = digest_records(body, at, len(body), base_offset, out)
        assert at > 0, "the records were walked over before"
        yield out
