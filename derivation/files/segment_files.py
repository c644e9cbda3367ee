"""A segment as the snapshot holds it: the broker's log, or the headers file that a capture kept of it.

In: an open file and its name. Out: blocks of batch headers, or the records of an internal topic. Who asks cannot tell
which of the two it was, but for a user's records, which a headers file does not have; and one batch's records are in
memory at a time.
"""

import hashlib
from collections.abc import Iterator
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.kafka_log.allowance import Allowance, of_internal_topic
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.headers_file import HEADERS_FILE_DAMAGE, HeadersBlock, HeadersReader, kept_records
from tidegauge.kafka_log.log_dir import is_headers_file
from tidegauge.kafka_log.old_formats import has_its_magic
from tidegauge.kafka_log.records import Record, records_of
from tidegauge.kafka_log.scan import BATCH_HEADER, OnRows, ScanBlock, scan_batches
from tidegauge.kafka_log.sources import Counted
from tidegauge.snapshots.holes import HoledFile, add_zeros

BatchRecords = tuple[np.void, tuple[Record, ...] | Corruption]
"""A batch's row, and its records or why there are none."""

_BLOCK_ROWS: Final = 64
"""Batches of an internal topic that are held, as bytes, until their records are asked for."""
_ZEROS_HASHED: Final = 64 << 20
"""A hole may be a terabyte; whoever reads past it does not hash it."""
_UNREADABLE: Final = np.zeros(1, BATCH_HEADER)
_UNREADABLE["magic"], _UNREADABLE["control_type"] = 2, -1


class SegmentFile:
    """Reads a segment once, up to the size that the snapshot listed: a live copy's log may have grown since."""

    def __init__(self, name: str, file: IO[bytes], size_bytes: int | None = None, *, digested: bool = False) -> None:
        holed = HoledFile(file, size_bytes)
        self._digest = _Digest(holed) if digested else None
        source = self._digest or holed
        self._source = Counted(source.readinto, source.pass_zeros)
        self._headers = HeadersReader(self._source.readinto, with_kept=False) if is_headers_file(name) else None
        self.broken: str | None = None
        """Why a headers file cannot be relied on, once `blocks` is at its end: the copy is damaged, not the log."""

    @property
    def log_bytes(self) -> int:
        """How much of the log is accounted for, once `blocks` is at its end."""
        return self._source.given if self._headers is None else self._headers.log_size_bytes or 0

    @property
    def has_records(self) -> bool:
        """The broker's own bytes are at hand; of a headers file only control batches and internal topics would be."""
        return self._headers is None

    def sha256(self) -> str | None:
        """The digest of the file as it was read, once `blocks` or `records` is at its end; None where nobody asked for
        it, or where there were more zeros to pass than are hashed.
        """
        return self._digest.hexdigest() if self._digest is not None else None

    def blocks(self, on_rows: OnRows | None = None) -> Iterator[ScanBlock]:
        """The log's batch headers and damage; `on_rows` is shown the bytes behind them where `has_records`."""
        if self._headers is None:
            source = self._source
            yield from scan_batches(source.readinto, pass_zeros=source.pass_zeros, on_rows=on_rows)
            return
        for block in self._headers.blocks():
            self.broken = _own_damage(block) or self.broken
            yield ScanBlock(headers=block.headers, corruptions=block.corruptions)

    def records(self, allowance: Allowance | None = None) -> Iterator[BatchRecords]:
        """The records of every batch, of an internal topic's log. `allowance`: the log's, for who decodes them, too."""
        allowance = allowance if allowance is not None else of_internal_topic()
        if self._headers is None:
            yield from self._records_of_log(allowance)
            return
        for block in HeadersReader(self._source.readinto).blocks():
            for row, records in kept_records(block, allowance=allowance):
                if has_its_magic(row):
                    yield row, records
            if block.corruptions and _own_damage(block) is not None:
                yield _UNREADABLE[0], block.corruptions[0]

    def _records_of_log(self, allowance: Allowance) -> Iterator[BatchRecords]:
        found: list[tuple[np.void, bytes]] = []

        def take(rows: NDArray[Any], data: memoryview, first_position: int) -> None:
            for at in np.flatnonzero(has_its_magic(rows)):
                start = int(rows["position"][at]) - first_position
                # Of one with a wrong checksum not all bytes may be there, and none are read.
                size = int(rows["size_bytes"][at]) if rows["crc_valid"][at] else 0
                found.append((rows[at].copy(), bytes(data[start : start + size])))

        source = self._source
        for _ in scan_batches(source.readinto, pass_zeros=source.pass_zeros, block_rows=_BLOCK_ROWS, on_rows=take):
            for row, batch in found:
                yield row, records_of(row, batch, allowance=allowance)
            found.clear()


class _Digest:
    """A source that is hashed while it is read."""

    def __init__(self, source: HoledFile) -> None:
        self._source = source
        self._sha256 = hashlib.sha256()
        self._zeros = 0

    def readinto(self, target: memoryview) -> int:
        size = self._source.readinto(target)
        self._sha256.update(target[:size])
        return size

    def pass_zeros(self) -> int:
        size = self._source.pass_zeros()
        self._zeros += size
        if self._zeros <= _ZEROS_HASHED:
            add_zeros(self._sha256, size)
        return size

    def hexdigest(self) -> str | None:
        return self._sha256.hexdigest() if self._zeros <= _ZEROS_HASHED else None


def _own_damage(block: HeadersBlock) -> str | None:
    return next((c.detail for c in block.corruptions if c.kind in HEADERS_FILE_DAMAGE), None)
