"""The records of a segment against their batches' headers, while the segment is scanned.

In: a scan's rows with the bytes that they were read from. Out: a `RecordCheck`. A segment's records cost some tens of
milliseconds, however large it is. Up to `PLAIN_BYTES_READ` bytes of plain batches, and up to `PACKED_BYTES_READ` of
compressed ones, all are looked into; of a larger segment, batches spread evenly over it. How many were is counted: who
writes wrong batches writes many. A batch that unpacks to more than is left of the segment's allowance is passed over,
too: nothing is known against it.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.segments.log_place import LogPlace
from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.batch import compression_type
from tidegauge.kafka_log.compression import decompress_to_array
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.old_formats import inside, of_old_format
from tidegauge.kafka_log.record_kernel import (
    BROKEN_FORM,
    BROKEN_OFFSETS,
    BROKEN_TIMESTAMPS,
    check_plain_batches,
    check_records,
)

PLAIN_BYTES_READ: Final = 64 << 20
"""Bytes of plain batches of a segment that are walked over, about."""
PACKED_BYTES_READ: Final = 8 << 20
"""Compressed bytes of a segment that are unpacked, about."""
PACKED_BATCHES_READ: Final = 2048
"""After so many unpacked batches every other one is passed over: small ones cost more than their bytes tell."""
PLACES_KEPT: Final = 20

_CODEC_MASK: Final = 7
_KINDS: Final = ((BROKEN_FORM, "records"), (BROKEN_OFFSETS, "record_offsets"), (BROKEN_TIMESTAMPS, "timestamps"))
_TOLD: Final = {
    "records": "its bytes are not the records that the header tells",
    "record_offsets": "offset deltas of its records do not rise, or leave the batch's range",
    "timestamps": "the header's largest timestamp is not that of its records",
}


@dataclass(slots=True, kw_only=True)
class RecordCheck:
    """What the records of one segment say of their headers. Counts are batches; `places` are the first ones.

    `batches_passed_over` are sound batches that were not looked into.
    """

    batches_read: int = 0
    batches_passed_over: int = 0
    form_errors: int = 0
    offset_errors: int = 0
    timestamp_errors: int = 0
    places: list[LogPlace] = field(default_factory=list)

    def _note(self, row: Any, wrong: int) -> None:
        self.form_errors += bool(wrong & BROKEN_FORM)
        self.offset_errors += bool(wrong & BROKEN_OFFSETS)
        self.timestamp_errors += bool(wrong & BROKEN_TIMESTAMPS)
        for bit, kind in _KINDS:
            if wrong & bit and len(self.places) < PLACES_KEPT:
                self.places.append(
                    {
                        "kind": kind,
                        "position": int(row["position"]),
                        "end_position": int(row["position"] + row["size_bytes"]),
                        "start_offset": int(row["base_offset"]),
                        "end_offset": int(row["last_offset"]) + 1,
                        "records": int(row["record_count"]),
                        "detail": _TOLD[kind],
                    }
                )


class RecordChecker:
    """Feeds a `RecordCheck` with a segment's rows, as `kafka_log.scan.scan_batches` shows them."""

    def __init__(self, *, log_size_bytes: int) -> None:
        self.found = RecordCheck()
        self._stride = max(1, log_size_bytes // PACKED_BYTES_READ)
        self._plain_stride = max(1, log_size_bytes // PLAIN_BYTES_READ)
        self._plain_seen = 0
        self._packed_seen = 0
        self._packed_read = 0
        self._allowance = Allowance()
        self._wrong: NDArray[Any] = np.zeros(4096, dtype=np.int64)

    def take(self, rows: NDArray[Any], data: memoryview, first_position: int) -> None:
        """Rows of a block, and the file's bytes from `first_position` on."""
        if len(rows) > len(self._wrong):
            self._wrong = np.zeros(len(rows), dtype=np.int64)
        wrong = self._wrong[: len(rows)]
        self._plain_seen = check_plain_batches(
            np.frombuffer(data, np.uint8),
            first_position,
            rows,
            layout.RECORDS_AT,
            self._plain_stride,
            self._plain_seen,
            wrong,
        )
        sound = (rows["crc_valid"] != 0) & (rows["magic"] == layout.CURRENT_MAGIC)
        packed = sound & ((rows["attributes"] & _CODEC_MASK) != 0) & (rows["record_count"] > 0)
        # The scan has looked into every entry of an old format.
        older = (rows["crc_valid"] != 0) & of_old_format(rows)
        self.found.batches_read += int(np.count_nonzero(older))
        for at in np.nonzero(older & (rows["record_count"] < 0))[0]:
            self._unread_wrapper(rows[at], data, first_position)
        passed_over = int(np.count_nonzero(wrong < 0))
        self.found.batches_read += int(np.count_nonzero(sound)) - int(np.count_nonzero(packed)) - passed_over
        self.found.batches_passed_over += passed_over
        for at in np.nonzero(wrong > 0)[0]:
            self.found._note(rows[at], int(wrong[at]))
        for at in np.nonzero(packed)[0]:
            self._packed(rows[at], data, first_position)

    def _unread_wrapper(self, row: Any, data: memoryview, first_position: int) -> None:
        """Asks again why: the row has no room for it."""
        found = inside(_bytes_of(row, data, first_position))
        if isinstance(found, Corruption) and found.kind == Damage.NOT_READ:
            self.found.batches_read -= 1
            self.found.batches_passed_over += 1
        else:
            self.found._note(row, BROKEN_FORM)

    def _packed(self, row: Any, data: memoryview, first_position: int) -> None:
        self._packed_seen += 1
        if (self._packed_seen - 1) % self._stride:
            self.found.batches_passed_over += 1
            return
        self._packed_read += 1
        if self._packed_read % PACKED_BATCHES_READ == 0:
            self._stride *= 2
        body = unpacked(row, _bytes_of(row, data, first_position), self._allowance)
        if isinstance(body, Corruption) and body.kind == Damage.NOT_READ:
            self.found.batches_passed_over += 1
            return
        self.found.batches_read += 1
        wrong = (
            BROKEN_FORM
            if isinstance(body, Corruption)
            else check_records(
                body,
                0,
                len(body),
                int(row["record_count"]),
                int(row["last_offset"]) - int(row["base_offset"]),
                int(row["base_timestamp"]),
                int(row["max_timestamp"]),
                int(row["attributes"]),
            )
        )
        if wrong:
            self.found._note(row, wrong)


def _bytes_of(row: Any, data: memoryview, first_position: int) -> memoryview:
    start = int(row["position"]) - first_position
    return data[start : start + int(row["size_bytes"])]


def unpacked(row: Any, batch: memoryview, allowance: Allowance) -> NDArray[np.uint8] | Corruption:
    """The plain bytes of a batch's records; a `Corruption` if its codec cannot give them, of kind NOT_READ if they are
    more than the log's allowance.
    """
    allowance.earn(len(batch))
    codec, most = compression_type(int(row["attributes"])), allowance.bytes_of_a_batch
    if codec is None:
        return Corruption(kind=Damage.RECORDS, position=0, end_position=len(batch), detail="no such codec")
    body = decompress_to_array(codec, batch[layout.RECORDS_AT :], max_plain_bytes=most)
    # How far a codec came with bytes that it could not unpack is not known.
    allowance.spend(plain_bytes=most if isinstance(body, Corruption) else len(body))
    return body
