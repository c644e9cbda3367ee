"""How much of one log is unpacked and taken apart: so much whatever is in it, and so much for each byte that is there.

In: how many bytes a batch has. Out: how many plain bytes, how many records and how many values of their fields may be
read of it. The rule that must hold: work and memory grow with the bytes that are there, never with what they unpack to.
A batch's own bound is not enough for that: a log of a megabyte has room for sixteen thousand batches. Nor is one on
records: a single one has room for an array of millions.

Sound logs stay far below: gzip packs 1,032 to 1 at best, and 100,000 records that are all alike take a third of a byte
each with zstd, since each has an offset delta of its own; the tombstones of a group's offsets take a whole one.
"""

from dataclasses import dataclass
from typing import Final

from tidegauge.kafka_log.compression import FREE_PLAIN_BYTES, MAX_PLAIN_BYTES, PLAIN_FOR_PACKED

MAX_INTERNAL_BYTES: Final = 64 << 20
"""What a batch of an internal topic may unpack to. Brokers write them, of a megabyte by default (message.max.bytes), of
8 MB in the metadata log (KafkaRaftClient.MAX_BATCH_SIZE_BYTES)."""

STRUCT_VALUES: Final = 4
"""What a structure counts for beside its fields: a mapping of one field takes what four numbers do."""


class BeyondAllowanceError(ValueError):
    """For decoders, which hand out a `Corruption` of kind NOT_READ: nothing is said against the bytes."""


@dataclass(slots=True, kw_only=True)
class Allowance:
    """What is left of it, and what each byte that is there adds. By default, that of a user's log."""

    plain_bytes: int = FREE_PLAIN_BYTES
    bytes_each: int = PLAIN_FOR_PACKED
    most_bytes: int = MAX_PLAIN_BYTES
    """Of any one batch."""
    records: int = 1 << 18
    """Records and their headers: each becomes some hundred bytes here, out of two or seven."""
    records_each: int = 4
    values: int = 1 << 18
    """What arrays inside of records become, and long texts: up to 130 bytes each here, out of one or two."""
    values_each: int = 8
    """A partition's number or a topic's name in an array lies there in some bytes, before it is packed."""

    def earn(self, present_bytes: int) -> None:
        """A batch of so many bytes is there."""
        self.plain_bytes += self.bytes_each * present_bytes
        self.records += self.records_each * present_bytes
        self.values += self.values_each * present_bytes

    @property
    def bytes_of_a_batch(self) -> int:
        """How many plain bytes may be unpacked of the next batch."""
        return min(self.plain_bytes, self.most_bytes)

    def spend(self, *, plain_bytes: int = 0, records: int = 0) -> None:
        """So much was read, or tried to."""
        self.plain_bytes = max(0, self.plain_bytes - plain_bytes)
        self.records = max(0, self.records - records)

    def spend_values(self, count: int) -> None:
        """So many values are made next. Raises `BeyondAllowanceError` where they are more than is left."""
        if count > self.values:
            raise BeyondAllowanceError(f"more than the {self.values} values that are still read of this log")
        self.values -= count


def of_internal_topic() -> Allowance:
    """Of a log of Kafka's own, whose records are kept as values: the packed ones are mostly those of offsets, of which
    zstd packs 32 bytes, and less than two records, into one.
    """
    return Allowance(bytes_each=128, most_bytes=MAX_INTERNAL_BYTES, records=1 << 17, records_each=2)


def of_one_record(*parts: bytes | None) -> Allowance:
    """Of a record that nobody read out of a log: its bytes are those that are there."""
    allowance = of_internal_topic()
    allowance.earn(sum(len(part) for part in parts if part is not None))
    return allowance


def values_in(data: bytes, *, is_text: bool) -> int:
    """How many values a long text or many bytes count for. Where one character is none of ASCII's, each may take four
    bytes here.
    """
    return len(data) >> (4 if is_text and not data.isascii() else 6)
