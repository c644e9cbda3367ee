"""Which salvaged records a live partition has already, under whatever offset.

In: what is wanted, and the partition's batches as they pass by. Out: for a salvaged record, the live one that is the
same, and how that is known. One live record stands for one salvaged record, never for two; one whose transaction was
aborted stands for none.

Ways to be the same, the strongest first:

    place       the same offset and leader epoch, and the same content: it was never cut
    sequence    the same producer id, epoch and sequence, and the same content: the producer sent it again
    timestamp   the same content and the same timestamp: it was produced again with its own time
    content     the same key, value and headers

Memory grows with what was salvaged, not with what the partition holds: only live records with a salvaged content are
kept, and of these no more than could stand for one.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.batch import TRANSACTIONAL_BIT
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.records import RecordBatch, read_batch
from tidegauge.recovery.duplicates import Sequenced, content_of, sequence_of
from tidegauge.recovery.replica_batches import Outcomes, is_control

WAYS: Final = ("place", "sequence", "timestamp", "content")

Producer = tuple[int, int]
"""Id and epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What tells a salvaged record from others, without its bytes."""

    offset: int
    timestamp: int
    leader_epoch: int
    content: bytes
    sequenced: Sequenced | None
    key: bytes | None
    """A digest of the key; None for a record without one."""
    survived_offset: int | None = None
    """The live partition's record that stood for it when it was salvaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The live record that is the same."""

    offset: int
    way: str
    open_transaction: bool
    """Its transaction has not ended, so it may yet be taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Of salvaged offsets: who is there, and whose key has got another value since.

    A value that is itself a salvaged record, further down than this one, is no newer one.
    """

    present: Mapping[int, Present]
    newer_values: Collection[int]


@dataclass(frozen=True, slots=True)
class _Seen:
    offset: int
    timestamp: int
    leader_epoch: int
    sequenced: Sequenced | None
    row: np.void | None
    """The header of its batch where a transaction decides what it is worth."""


@dataclass(slots=True)
class _SameContent:
    """The salvaged records with one content, and the live ones that may stand for them."""

    wanted: list[Wanted] = field(default_factory=list)
    timestamps: set[int] = field(default_factory=set)
    sequences: set[Sequenced] = field(default_factory=set)
    offsets: set[int] = field(default_factory=set)
    seen: list[_Seen] = field(default_factory=list)
    passed_over: bool = False
    """There are more live ones than could stand for one by their content."""

    def want(self, one: Wanted) -> None:
        self.wanted.append(one)
        self.timestamps.add(one.timestamp)
        self.offsets.add(one.offset)
        if one.sequenced is not None:
            self.sequences.add(one.sequenced)
        if one.survived_offset is not None:
            self.offsets.add(one.survived_offset)

    def see(self, seen: _Seen) -> None:
        known = seen.timestamp in self.timestamps or seen.offset in self.offsets or seen.sequenced in self.sequences
        if known or seen.row is not None or len(self.seen) < len(self.wanted):
            self.seen.append(seen)
        else:
            self.passed_over = True

    def pairs(self, live: Sequence[_Seen]) -> tuple[list[tuple[Wanted, _Seen, str]], bool]:
        """Who stands for whom, and whether a live one is left that stands for none."""
        reserved = {one.survived_offset for one in self.wanted}
        unused = {id(seen): seen for seen in live if seen.offset not in reserved}
        left = [one for one in self.wanted if one.survived_offset is None]
        found: list[tuple[Wanted, _Seen, str]] = []
        for way in WAYS:
            by_mark: dict[object, deque[_Seen]] = defaultdict(deque)
            for seen in unused.values():
                by_mark[_mark(seen, way)].append(seen)
            missing: list[Wanted] = []
            for one in left:
                mark = _mark(one, way)
                if mark is None or not (there := by_mark.get(mark)):
                    missing.append(one)
                    continue
                seen = there.popleft()
                del unused[id(seen)]
                found.append((one, seen, way))
            left = missing
        return found, bool(unused) or self.passed_over


def _mark(one: Wanted | _Seen, way: str) -> object:
    """What has to be equal, beside the content; None where there is nothing to compare."""
    match way:
        case "place":
            return one.offset, one.leader_epoch
        case "sequence":
            return one.sequenced
        case "timestamp":
            return one.timestamp
    return way


@dataclass(slots=True)
class Comparison:
    """Takes the live batches one by one, then tells."""

    wanted: Sequence[Wanted]
    own: Collection[Producer] = ()
    """The producers of earlier replays: what they wrote is known by sequence, and is no survivor."""
    found_own: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """(producer id, epoch, sequence) of a batch of theirs -> its offset."""
    unreadable: list[str] = field(default_factory=list)
    _by_content: dict[bytes, _SameContent] = field(default_factory=lambda: defaultdict(_SameContent))
    _keys: dict[bytes, list[np.void] | None] = field(default_factory=dict)
    """Key of a salvaged record -> batches of transactions with another value of it; None where a value is certain."""
    _markers: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    _allowance: Allowance = field(default_factory=Allowance)

    def __post_init__(self) -> None:
        for one in self.wanted:
            self._by_content[one.content].want(one)
            if one.key is not None:
                self._keys[one.key] = []

    def see(self, row: np.void, data: bytes) -> None:
        """One live batch; they come in order."""
        producer = (int(row["producer_id"]), int(row["producer_epoch"]))
        if is_control(row):
            self._markers[producer[0]].append((int(row["base_offset"]), int(row["control_type"])))
        elif producer in self.own:
            self.found_own[*producer, int(row["base_sequence"])] = int(row["base_offset"])
        else:
            batch = read_batch(data, allowance=self._allowance)
            if isinstance(batch, Corruption):
                self.unreadable.append(f"offsets {row['base_offset']}..{row['last_offset']}: {batch.detail}")
            else:
                self._take(batch, row)

    def _take(self, batch: RecordBatch, row: np.void) -> None:
        in_transaction = row.copy() if int(row["attributes"]) & TRANSACTIONAL_BIT else None
        for record in batch.records:
            content = content_of(record)
            if content in self._by_content:
                sequenced = sequence_of(batch, record) if batch.base_sequence >= 0 else None
                seen = _Seen(record.offset, record.timestamp, batch.partition_leader_epoch, sequenced, in_transaction)
                self._by_content[content].see(seen)
            elif (key := key_digest(record.key)) is not None and (rows := self._keys.get(key)) is not None:
                if in_transaction is None:
                    self._keys[key] = None
                else:
                    rows.append(in_transaction)

    def result(self) -> Compared:
        """Once all has passed by."""
        outcomes = Outcomes(markers=self._markers)
        present: dict[int, Present] = {}
        newer = {k for k, rows in self._keys.items() if rows is None or any(outcomes.of(r) != "aborted" for r in rows)}
        for same in self._by_content.values():
            live = [seen for seen in same.seen if _outcome(seen, outcomes) != "aborted"]
            pairs, more = same.pairs(live)
            if more and (key := same.wanted[0].key) is not None:
                newer.add(key)
            for one, seen, way in pairs:
                is_open = _outcome(seen, outcomes) == "open"
                present[one.offset] = Present(offset=seen.offset, way=way, open_transaction=is_open)
        return Compared(present=present, newer_values=self._newer_values(newer, present))

    def _newer_values(self, keys: set[bytes], present: Mapping[int, Present]) -> set[int]:
        latest: dict[bytes, int] = {}
        for one in self.wanted:
            if one.key is not None and (one.offset in present or one.survived_offset is not None):
                latest[one.key] = max(latest.get(one.key, -1), one.offset)
        return {
            one.offset
            for one in self.wanted
            if one.key is not None and (one.key in keys or latest.get(one.key, -1) > one.offset)
        }


def key_digest(key: bytes | None) -> bytes | None:
    """By which keys are compared."""
    return None if key is None else hashlib.sha256(key).digest()[:16]


def _outcome(seen: _Seen, outcomes: Outcomes) -> str | None:
    return None if seen.row is None else outcomes.of(seen.row)
