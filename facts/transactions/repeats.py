"""Batches that a producer stored twice: once in an epoch, and again, byte for byte, in the next one (E06).

In: what the replay of a log noted (`Repeat`), and the batch headers around it, read on demand. Out: how many of them
are proven. A look of 32 bits only says where to read; a repetition is claimed on whole headers, and on the records'
bytes, whose checksum the headers carry.

A broker refuses a sequence that it knows, but only within one producer epoch. A client that raises its epoch while it
does not know whether a batch was stored, and sends that batch again, stores it twice. Nothing but the batch's producer
epoch and sequences is another one then: the client's timestamps stay.

The checksum of a batch covers 40 bytes of header and then the records, and CRC-32C is linear: of two batches of one
size whose checksums differ by exactly what their headers make them differ, the records are the same. So a snapshot
without records can tell.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from tidegauge.facts.producers.state import Repeat
from tidegauge.facts.replicas.comparison import ReadBatches
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.kafka_log.batch import COMPRESSION_MASK, CONTROL_BIT, RECORDS_AT
from tidegauge.kafka_log.crc32c import crc32c, shifted

COMPARED_AT_MOST: Final = 16
"""Repetitions of one replica that are read and compared."""
_REACH: Final = 20_000
"""How many offsets before the end of the older run are read."""
_FARTHEST: Final = 100_000
"""Offsets between the two, above which they are not called neighbours."""

_COVERED: Final = struct.Struct(">hiqqqhii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """What a producer epoch repeats: batches proven, the first of them, and what it repeats; and batches not read."""

    batches: int
    offset: int | None
    repeats_offset: int | None
    unverified: int


NOTHING_REPEATED: Final = Repeated(batches=0, offset=None, repeats_offset=None, unverified=0)


def repeated_batches(replica: ReplicaFacts, *, read: ReadBatches) -> Mapping[tuple[int, int], Repeated]:
    """By producer id and epoch, what its batches repeat."""
    found: dict[tuple[int, int], Repeated] = {}
    visible = [r for r in replica.replay.repeats if _visible(r)]
    for at, repeat in enumerate(visible):
        key = (repeat.producer_id, repeat.producer_epoch)
        known = found.get(key, NOTHING_REPEATED)
        if at >= COMPARED_AT_MOST:
            pairs: list[tuple[int, int]] = []
            unverified = known.unverified + 1
        else:
            start = max(repeat.before.first_offset, repeat.before.last_offset - _REACH)
            end = min(repeat.end_offset, repeat.offset + _REACH)
            pairs = _pairs(read(replica, start, end), repeat)
            unverified = known.unverified
        first = pairs[0] if pairs else (None, None)
        found[key] = Repeated(
            batches=known.batches + len(pairs),
            offset=known.offset if known.offset is not None else first[0],
            repeats_offset=known.repeats_offset if known.offset is not None else first[1],
            unverified=unverified,
        )
    return found


def _visible(repeat: Repeat) -> bool:
    """Neither of the two was aborted: an application that aborts and writes the same again has not doubled anything."""
    transactions = (repeat.before.transaction, repeat.transaction)
    return repeat.offset - repeat.before.last_offset <= _FARTHEST and all(
        t is None or t.outcome != "aborted" for t in transactions
    )


def _pairs(headers: NDArray[Any], repeat: Repeat) -> list[tuple[int, int]]:
    """(offset, offset of what it repeats) of batches of the later epoch that repeat one of the earlier."""
    own = [h for h in headers if int(h["producer_id"]) == repeat.producer_id and _is_sound_data(h)]
    earlier = [h for h in own if int(h["producer_epoch"]) == repeat.before.producer_epoch]
    later = [h for h in own if int(h["producer_epoch"]) == repeat.producer_epoch]
    return [
        (int(again["base_offset"]), int(same["base_offset"]))
        for again in later
        if (same := next((h for h in earlier if same_records(h, again)), None)) is not None
    ]


def _is_sound_data(header: Any) -> bool:
    return bool(header["crc_valid"]) and int(header["magic"]) == 2 and not int(header["attributes"]) & CONTROL_BIT


def same_records(one: Any, other: Any) -> bool:
    """Whether two batches hold the same records with the same timestamps, by their headers alone."""
    if any(int(one[name]) != int(other[name]) for name in ("size_bytes", "record_count", "base_timestamp")):
        return False
    if (int(one["attributes"]) ^ int(other["attributes"])) & COMPRESSION_MASK:
        return False
    of_headers = crc32c(_covered(one)) ^ crc32c(_covered(other))
    return int(one["crc"]) ^ int(other["crc"]) == shifted(of_headers, int(one["size_bytes"]) - RECORDS_AT)


def _covered(header: Any) -> bytes:
    """The part of a header that the checksum covers."""
    names: Iterable[str] = ("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence")
    middle = [int(header[name]) for name in names]
    delta = int(header["last_offset"]) - int(header["base_offset"])
    return _COVERED.pack(int(header["attributes"]), delta, *middle, int(header["record_count"]))
