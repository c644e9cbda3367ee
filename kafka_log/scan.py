"""A segment's bytes to its batch headers, one pass, every checksum verified.

In: a function that fills a buffer, and one that passes holes (or the bytes themselves). Out: blocks of rows of
`BATCH_HEADER` in file order, and a `Corruption` for each damaged stretch. The rules that must hold: every byte of the
file is in a row or in a corruption (or in both, where a batch could be read but fails its checksum); no bytes raise an
exception; the time grows with the bytes that are there, whatever they are.

How damage is read. A batch's length decides where the next one begins, and neither the length nor the base offset is
under the checksum (`kafka_log.batch`), so a broken chain is picked up again only at a header whose checksum is right:

    header cannot be one             -> search; LENGTH up to the batch found, TORN_TAIL up to the end if none is
    checksum wrong, a header or the
      end of the file follows        -> row with crc_valid = 0, CRC
    checksum wrong, neither follows  -> search, inside the batch too, for its length may be what is broken; as above,
                                        but if offsets are missing up to the batch found behind it, it keeps its row
                                        and CRC, and LENGTH is about the bytes after it
    magic 0 or 1                     -> row, as an entry of the old formats (`kafka_log.old_formats`), whose checksum
                                        covers the magic, too
    another magic than its format's  -> row, MAGIC; read in the new format, whose checksum is right (the magic is
                                        outside of it)

What this cannot tell: a broken length that is off by exactly some whole batches. They lie inside the row with the wrong
checksum then, and the offsets missing after it give them away.

Holes of a sparse file are passed over, not read, where a search for the next batch comes to them: no batch of any
format begins in zeros. Rows and damage are those of the same bytes without holes.

The memory in use is one buffer, which grows only as far as the file really has the bytes that a length field promises,
and never for more than the largest batch (`scan_kernel.LARGEST_BATCH`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.old_formats import MIN_ENTRY_BYTES, NEWEST, has_its_magic, inside, resolve_wrappers
from tidegauge.kafka_log.scan_kernel import (
    S_ALL_ZERO,
    S_DAMAGED_ROWS,
    S_HEADER_READ,
    S_LAST_OFFSET,
    S_NEED,
    S_POSITION,
    S_ROWS,
    S_UPGRADED,
    STATE_FIELDS,
    Step,
    scan_kernel,
    search_kernel,
)
from tidegauge.kafka_log.sources import PassZeros, ReadInto, no_zeros

BATCH_HEADER: Final = np.dtype(
    [
        ("position", "<i8"),
        ("size_bytes", "<i8"),
        ("base_offset", "<i8"),
        ("last_offset", "<i8"),
        ("partition_leader_epoch", "<i4"),
        ("magic", "i1"),
        ("crc", "<u4"),
        ("crc_valid", "u1"),
        ("attributes", "<i2"),
        ("base_timestamp", "<i8"),
        ("max_timestamp", "<i8"),
        ("producer_id", "<i8"),
        ("producer_epoch", "<i2"),
        ("base_sequence", "<i4"),
        ("record_count", "<i4"),
        ("control_type", "<i2"),
        ("coordinator_epoch", "<i4"),
        ("control_records_ok", "u1"),
    ]
)
"""One row a batch, packed, 85 bytes.

`position` is the byte in the file, `size_bytes` the whole batch. `control_type` is -1 for a data batch, else the first
record's key type (0 abort, 1 commit, 2..6 of the KRaft log), and -2 if there is no such record or it cannot be read.
`coordinator_epoch` is a sound end marker's, else -1. `control_records_ok` is 0 only for a control batch of the wrong
shape; a control batch that the cleaner emptied and the KRaft log's ones with several records are right. So no row holds
bytes of a record that merely claims to be a control record.

In rows of entries of magic 0 and 1 the fields that those formats lack are -1 and `crc_valid` is about their CRC-32. A
wrapper has one row, from its first record's offset to its last one's; the record count is -1, and the first offset no
more than likely, where what is inside cannot be read.
"""

BLOCK_ROWS: Final = 4096
BUFFER_BYTES: Final = 2 << 20
"""Measured from 128 KB to 4 MB: small buffers cost up to 60 % more time, above 2 MB there is nothing left to win."""


OnRows = Callable[[NDArray[Any], memoryview, int], None]
"""Rows, some of the file's bytes, and the file position of the first of these.

Every row comes once and in order, and a batch whose checksum is right lies in the bytes; one with a wrong checksum may
not. The bytes and the rows are only lent for the call.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanBlock:
    """Some batches in file order, and the damage met among them.

    `headers` is a view on an array that the next block overwrites: copy what must be kept.
    """

    headers: NDArray[Any]
    corruptions: tuple[Corruption, ...]


def scan_batches(
    readinto: ReadInto,
    *,
    pass_zeros: PassZeros = no_zeros,
    block_rows: int = BLOCK_ROWS,
    buffer_bytes: int = BUFFER_BYTES,
    on_rows: OnRows | None = None,
) -> Iterator[ScanBlock]:
    """Read a segment from where `readinto` stands up to its end.

    Positions count from the first byte that `readinto` gives. What it raises passes through. `pass_zeros` spares it the
    holes of a sparse file.
    `on_rows` is shown each row before its block comes, as long as the batch's bytes are in memory.
    """
    scanner = _Scanner(readinto, pass_zeros, block_rows, buffer_bytes, on_rows)
    while not scanner.finished:
        yield scanner.next_block()


def scan_buffer(data: bytes | bytearray | memoryview) -> tuple[NDArray[Any], tuple[Corruption, ...]]:
    """Read a whole segment that is in memory; return all its rows (a copy) and all damage."""
    view = memoryview(data).cast("B")
    given = 0

    def readinto(target: memoryview) -> int:
        nonlocal given
        size = min(len(target), len(view) - given)
        target[:size] = view[given : given + size]
        given += size
        return size

    headers, corruptions = [np.empty(0, BATCH_HEADER)], list[Corruption]()
    for block in scan_batches(readinto, buffer_bytes=min(BUFFER_BYTES, max(len(view), layout.HEADER_BYTES))):
        headers.append(block.headers.copy())
        corruptions.extend(block.corruptions)
    return np.concatenate(headers), tuple(corruptions)


class _Scanner:
    """The buffer, the rows and the kernels' state; one `next_block` after the other."""

    def __init__(
        self, readinto: ReadInto, pass_zeros: PassZeros, block_rows: int, buffer_bytes: int, on_rows: OnRows | None
    ) -> None:
        self._readinto = readinto
        self._pass_zeros = pass_zeros
        self._on_rows = on_rows
        self._shown = 0
        self._last_offset_shown = -1
        self._buffer = np.empty(max(buffer_bytes, layout.HEADER_BYTES), np.uint8)
        self._rows = np.empty(max(block_rows, 2), BATCH_HEADER)
        self._state = np.zeros(STATE_FIELDS, np.int64)
        self._state[S_LAST_OFFSET] = -1
        self._offset_in_file = 0
        self._filled = 0
        self._at_eof = False
        self._corruptions: list[Corruption] = []
        self.finished = False

    def next_block(self) -> ScanBlock:
        """Fill the rows as far as they or the file reach."""
        self._state[S_ROWS] = self._state[S_DAMAGED_ROWS] = 0
        self._shown = 0
        self._corruptions = []
        while True:
            step = scan_kernel(*self._window(), self._rows, self._state)
            if step == Step.NEED_BYTES:
                self._refill()
            elif step in (Step.BAD_HEADER, Step.BAD_CRC):
                self._pass_damage(crc_is_wrong=step == Step.BAD_CRC)
            else:
                self.finished = step == Step.DONE
                break
        self._show()
        headers = self._rows[: self._state[S_ROWS]]
        if self._state[S_DAMAGED_ROWS]:
            self._corruptions.extend(_damaged_rows(headers))
        self._corruptions.sort(key=lambda corruption: corruption.position)
        return ScanBlock(headers=headers, corruptions=tuple(self._corruptions))

    def _show(self) -> None:
        """Look into wrappers among the rows that were not shown yet and hand them out, while their bytes are here."""
        count = int(self._state[S_ROWS])
        if count == self._shown:
            return
        rows, data = self._rows[self._shown : count], self._buffer.data[: self._filled]
        resolve_wrappers(rows, data, self._offset_in_file, last_offset_before=self._last_offset_shown)
        if self._on_rows is not None:
            self._on_rows(rows, data, self._offset_in_file)
        self._last_offset_shown = int(rows[-1]["last_offset"])
        self._shown = count

    def _window(self) -> tuple[int, int, int, int, bool]:
        start = int(self._state[S_POSITION]) - self._offset_in_file
        return self._buffer.ctypes.data, start, self._filled, self._offset_in_file, self._at_eof

    def _refill(self) -> None:
        """Read on until the need is met or the file ends; unread bytes move to the front where room is short."""
        start = int(self._state[S_POSITION]) - self._offset_in_file
        need = int(self._state[S_NEED])
        if start + need > len(self._buffer):
            self._show()
            kept = self._filled - start
            self._buffer[:kept] = self._buffer[start : self._filled].copy()
            self._offset_in_file += start
            self._filled = kept
            start = 0
        while not self._at_eof and self._filled - start < need:
            if self._filled == len(self._buffer):
                # A length field may lie: grow by what was really read, never at once by what it promises. The quarter
                # more keeps a log full of such lies from moving the whole buffer for each of them.
                grown = np.empty(min(need + need // 4, 2 * len(self._buffer)), np.uint8)
                grown[: self._filled] = self._buffer
                self._buffer = grown
            size = self._readinto(self._buffer.data[self._filled :])
            self._filled += size
            self._at_eof = size == 0

    def _pass_hole(self) -> bool:
        """Go on behind a hole, in a search that has nothing but zeros before it; whether there is one.

        What begins in 61 zeros is no batch, so that only the last 60 of them may have a part in the next one.
        """
        start = int(self._state[S_POSITION]) - self._offset_in_file
        waiting = self._filled - start
        if waiting >= layout.HEADER_BYTES or self._buffer[start : self._filled].any():
            return False
        passed = self._pass_zeros()
        if passed == 0:
            return False
        self._show()
        kept = min(waiting + passed, layout.HEADER_BYTES - 1)
        self._buffer[:kept] = 0
        self._offset_in_file += self._filled + passed - kept
        self._filled = kept
        self._state[S_POSITION] = self._offset_in_file
        return True

    def _pass_damage(self, *, crc_is_wrong: bool) -> None:
        """Find where the log can be read again, say what lies before it, and leave the state there."""
        state = self._state
        position = int(state[S_POSITION])
        header = self._rows[state[S_ROWS]].copy() if state[S_HEADER_READ] else None
        why = self._why(header, crc_is_wrong=crc_is_wrong)
        next_offset = int(state[S_LAST_OFFSET]) + 1 if state[S_LAST_OFFSET] >= 0 else None
        state[S_ALL_ZERO] = int(self._buffer[position - self._offset_in_file] == 0)
        state[S_POSITION] += 1
        while (step := search_kernel(*self._window(), self._state)) == Step.NEED_BYTES:
            if not self._pass_hole():
                self._refill()
        end_position = int(state[S_POSITION])
        if step != Step.FOUND:
            start_offset, end_offset, records = (next_offset, None, None) if header is None else _claims(header)
            self._corruptions.append(
                Corruption(
                    kind=Damage.TORN_TAIL,
                    position=position,
                    end_position=end_position,
                    detail=f"the last {end_position - position} bytes hold no sound batch: "
                    + ("all of them are zero" if state[S_ALL_ZERO] else why),
                    start_offset=start_offset,
                    end_offset=end_offset,
                    records=records,
                )
            )
            return
        found = end_position - self._offset_in_file
        found_offset = self._first_offset_at(found)
        if (
            crc_is_wrong
            and header is not None
            and position + header["size_bytes"] < end_position
            and header["last_offset"] + 1 < found_offset
        ):
            # Offsets are missing behind it, so its own length may well be right: keep the row.
            state[S_ROWS] += 1
            state[S_DAMAGED_ROWS] += 1
            position += int(header["size_bytes"])
            next_offset = int(header["last_offset"]) + 1
            why = "no batch begins where the one before ends"
        self._corruptions.append(
            Corruption(
                kind=Damage.LENGTH,
                position=position,
                end_position=end_position,
                detail=f"{end_position - position} bytes cannot be read, up to the next sound batch: {why}",
                start_offset=next_offset,
                end_offset=found_offset if next_offset is None or next_offset <= found_offset else None,
            )
        )

    def _first_offset_at(self, start: int) -> int:
        """Of the whole batch that was found in the buffer."""
        size = layout.LOG_OVERHEAD + int.from_bytes(self._buffer[start + 8 : start + 12].tobytes(), "big")
        entry = self._buffer.data[start : start + size]
        wrapped = inside(entry) if entry[layout.MAGIC_AT] <= NEWEST else None
        if wrapped is None or isinstance(wrapped, Corruption):
            return int.from_bytes(entry[:8], "big")
        return wrapped[2]

    def _why(self, header: np.void | None, *, crc_is_wrong: bool) -> str:
        """Say in words why what lies at the state's position cannot be read as a batch."""
        start = int(self._state[S_POSITION]) - self._offset_in_file
        head = self._buffer[start : min(start + layout.HEADER_BYTES, self._filled)].tobytes()
        if crc_is_wrong:
            return "the checksum is wrong and no batch follows where the length says"
        if header is not None:
            return f"the length field says {header['size_bytes']} bytes, more than can be read"
        if len(head) <= layout.MAGIC_AT:
            return "too short for a batch"
        if (size := self._old_entry_size(head)) is not None:
            return f"the length field says {size} bytes, more than can be read"
        # Not what the bytes say: they may be a record's, and a detail travels further than the log does.
        return "its first bytes cannot be a batch's header"

    def _old_entry_size(self, head: bytes) -> int | None:
        """What an entry of an old format says of its size, if these are its first bytes."""
        offset, length = int.from_bytes(head[:8], "big"), int.from_bytes(head[8:12], "big", signed=True)
        last_offset = int(self._state[S_LAST_OFFSET])
        upgraded, size = bool(self._state[S_UPGRADED]), length + layout.LOG_OVERHEAD
        if upgraded or head[layout.MAGIC_AT] > NEWEST or size < max(MIN_ENTRY_BYTES, len(head)):
            return None
        return size if last_offset < offset <= max(last_offset, 0) + (1 << 31) else None


def _claims(row: np.void) -> tuple[int | None, int | None, int | None]:
    """Return a batch's first offset, the offset after its last, and its record count, where they make sense."""
    base_offset, end_offset, records = int(row["base_offset"]), int(row["last_offset"]) + 1, int(row["record_count"])
    if base_offset < 0 or end_offset <= base_offset:
        return None, None, None
    return base_offset, end_offset, records if 0 <= records <= end_offset - base_offset else None


def _damaged_rows(headers: NDArray[Any]) -> Iterator[Corruption]:
    """Say which rows have a magic that is not their format's, and which fail their checksum."""
    changed = ~has_its_magic(headers)
    for row in headers[(headers["crc_valid"] == 0) | changed]:
        kind, magic = Damage.CRC, int(row["magic"])
        detail = f"the checksum of the bytes is not the 0x{row['crc']:08x} in the header"
        if not has_its_magic(row):
            kind = Damage.MAGIC
            detail = f"the magic is {magic}, not 2; the checksum is {'right' if row['crc_valid'] else 'wrong'}"
        start_offset, end_offset, records = _claims(row)
        yield Corruption(
            kind=kind,
            position=int(row["position"]),
            end_position=int(row["position"] + row["size_bytes"]),
            detail=detail,
            start_offset=start_offset,
            end_offset=end_offset,
            records=records,
        )
