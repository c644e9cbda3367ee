"""Transaction indexes: `<base>.txnindex`, the aborted transactions whose marker lies in a segment.

In: a file's bytes. Out: its entries and its damage. A trailing part of an entry is damage, though a broker ignores it
(TransactionIndex, AbortedTxn).

    34 bytes each: version i16 (0), producer id i64, first offset i64, last offset i64 (the marker), last stable
    offset i64
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidegauge.kafka_log.corruption import Corruption, Damage, Places

_ENTRY: Final = struct.Struct(">hqqqq")


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """One aborted transaction: its producer, its first offset, its marker's offset, and the last stable offset then."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionIndex:
    """A transaction index, entries in file order."""

    entries: tuple[AbortedTransaction, ...]
    corruptions: tuple[Corruption, ...]


def parse_transaction_index(data: bytes) -> TransactionIndex:
    """Reads a transaction index."""
    whole = len(data) // _ENTRY.size * _ENTRY.size
    damages = Places()
    entries = []
    for at, (version, producer_id, first, last, stable) in enumerate(_ENTRY.iter_unpack(data[:whole])):
        if version != 0:
            start = at * _ENTRY.size
            damages.add(
                Corruption(
                    kind=Damage.VERSION,
                    position=start,
                    end_position=start + _ENTRY.size,
                    detail=f"entry {at} has version {version}, only 0 is known",
                )
            )
        entries.append(
            AbortedTransaction(producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable)
        )
    if whole != len(data):
        damages.add(
            Corruption(
                kind=Damage.FORM,
                position=whole,
                end_position=len(data),
                detail=f"{len(data) - whole} bytes behind the last whole entry",
            )
        )
    return TransactionIndex(entries=tuple(entries), corruptions=tuple(damages.all()))


def write_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of a transaction index with these entries, in this order."""
    return b"".join(_ENTRY.pack(0, e.producer_id, e.first_offset, e.last_offset, e.last_stable_offset) for e in entries)
