"""The ledger: every record that a broker acknowledged, and what became of its transaction. It judges the auditor.

In: delivery reports of producers, from any thread. Out: the acknowledged records, by partition. A record is in here
only after the broker said where it is, and what was sent without an answer is known as sent, so that each record on a
disk is either acknowledged, sent without an answer, or not from here.
"""

import gzip
import hashlib
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

TopicPartition = tuple[str, int]
_COLUMNS: Final = "tag n topic partition offset wallclock_ms kind transaction key"


class ProducerKind(StrEnum):
    """Which producer wrote a record."""

    PLAIN = "plain"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL_V1 = "transactional-v1"
    TRANSACTIONAL_V2 = "transactional-v2"


class Outcome(StrEnum):
    """What became of a transaction, as its client was told; unknown is one whose end nobody heard of."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """One acknowledged record. `life` counts how often a topic of this name had been deleted before."""

    tag: str
    n: int
    topic: str
    life: int
    partition: int
    offset: int
    key: bytes | None
    value_digest: str
    kind: ProducerKind
    transaction: str | None
    acknowledged_at_ms: int


def value_digest(value: bytes | None) -> str:
    """What the ledger keeps of a value."""
    return hashlib.blake2b(value or b"", digest_size=8).hexdigest()


class Ledger:
    """Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[Acknowledged] = []
        self._sent: set[tuple[str, int]] = set()
        self._outcomes: dict[str, Outcome] = {}
        self._lives: dict[str, int] = {}
        self._failures: dict[str, int] = {}

    def sent(self, tag: str, n: int) -> None:
        """A record is about to leave."""
        with self._lock:
            self._sent.add((tag, n))

    def was_sent(self, tag: str, n: int) -> bool:
        """Whether a record of this name ever left."""
        with self._lock:
            return (tag, n) in self._sent

    def acknowledged(
        self,
        *,
        tag: str,
        n: int,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        kind: ProducerKind,
        transaction: str | None = None,
    ) -> None:
        """A broker said that the record is at this offset."""
        with self._lock:
            self._records.append(
                Acknowledged(
                    tag=tag,
                    n=n,
                    topic=topic,
                    life=self._lives.get(topic, 0),
                    partition=partition,
                    offset=offset,
                    key=key,
                    value_digest=value_digest(value),
                    kind=kind,
                    transaction=transaction,
                    acknowledged_at_ms=time.time_ns() // 1_000_000,
                )
            )

    def failed(self, error: str) -> None:
        """A broker refused a record, or no answer came."""
        with self._lock:
            self._failures[error] = self._failures.get(error, 0) + 1

    def transaction(self, name: str, outcome: Outcome) -> None:
        """A transaction began (open) or ended."""
        with self._lock:
            self._outcomes[name] = outcome

    def outcome(self, name: str) -> Outcome:
        """What became of a transaction."""
        with self._lock:
            return self._outcomes[name]

    def topic_deleted(self, topic: str) -> None:
        """What was acknowledged of this topic so far is no longer anywhere."""
        with self._lock:
            self._lives[topic] = self._lives.get(topic, 0) + 1

    def lives(self) -> dict[str, int]:
        """Topic -> how often one of this name was deleted."""
        with self._lock:
            return dict(self._lives)

    def failures(self) -> dict[str, int]:
        """Error -> how many records."""
        with self._lock:
            return dict(self._failures)

    def records(self, topic: str | None = None) -> list[Acknowledged]:
        """What was acknowledged so far of topics that still exist, in the order of the answers."""
        with self._lock:
            return [
                record
                for record in self._records
                if record.life == self._lives.get(record.topic, 0) and topic in (None, record.topic)
            ]

    def by_partition(self) -> dict[TopicPartition, list[Acknowledged]]:
        """The same, by partition and in the order of offsets."""
        grouped: dict[TopicPartition, list[Acknowledged]] = {}
        for record in self.records():
            grouped.setdefault((record.topic, record.partition), []).append(record)
        for records in grouped.values():
            records.sort(key=lambda record: record.offset)
        return grouped

    def at(self, place: TopicPartition, offsets: Collection[int]) -> list[Acknowledged]:
        """What was acknowledged at these offsets of a partition."""
        return [r for r in self.records(place[0]) if r.partition == place[1] and r.offset in offsets]

    def kinds(self) -> dict[str, ProducerKind]:
        """Tag -> the kind of the producer that writes under it."""
        with self._lock:
            return {record.tag: record.kind for record in self._records}

    def outcomes(self) -> dict[str, Outcome]:
        """Transaction -> outcome."""
        with self._lock:
            return dict(self._outcomes)

    def save(self, path: Path) -> None:
        """Writes one row a record, tab separated, gzip-compressed."""
        with self._lock:
            records = list(self._records)
        lines = (_line(record) for record in records)
        # mtime=0: the same ledger is the same bytes.
        with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as file:
            file.write(("\n".join([_COLUMNS.replace(" ", "\t"), *lines]) + "\n").encode())


def ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Offsets as half-open ranges: 3, 4, 5, 9 are [3, 6) and [9, 10)."""
    found: list[tuple[int, int]] = []
    for offset in sorted(set(offsets)):
        if found and found[-1][1] == offset:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found


def _line(record: Acknowledged) -> str:
    key = "" if record.key is None else record.key.decode("utf-8", "replace")
    fields = (record.tag, record.n, record.topic, record.partition, record.offset, record.acknowledged_at_ms)
    return "\t".join(map(str, (*fields, record.kind, record.transaction or "", key)))
