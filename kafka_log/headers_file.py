"""A headers file: all that a segment says beside its records. What a capture keeps of a user's log.

In: a segment's bytes, streamed. Out: a file of our own that holds each batch's header, where the batch lies and whether
its checksum was right, the damage met, and control batches whole; and, read again, the same blocks that
`kafka_log.scan.scan_batches` gives for the log. The rules that must hold: no byte of a user's record is in it, whatever
the batch claims to be; and a headers file that is itself broken gives a `Corruption` of kind FORM or VERSION, which the
scan of a log never does, with positions in the headers file.

    file    = "TGHEADER" | version u16 | frame ... | end frame
    frame   = kind u8 | packed size u32 | plain size u32 | crc-32c u32 of the bytes before and the payload | payload
    kind K  = zstd of (position i64 | size u32 | batch) ...      kept batches; before the rows that they belong to
    kind R  = zstd of (rows u32 | columns | damages as JSON)     one block of the scan
    kind E  = log size i64 | batches i64                         not packed, so that the log's size is found at the end

Numbers are little-endian. A batch's 61 bytes can be told from its row (`scan.BATCH_HEADER`), so rows are kept, as
columns: what a sound log repeats is left out of them (a position follows from the sizes before, a base offset from the
last offset before, a sequence from the producer's batch before), a column of one value is that value (a byte 1 before
it), and the bytes of any other (a byte 0 before them) are put in order of significance, which leaves the packer little
but the checksums.

A kept batch may be another one than the log's: where names are hashed, records of Kafka's internal topics are kept as
`rewrite` made them. The rows always tell of the log.
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import cramjam
import numpy as np
from numpy.typing import NDArray

from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.compression import decompress
from tidegauge.kafka_log.control import ControlType, EndTxnMarker, decode_control_record
from tidegauge.kafka_log.corruption import Corruption, Damage, damage_of, damage_values
from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.old_formats import has_its_magic
from tidegauge.kafka_log.records import Record, read_batch, read_records
from tidegauge.kafka_log.scan import BATCH_HEADER, BLOCK_ROWS, ScanBlock, scan_batches
from tidegauge.kafka_log.sources import Counted, PassZeros, ReadInto, no_zeros

MAGIC: Final = b"TGHEADER"
VERSION: Final = 1
HEADERS_FILE_DAMAGE: Final = frozenset({Damage.FORM, Damage.VERSION})
"""Kinds of damage that are the headers file's own, not the log's."""

_HEAD: Final = struct.Struct("<8sH")
_FRAME: Final = struct.Struct("<cII")
_CRC: Final = struct.Struct("<I")
_KEPT: Final = struct.Struct("<qI")
_END: Final = struct.Struct("<qq")
_COUNT: Final = struct.Struct("<I")
END_FRAME_BYTES: Final = _FRAME.size + _CRC.size + _END.size

_MAX_FRAME_BYTES: Final = 64 << 20
"""A frame is at most this large when unpacked: a kept batch takes what it takes."""
_MAX_BLOCK_BYTES: Final = 4 << 20
"""A frame of rows is: two damages a row, of 400 bytes each, leave room."""
_FREE_BYTES: Final = 8 << 20
_BYTES_EACH: Final = 256
"""What all of a file's frames may unpack to: so much, and so much for each byte of them. Damages of one kind, the
batches of a group and end markers are packed 20 to 1, rows of 85 bytes at most 20 to 1, too."""
_KEPT_FRAME_BYTES: Final = 1 << 20
_MAX_BATCH_BYTES: Final = layout.LOG_OVERHEAD + (1 << 31) - 1
_LEVEL: Final = 1
"""Of zstd: 3 saves 2 % more and takes half as long again."""

Rewrite = Callable[[bytes], bytes | None]
"""One whole batch to what is kept of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadersBlock:
    """A block of the scan, and the batches kept of it by their position in the log."""

    headers: NDArray[Any]
    corruptions: tuple[Corruption, ...]
    kept: Mapping[int, bytes]


# -------------------------------------------------------------------------------------------------------------- writing


def write_headers(
    readinto: ReadInto,
    write: Callable[[bytes], object],
    *,
    rewrite: Rewrite | None = None,
    pass_zeros: PassZeros = no_zeros,
) -> int:
    """Writes the headers file of the segment that `readinto` gives; returns the segment's size in bytes.

    Without `rewrite` only control batches are kept, and only those that hold nothing but a sound end marker. With it
    every batch of a right checksum is kept as it says.
    """
    source = Counted(readinto, pass_zeros)
    kept = _Kept(write, rewrite)
    batches = 0
    write(_HEAD.pack(MAGIC, VERSION))
    for block in scan_batches(source.readinto, pass_zeros=source.pass_zeros, on_rows=kept.take):
        kept.flush()
        damages = json.dumps([damage_values(c) for c in block.corruptions]).encode() if block.corruptions else b""
        plain = _COUNT.pack(len(block.headers)) + _columns(block.headers) + damages
        _write_packed(write, b"R", plain)
        batches += len(block.headers)
    _write_frame(write, b"E", _END.pack(source.given, batches), _END.size)
    return source.given


class _Kept:
    """Collects what is kept of the batches that go by, and writes it a megabyte at a time."""

    def __init__(self, write: Callable[[bytes], object], rewrite: Rewrite | None) -> None:
        self._write = write
        self._rewrite = rewrite
        self._waiting: list[bytes] = []
        self._bytes = 0

    def take(self, rows: NDArray[Any], data: memoryview, at: int) -> None:
        wanted = (rows["crc_valid"] == 1) & has_its_magic(rows)
        if self._rewrite is None:
            wanted &= rows["attributes"] & layout.CONTROL_BIT != 0  # which no entry of an old format has
        for row in rows[wanted]:
            position, size = int(row["position"]), int(row["size_bytes"])
            batch = bytes(data[position - at : position - at + size])
            kept = sound_end_marker(batch) if self._rewrite is None else self._rewrite(batch)
            if kept is None or len(kept) + _KEPT.size > _MAX_FRAME_BYTES:
                continue
            if self._bytes + len(kept) > _KEPT_FRAME_BYTES:
                self.flush()
            self._waiting += (_KEPT.pack(position, len(kept)), kept)
            self._bytes += _KEPT.size + len(kept)

    def flush(self) -> None:
        if self._waiting:
            _write_packed(self._write, b"K", b"".join(self._waiting))
            self._waiting, self._bytes = [], 0


def sound_end_marker(batch: bytes) -> bytes | None:
    """The batch if it is the end marker of a transaction and nothing else, byte for byte; else None.

    Whoever sets the control bit of a batch of his own, or rot that does, must not carry a record out: there is room for
    two versions, the type and the coordinator's epoch, and for no other byte.
    """
    # The lower byte of the attributes has the compression: nothing is unpacked to see that it is no marker.
    if len(batch) < layout.HEADER_BYTES or batch[layout.ATTRIBUTES_AT + 1] & layout.COMPRESSION_MASK:
        return None
    read = read_batch(batch)
    if isinstance(read, Corruption) or len(read.records) != 1:
        return None
    record = read.records[0]
    marker = decode_control_record(record)
    if not isinstance(marker, EndTxnMarker):
        return None
    return batch if batch[layout.RECORDS_AT :] in _marker_forms(marker, record) else None


def _marker_forms(marker: EndTxnMarker, record: Record) -> Iterator[bytes]:
    """Every form that Kafka writes an end marker's record in: key and value of version 0 or 1, the latter flexible."""
    control_type = ControlType.COMMIT if marker.committed else ControlType.ABORT
    for key_version in (0, 1):
        key = struct.pack(">hh", key_version, control_type)
        for value_version, tail in ((0, b""), (1, b"\0")):
            value = struct.pack(">hi", value_version, marker.coordinator_epoch) + tail
            body = b"\0\0\0" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
            yield bytes([2 * len(body)]) + body


def _write_packed(write: Callable[[bytes], object], kind: bytes, plain: bytes) -> None:
    _write_frame(write, kind, bytes(cramjam.zstd.compress(plain, level=_LEVEL)), len(plain))


def _write_frame(write: Callable[[bytes], object], kind: bytes, payload: bytes, plain_size: int) -> None:
    head = _FRAME.pack(kind, len(payload), plain_size)
    write(head + _CRC.pack(crc32c(head + payload)) + payload)


# -------------------------------------------------------------------------------------------------------------- columns

_STORED: Final = tuple((name, BATCH_HEADER[name]) for name in BATCH_HEADER.names or ())
_LAST_DELTA: Final = np.dtype("<i8")
_SEQUENCE: Final = np.dtype("<i4")


def _columns(rows: NDArray[Any]) -> bytes:
    """The rows as columns of what is not foreseen, bytes in order of significance."""
    values: dict[str, NDArray[Any]] = {name: rows[name] for name, _ in _STORED}
    base, last, size = values["base_offset"], values["last_offset"], values["size_bytes"]
    values["position"] = values["position"] - _shifted(values["position"] + size)
    values["base_offset"] = base - _shifted(last + 1)
    values["last_offset"] = last - base
    values["base_timestamp"] = values["base_timestamp"] - _shifted(rows["max_timestamp"])
    values["max_timestamp"] = values["max_timestamp"] - rows["base_timestamp"]
    values["base_sequence"] = _sequence_residuals(rows)
    return b"".join(_column(values[name].astype(dtype, copy=False)) for name, dtype in _STORED)


def _shifted(values: NDArray[Any]) -> NDArray[Any]:
    """Each row's value of the row before; 0 before the first."""
    before = np.zeros_like(values)
    before[1:] = values[:-1]
    return before


def _sequence_order(producer_ids: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows in order of their producers, each producer's in log order; and where a producer's first one stands."""
    first = np.zeros(len(producer_ids), dtype=bool)
    first[:1] = True
    if bool((producer_ids == producer_ids[:1]).all()):
        return np.arange(len(producer_ids)), first
    order = np.argsort(producer_ids, kind="stable")
    ordered = producer_ids[order]
    first[1:] = ordered[1:] != ordered[:-1]
    return order, first


def _steps(rows: NDArray[Any]) -> NDArray[Any]:
    """How far a batch moves its producer's sequence: by its offsets, if it has a sequence at all."""
    return np.where(rows["producer_id"] >= 0, rows["last_offset"] - rows["base_offset"] + 1, 0)


def _sequence_residuals(rows: NDArray[Any]) -> NDArray[Any]:
    order, first = _sequence_order(rows["producer_id"])
    sequences = rows["base_sequence"].astype(np.int64)[order]
    foreseen = _shifted(sequences + _steps(rows)[order])
    foreseen[first] = 0
    residuals = np.empty(len(rows), np.int64)
    residuals[order] = sequences - foreseen
    return residuals


def _sequences(rows: NDArray[Any], residuals: NDArray[Any]) -> NDArray[Any]:
    order, first = _sequence_order(rows["producer_id"])
    moves = residuals.astype(np.int64)[order] + np.where(first, 0, _shifted(_steps(rows)[order]))
    running = np.cumsum(moves)
    starts = np.flatnonzero(first)
    before = np.repeat(running[starts] - moves[starts], np.diff(np.append(starts, len(moves))))
    sequences = np.empty(len(rows), np.int64)
    sequences[order] = running - before
    return sequences.astype(_SEQUENCE)


def _column(column: NDArray[Any]) -> bytes:
    if len(column) and bool((column == column[0]).all()):
        return b"\1" + column[:1].tobytes()
    column = np.ascontiguousarray(column)
    return b"\0" + column.view(np.uint8).reshape(len(column), column.dtype.itemsize).T.tobytes()


def _read_column(plain: bytes, at: int, dtype: np.dtype[Any], count: int) -> tuple[NDArray[Any], int]:
    """A column, and where the next one begins. Raises ValueError if there are not so many bytes."""
    of_one_value = plain[at : at + 1] == b"\1"
    size = dtype.itemsize * (1 if of_one_value else count)
    at += 1
    if size > len(plain) - at:
        raise ValueError("a column is cut short")
    if of_one_value:
        return np.repeat(np.frombuffer(plain, dtype, 1, at), count), at + size
    flat = np.frombuffer(plain, np.uint8, size, at).reshape(dtype.itemsize, count)
    return np.ascontiguousarray(flat.T).reshape(size).view(dtype), at + size


def _rows(plain: bytes) -> tuple[NDArray[Any], bytes]:
    """The rows, and what follows them. Raises ValueError if they are not there."""
    if len(plain) < _COUNT.size:
        raise ValueError("a block is too short")
    (count,) = _COUNT.unpack_from(plain)
    at = _COUNT.size
    if count > BLOCK_ROWS:  # columns of one value say little of how many rows there are
        raise ValueError(f"a block says it has {count} rows")
    stored: dict[str, NDArray[Any]] = {}
    for name, dtype in _STORED:
        stored[name], at = _read_column(plain, at, dtype, count)
    rows = np.empty(count, BATCH_HEADER)
    for name, _ in _STORED:
        rows[name] = stored[name]
    span = stored["last_offset"]
    rows["position"] = np.cumsum(stored["position"] + _shifted(stored["size_bytes"]))
    rows["base_offset"] = np.cumsum(stored["base_offset"] + _shifted(span + 1))
    rows["last_offset"] = rows["base_offset"] + span
    rows["base_timestamp"] = np.cumsum(stored["base_timestamp"] + _shifted(stored["max_timestamp"]))
    rows["max_timestamp"] = rows["base_timestamp"] + stored["max_timestamp"]
    rows["base_sequence"] = _sequences(rows, stored["base_sequence"])
    if not _lie_in_a_log(rows):
        raise ValueError("its rows lie where no batches can")
    return rows, plain[at:]


def _lie_in_a_log(rows: NDArray[Any]) -> bool:
    """Whether a scan could have found batches there: one behind the other, of sizes that a length field can tell."""
    position, size, base, last = rows["position"], rows["size_bytes"], rows["base_offset"], rows["last_offset"]
    in_room = ((last - base) < 0) == (last < base)  # What has no room in 64 bits comes out with the wrong sign.
    offsets_fit = in_room & (last <= layout.LARGEST_LAST_OFFSET)
    sizes_fit = bool(((size > 0) & (size <= _MAX_BATCH_BYTES) & offsets_fit).all())
    return sizes_fit and bool(((position >= _shifted(position + size)) & (position < 1 << 62)).all())


# -------------------------------------------------------------------------------------------------------------- reading


class _BrokenFileError(Exception):
    """Stays inside this module: why the headers file cannot be read on."""

    def __init__(self, kind: Damage, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def scan_headers(readinto: ReadInto) -> Iterator[ScanBlock]:
    """The blocks that `scan_batches` gives for the log of which this is the headers file."""
    for block in HeadersReader(readinto, with_kept=False).blocks():
        yield ScanBlock(headers=block.headers, corruptions=block.corruptions)


def kept_records(
    block: HeadersBlock, *, allowance: Allowance
) -> Iterator[tuple[np.void, tuple[Record, ...] | Corruption]]:
    """The records of each of a block's batches, as far as they were kept. Makes sense of an internal topic's log, of
    which `allowance` is.
    """
    for row in block.headers:
        kept = block.kept.get(int(row["position"]))
        if kept is not None:
            yield row, read_records(kept, allowance=allowance)
        else:
            yield (
                row,
                Corruption(
                    kind=Damage.RECORDS,
                    position=int(row["position"]),
                    end_position=int(row["position"] + row["size_bytes"]),
                    detail="the records were not kept, since they could not be read",
                    start_offset=int(row["base_offset"]),
                    end_offset=int(row["last_offset"]) + 1,
                    records=int(row["record_count"]),
                ),
            )


def log_size_bytes(end: bytes) -> int | None:
    """The log's size by the last `END_FRAME_BYTES` of its headers file; None if they are not an end."""
    if len(end) != END_FRAME_BYTES or end[:1] != b"E":
        return None
    payload = end[_FRAME.size + _CRC.size :]
    if _CRC.unpack_from(end, _FRAME.size)[0] != crc32c(end[: _FRAME.size] + payload):
        return None
    size: int = _END.unpack(payload)[0]
    return size


@dataclass(slots=True)
class HeadersReader:
    """Reads a headers file once. `log_size_bytes` is known when `blocks` came to a sound end."""

    readinto: ReadInto
    with_kept: bool = True
    log_size_bytes: int | None = None
    _at: int = 0
    _kept: dict[int, bytes] = field(default_factory=dict)
    _allowance: Allowance = field(
        default_factory=lambda: Allowance(
            plain_bytes=_FREE_BYTES, bytes_each=_BYTES_EACH, most_bytes=2 * _MAX_FRAME_BYTES
        )
    )

    def blocks(self) -> Iterator[HeadersBlock]:
        """The log's blocks; where the headers file is broken, a last one without rows that says so."""
        batches = 0
        try:
            self._head()
            while (block := self._next_block(batches)) is not None:
                batches += len(block.headers)
                yield block
        except _BrokenFileError as error:
            broken = Corruption(
                kind=error.kind,
                position=self._at,
                end_position=self._at,
                detail=f"the headers file cannot be read on: {error}",
            )
            yield HeadersBlock(headers=np.empty(0, BATCH_HEADER), corruptions=(broken,), kept={})

    def _head(self) -> None:
        head = self._take(_HEAD.size)
        if len(head) < _HEAD.size or not head.startswith(MAGIC):
            raise _BrokenFileError(Damage.FORM, "it does not begin as one")
        _, version = _HEAD.unpack(head)
        if version != VERSION:
            raise _BrokenFileError(Damage.VERSION, f"its version is {version}, this release reads {VERSION}")

    def _next_block(self, batches: int) -> HeadersBlock | None:
        while True:
            kind, payload, plain_size = self._frame()
            match kind:
                case b"K":
                    if self.with_kept:
                        self._kept |= self._kept_batches(self._unpacked(payload, plain_size))
                case b"R":
                    if plain_size > _MAX_BLOCK_BYTES:
                        raise _BrokenFileError(Damage.FORM, f"a block says it has {plain_size} bytes")
                    block = self._block(self._unpacked(payload, plain_size))
                    self._kept = {}
                    return block
                case b"E":
                    self._end(payload, batches)
                    return None
                case _:
                    raise _BrokenFileError(Damage.FORM, "a frame is of no known kind")

    def _frame(self) -> tuple[bytes, bytes, int]:
        head = self._take(_FRAME.size + _CRC.size)
        if len(head) < _FRAME.size + _CRC.size:
            raise _BrokenFileError(Damage.FORM, "it ends before its end frame")
        kind, packed_size, plain_size = _FRAME.unpack_from(head)
        if max(packed_size, plain_size) > 2 * _MAX_FRAME_BYTES:
            raise _BrokenFileError(Damage.FORM, f"a frame says it has {max(packed_size, plain_size)} bytes")
        payload = self._take(packed_size)
        if (
            len(payload) < packed_size
            or crc32c(head[: _FRAME.size] + payload) != _CRC.unpack_from(head, _FRAME.size)[0]
        ):
            raise _BrokenFileError(Damage.FORM, "a frame is cut short or its checksum is wrong")
        return kind, payload, plain_size

    def _unpacked(self, payload: bytes, plain_size: int) -> bytes:
        if not payload and not plain_size:
            return b""
        self._allowance.earn(len(payload))
        if plain_size > self._allowance.bytes_of_a_batch:
            raise _BrokenFileError(
                Damage.FORM,
                f"a frame of {len(payload)} bytes says it has {plain_size}, more than is read of such a file",
            )
        self._allowance.spend(plain_bytes=plain_size)
        plain = decompress(CompressionType.ZSTD, payload, max_plain_bytes=plain_size)
        if isinstance(plain, Corruption):
            raise _BrokenFileError(Damage.FORM, f"a frame cannot be unpacked ({plain.detail})")
        if len(plain) != plain_size:
            raise _BrokenFileError(Damage.FORM, "a frame unpacks to another size than it says")
        return plain

    def _end(self, payload: bytes, batches: int) -> None:
        if len(payload) != _END.size or _END.unpack(payload)[1] != batches or self._take(1):
            raise _BrokenFileError(Damage.FORM, "its end frame is not that of what stands before it")
        self.log_size_bytes = _END.unpack(payload)[0]

    def _kept_batches(self, plain: bytes) -> dict[int, bytes]:
        found, at = dict[int, bytes](), 0
        while at < len(plain):
            if at + _KEPT.size > len(plain):
                raise _BrokenFileError(Damage.FORM, "a kept batch is cut short")
            position, size = _KEPT.unpack_from(plain, at)
            at += _KEPT.size
            if size > len(plain) - at:
                raise _BrokenFileError(Damage.FORM, "a kept batch is cut short")
            found[position] = plain[at : at + size]
            at += size
        return found

    def _block(self, plain: bytes) -> HeadersBlock:
        try:
            rows, damages = _rows(plain)
            corruptions = tuple(damage_of(values) for values in json.loads(damages or b"[]"))
        except (AttributeError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise _BrokenFileError(Damage.FORM, f"a block holds no rows ({error})") from error
        # A row of a sound log has a checksum of four bytes that nothing packs; columns of one value have next to none.
        if rows.nbytes > self._allowance.plain_bytes:
            raise _BrokenFileError(Damage.FORM, "it tells of more batches than so small a file may")
        self._allowance.spend(plain_bytes=rows.nbytes)
        return HeadersBlock(headers=rows, corruptions=corruptions, kept=self._kept)

    def _take(self, size: int) -> bytes:
        """The next bytes, fewer at the end of the file; memory grows only as far as the file really has them."""
        parts, missing = list[bytes](), size
        while missing:
            buffer = bytearray(min(missing, _KEPT_FRAME_BYTES))
            given = self.readinto(memoryview(buffer))
            if given == 0:
                break
            parts.append(bytes(buffer[:given]))
            missing -= given
        self._at += size - missing
        return b"".join(parts)
