"""Producers and transactions of one replica, replayed from its segment summaries.

In: the events of each stretch of the log, in order (`segments.summary.EVENT`, `GAP`). Out: each producer's state as the
broker's `ProducerStateManager` would hold it at any stretch's end, the transactions, and the breaks in sequences with
their causes. A break is called `lost` (or `duplicate`, `overlap`, …) only when nothing that Kafka does soundly explains
it: compaction, expiry of the producer's state, the coordinator's own writes. Nothing that is missing because of a batch
with a wrong checksum is called lost. Sources: ProducerAppendInfo#append, #appendEndTxnMarker, #checkSequence;
ProducerStateEntry; KIP-98, KIP-890.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from numpy.typing import NDArray

from tidegauge.facts.metadata.expiration import (
    CHECK_INTERVAL_MS,
    DEFAULT_EXPIRATION,
    PRODUCER_EXPIRATION_MS,
    Expiration,
    Idle,
)
from tidegauge.facts.producers.state import (
    SEQUENCE_MASK,
    UNKNOWN,
    EndMarker,
    LastRun,
    ProducerEpoch,
    Repeat,
    SequenceBreak,
    Transaction,
    ahead,
)
from tidegauge.facts.segments.summary import ABORT, COMMIT, FORWARD_LIMIT, MARKER, ROTTEN, Event, Gap
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry


@dataclass(slots=True)
class ProducerReplay:
    """The producers of one replica's log, stretch after stretch.

    `compacted`: cleaning may have removed batches. `ignore_sequences`: the coordinator writes this topic. `head_gone`:
    the log once began earlier (retention, DeleteRecords, a replica that was made later). `damaged`: offsets
    [start, end) of batches whose checksum is wrong, in order.
    """

    compacted: bool = False
    head_gone: bool = False
    ignore_sequences: bool = False
    expiration: Expiration = DEFAULT_EXPIRATION
    damaged: tuple[tuple[int, int], ...] = ()
    states: dict[int, ProducerSnapshotEntry] = field(default_factory=dict)
    epochs: dict[tuple[int, int], ProducerEpoch] = field(default_factory=dict)
    completed: list[Transaction] = field(default_factory=list)
    first_seen: dict[int, int] = field(default_factory=dict)
    """Producer id -> timestamp of its first batch."""
    repeats: list[Repeat] = field(default_factory=list)
    """Batches that look like one of an older epoch of their producer."""
    unreadable_markers: list[int] = field(default_factory=list)
    """Offsets of end markers of which it cannot be told whose they are, how they ended it or which coordinator did."""
    _open: dict[int, Transaction] = field(default_factory=dict)
    _last_completed: dict[int, Transaction] = field(default_factory=dict)
    longest_idle: dict[int, Idle] = field(default_factory=dict)
    """How long each producer had written nothing at most, since an end marker told its coordinator epoch."""
    _idle_since_marker: set[int] = field(default_factory=set)
    _only_marked: set[int] = field(default_factory=set)
    """Producers of whom the log begins with an end marker: what they wrote before it is gone with the log's head."""
    _last_coordinator_epoch: dict[int, int] = field(default_factory=dict)
    _newest_epoch: dict[int, int] = field(default_factory=dict)
    _last_marker: dict[int, EndMarker] = field(default_factory=dict)
    _last_run: dict[int, LastRun] = field(default_factory=dict)

    def add(self, events: NDArray[Any], gaps: NDArray[Any]) -> None:
        """Replays one stretch; stretches come in log order."""
        names = events.dtype.names or ()
        # Transactions complete in the order of their markers, and the index's last stable offset depends on it, so
        # events are taken in the order in which they begin; a run that goes on past a marker of another producer is
        # open all the while.
        gap_names = gaps.dtype.names or ()
        listed = [cast(Gap, dict(zip(gap_names, values, strict=True))) for values in gaps.tolist()]
        for values in events.tolist():
            event = cast(Event, dict(zip(names, values, strict=True)))
            if event["kind"] == MARKER:
                self._marker(event)
            else:
                self._run(event)
        for gap in listed:
            self._gap(gap)

    @property
    def open_transactions(self) -> tuple[Transaction, ...]:
        """Transactions without an end marker, by first offset."""
        return tuple(sorted((t for t in self._open.values() if t.is_open), key=lambda t: t.first_offset))

    @property
    def doubtful_offsets(self) -> tuple[int, ...]:
        """Where something stands, or begins, that nobody can read; what a broker remembered of it is not known."""
        return tuple(sorted({*self.unreadable_markers, *(start for start, _ in self.damaged)}))

    @property
    def transactions(self) -> tuple[Transaction, ...]:
        """All transactions, by first offset."""
        return tuple(sorted((*self.completed, *self._open.values()), key=lambda t: (t.first_offset, t.producer_id)))

    def breaks(self) -> Iterator[SequenceBreak]:
        """Every break kept, in log order."""
        return iter(sorted((b for e in self.epochs.values() for b in e.breaks), key=lambda b: b.offset))

    def first_unstable_offset(self, high_watermark: int | None) -> int | None:
        """Smallest first offset of an open transaction, or of one whose marker is not below the high watermark."""
        unstable = [t.first_offset for t in self.open_transactions]
        if high_watermark is not None:
            ended = [(t.marker_offset, t.first_offset) for t in self.completed if t.marker_offset is not None]
            unstable += [first_offset for marker_offset, first_offset in ended if marker_offset >= high_watermark]
        return min(unstable, default=None)

    def _epoch(self, event: Event) -> ProducerEpoch:
        key = (event["producer_id"], event["producer_epoch"])
        self.first_seen.setdefault(key[0], event["first_timestamp"])
        entry = self.epochs.get(key)
        if entry is None:
            entry = self.epochs[key] = ProducerEpoch(
                producer_id=key[0], producer_epoch=key[1], first_offset=event["first_offset"],
                last_offset=event["last_offset"], last_timestamp=event["last_timestamp"],
            )  # fmt: skip
        entry.last_offset = max(entry.last_offset, event["last_offset"])
        entry.last_timestamp = max(entry.last_timestamp, event["last_timestamp"])
        return entry

    def _run(self, event: Event) -> None:
        producer_id = event["producer_id"]
        entry = self._epoch(event)
        if not self.ignore_sequences:
            cause = self._judge_start(event, entry)
            if cause not in ("duplicate", "overlap") or ahead(event["last_sequence"], entry.highest_sequence):
                entry.highest_sequence = event["last_sequence"]
            self._reached(event, expired=cause == "expired")
        if entry.first_sequence is None:
            entry.first_sequence = event["first_sequence"]
        entry.last_sequence = event["last_sequence"]
        if self.compacted:
            entry.explained_gaps += event["gaps"]
        else:
            entry.lost_gaps += event["gaps"]
            entry.missing_sequences += event["missing_sequences"]
        before = self.states.get(producer_id)
        first = before.current_transaction_first_offset if before else None
        if not event["transactional"] and producer_id in self._open:
            entry.nontransactional_batches += event["batches"]
            if entry.nontransactional_offset is None:
                entry.nontransactional_offset = event["first_offset"]
        if event["transactional"]:
            self._idle_since_marker.discard(producer_id)
            transaction = self._open.get(producer_id)
            if transaction is not None and transaction.outcome == UNKNOWN:
                transaction = self._go_on_with(transaction, event)
            if transaction is None:
                transaction = self._open[producer_id] = Transaction(
                    producer_id=producer_id,
                    producer_epoch=event["producer_epoch"],
                    first_offset=event["first_offset"],
                    last_offset=event["last_offset"],
                    records=event["records"],
                    first_timestamp=event["first_timestamp"],
                    last_timestamp=event["last_timestamp"],
                    first_sequence=event["first_sequence"],
                    previous_marker=self._last_marker.get(producer_id),
                )
                first = event["first_offset"]
            else:
                transaction.last_offset = event["last_offset"]
                transaction.records += event["records"]
                transaction.last_timestamp = event["last_timestamp"]
        self._note_look(event, self._open.get(producer_id) if event["transactional"] else None)
        self._note_idle(event, before)
        self._only_marked.discard(producer_id)
        self.states[producer_id] = ProducerSnapshotEntry(
            producer_id=producer_id,
            producer_epoch=event["producer_epoch"],
            last_sequence=event["last_sequence"],
            last_offset=event["last_offset"],
            offset_delta=event["last_offset_delta"],
            timestamp=event["last_timestamp"],
            coordinator_epoch=before.coordinator_epoch if before else -1,
            current_transaction_first_offset=first,
        )

    def _note_look(self, event: Event, transaction: Transaction | None) -> None:
        """Does the run's first batch look like one that ended the producer's run in an older epoch (E06)?"""
        producer_id = event["producer_id"]
        before = self._last_run.get(producer_id)
        look = event["first_look"]
        if before is not None and before.producer_epoch < event["producer_epoch"] and look and look in before.looks:
            self.repeats.append(
                Repeat(
                    producer_id=producer_id,
                    producer_epoch=event["producer_epoch"],
                    offset=event["first_offset"],
                    end_offset=event["last_offset"] + 1,
                    before=before,
                    transaction=transaction,
                )
            )
        self._last_run[producer_id] = LastRun(
            producer_epoch=event["producer_epoch"],
            first_offset=event["first_offset"],
            last_offset=event["last_offset"],
            looks=(event["look_0"], event["look_1"], event["look_2"], event["look_3"], event["look_4"]),
            transaction=transaction,
        )

    def _reached(self, event: Event, *, expired: bool = False) -> None:
        producer_id, epoch = event["producer_id"], event["producer_epoch"]
        self._newest_epoch[producer_id] = epoch if expired else max(epoch, self._newest_epoch.get(producer_id, epoch))

    def _judge_start(self, event: Event, entry: ProducerEpoch) -> str | None:
        """Does the first sequence of a run follow from what the producer wrote (ProducerAppendInfo#checkSequence)?

        Gives the cause if not. After a batch that repeats older sequences, or one of an older epoch, the broker's state
        goes back with it; what is due is still what follows the highest, or the next sound batch would be called a
        loss.
        """
        before = self.states.get(event["producer_id"])
        if before is None:
            return None  # No state (below the log start, expired, a re-created topic): any first sequence is accepted.
        found = event["first_sequence"]
        if event["producer_epoch"] < self._newest_epoch.get(event["producer_id"], before.producer_epoch):
            return self._break(event, entry, expected=0, cause="epoch_regression", before=before)
        highest = entry.highest_sequence
        if highest is None:
            if event["producer_epoch"] != before.producer_epoch or before.last_sequence < 0:
                if event["producer_id"] in self._only_marked and event["producer_epoch"] == before.producer_epoch:
                    return None
                cause = "nonzero_start"
                return self._break(event, entry, expected=0, cause=cause, before=before) if found != 0 else None
            highest = before.last_sequence
        expected = (highest + 1) & SEQUENCE_MASK
        if found == expected:
            return None
        if (found - expected) & SEQUENCE_MASK < FORWARD_LIMIT:
            return self._break(event, entry, expected=expected, cause="lost", before=before)
        entry.went_back.append((event["first_offset"], highest))
        return self._went_back(event, entry, expected=expected, before=before)

    def _went_back(self, event: Event, entry: ProducerEpoch, *, expected: int, before: ProducerSnapshotEntry) -> str:
        """A run that begins below what was due. It may go on past it: only what was written already is repeated.

        A first batch that ends below what was due repeats, and what is due may follow it without a break. One that ends
        past it is an overlap. How many more of such a run's batches repeat is not known any more.
        """
        if not ahead(event["last_sequence"], (expected - 1) & SEQUENCE_MASK):
            return self._break(event, entry, expected=expected, cause="duplicate", before=before)
        cause, end = "duplicate", (event["first_batch_last_sequence"] + 1) & SEQUENCE_MASK
        if ahead(event["first_batch_last_sequence"], (expected - 1) & SEQUENCE_MASK):
            cause, end = "overlap", expected
        length = (end - event["first_sequence"]) & SEQUENCE_MASK
        first: Event = {
            **event,
            "batches": 1,
            "last_offset": min(event["first_offset"] + length - 1, event["last_offset"]),
        }
        return self._break(first, entry, expected=expected, cause=cause, before=before)

    def _gap(self, gap: Gap) -> None:
        """A forward gap inside a run; its count is on the run already, this is its place."""
        if self.ignore_sequences:
            return
        entry = self.epochs.get((gap["producer_id"], gap["producer_epoch"]))
        if entry is None:
            return
        cause = "compacted" if self.compacted else "lost"
        if cause == "lost" and not self._still_due(gap, entry):
            return
        missing = (gap["found_sequence"] - gap["expected_sequence"]) & SEQUENCE_MASK
        expired = self._expired(gap["previous_timestamp"], gap["timestamp"])
        if cause == "lost" and (expired or self._hidden(gap["previous_offset"], gap["offset"], missing)):
            cause = "expired" if expired else "damaged"
            entry.lost_gaps -= 1
            entry.explained_gaps += 1
            entry.missing_sequences -= missing
        entry.breaks.append(
            SequenceBreak(
                producer_id=gap["producer_id"],
                producer_epoch=gap["producer_epoch"],
                expected_sequence=gap["expected_sequence"],
                found_sequence=gap["found_sequence"],
                offset=gap["offset"],
                end_offset=gap["offset"],
                previous_offset=gap["previous_offset"],
                cause=cause,
            )
        )

    @staticmethod
    def _still_due(gap: Gap, entry: ProducerEpoch) -> bool:
        """Cuts a gap behind a repeated batch down to what was never written; False if nothing is left of it."""
        highest = next((h for offset, h in reversed(entry.went_back) if offset <= gap["offset"]), None)
        if highest is None or not ahead(highest, (gap["expected_sequence"] - 1) & SEQUENCE_MASK):
            return True
        due = (highest + 1) & SEQUENCE_MASK
        left = (gap["found_sequence"] - due) & SEQUENCE_MASK
        left = left if left < FORWARD_LIMIT else 0
        counted = (gap["found_sequence"] - gap["expected_sequence"]) & SEQUENCE_MASK
        entry.missing_sequences -= counted - left
        if left == 0:
            entry.lost_gaps -= 1
            return False
        gap["expected_sequence"] = due
        return True

    def _break(
        self, event: Event, entry: ProducerEpoch, *, expected: int, cause: str, before: ProducerSnapshotEntry
    ) -> str:
        if self.compacted and cause in ("lost", "nonzero_start"):
            cause = "compacted"  # Cleaning removes batches; it brings none back.
        elif cause in ("lost", "nonzero_start") and self._hidden(
            self._last_offset_of(before), event["first_offset"], (event["first_sequence"] - expected) & SEQUENCE_MASK
        ):
            cause = "damaged"
        elif self._expired(before.timestamp, event["first_timestamp"]):
            cause = "expired"
        elif cause not in ("lost", "nonzero_start") and self._may_have_expired(before.timestamp, event):
            cause = "unsettled"
        match cause:
            case "lost":
                entry.lost_gaps += 1
                entry.missing_sequences += (event["first_sequence"] - expected) & SEQUENCE_MASK
            case "nonzero_start":
                entry.nonzero_starts += 1
            case "epoch_regression":
                entry.epoch_regressions += event["batches"]
            case "duplicate":
                entry.duplicate_batches += event["batches"]
            case "overlap":
                entry.overlapping_batches += event["batches"]
            case "unsettled":
                entry.unsettled_batches += event["batches"]
            case _:
                entry.explained_gaps += 1
        entry.breaks.append(
            SequenceBreak(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                expected_sequence=expected,
                found_sequence=event["first_sequence"],
                offset=event["first_offset"],
                end_offset=event["last_offset"] + 1,
                previous_offset=before.last_offset,
                cause=cause,
            )
        )
        return cause

    def _expired(self, written_at_ms: int, at_ms: int) -> bool:
        """Whether a producer's state was gone, so that any batch of it was taken.

        Where the setting is not known, Kafka's default stands for it: a client whose state is gone goes on with the
        sequence that is due, so what breaks off within a day tells of a loss whatever the setting was. What goes back
        does not: see `_may_have_expired`.
        """
        least = self.expiration.least_since(written_at_ms)
        return at_ms - written_at_ms >= (PRODUCER_EXPIRATION_MS if least is None else least)

    def _may_have_expired(self, written_at_ms: int, event: Event) -> bool:
        """Whether a leader may have forgotten what a batch goes back behind, and nothing tells if it had."""
        idle_ms = event["first_timestamp"] - written_at_ms
        known = self.expiration.may_be_over(written_at_ms=written_at_ms, idle_ms=idle_ms)
        return known is None and idle_ms >= CHECK_INTERVAL_MS

    def _note_idle(self, event: Event, before: ProducerSnapshotEntry | None) -> None:
        """The longest while without a batch; of a run of batches no more is known than its first and last one's."""
        first, last = event["first_timestamp"], event["last_timestamp"]
        whiles = [Idle(since_ms=first, for_ms=last - first)] if event["batches"] > 1 else []
        if before is not None:
            whiles.append(Idle(since_ms=before.timestamp, for_ms=first - before.timestamp))
        if known := self.longest_idle.get(event["producer_id"]):
            whiles.append(known)
        if whiles:
            self.longest_idle[event["producer_id"]] = max(whiles, key=lambda idle: idle.for_ms)

    def _go_on_with(self, transaction: Transaction, event: Event) -> Transaction | None:
        """One that may have ended in what cannot be read: under another epoch it has."""
        if transaction.producer_epoch == event["producer_epoch"]:
            return transaction
        self.completed.append(self._open.pop(transaction.producer_id))
        return None

    def _hidden(self, previous_offset: int, offset: int, missing: int) -> bool:
        """Whether so many sequences may stand in the batches between two offsets that cannot be read."""
        return missing <= sum(
            min(end, offset) - start for start, end in self.damaged if previous_offset < start < min(end, offset)
        )

    def _last_offset_of(self, state: ProducerSnapshotEntry) -> int:
        marker = self._last_marker.get(state.producer_id)
        return max(state.last_offset, marker.offset if marker is not None else -1)

    def _rotten_marker(self, event: Event) -> None:
        """An end marker under a wrong checksum, if it is one: it may have ended any transaction that is open."""
        self.unreadable_markers.append(event["first_offset"])
        ended = self._open.pop(event["producer_id"], None)
        if ended is not None:
            ended.outcome, ended.marker_offset = UNKNOWN, event["first_offset"]
            self.completed.append(ended)
            self._idle_since_marker.discard(event["producer_id"])
            return
        for transaction in self._open.values():
            transaction.outcome = UNKNOWN
        self._idle_since_marker.clear()

    def _marker(self, event: Event) -> None:
        if event["marker_type"] == ROTTEN:
            self._rotten_marker(event)
            return
        producer_id = event["producer_id"]
        outcome = {COMMIT: "committed", ABORT: "aborted"}.get(event["marker_type"], UNKNOWN)
        coordinator_epoch = event["coordinator_epoch"] if event["coordinator_epoch"] >= 0 else None
        if outcome == UNKNOWN or coordinator_epoch is None:
            self.unreadable_markers.append(event["first_offset"])
        transaction = self._open.pop(producer_id, None)
        previous_epoch = self._last_coordinator_epoch.get(producer_id)
        if transaction is not None:
            own = not (self.compacted and transaction.lost_its_marker(event["producer_epoch"], outcome))
            transaction.outcome = outcome if own else UNKNOWN
            transaction.marker_offset = event["first_offset"]
            transaction.marker_producer_epoch = event["producer_epoch"] if own else None
            transaction.coordinator_epoch = coordinator_epoch
            transaction.previous_coordinator_epoch = previous_epoch
            others = [t.first_offset for t in self.open_transactions]
            transaction.last_stable_offset = min(others, default=event["first_offset"] + 1)
            self.completed.append(transaction)
            self._last_completed[producer_id] = transaction
            self._idle_since_marker.add(producer_id)
        else:
            self._repeated(producer_id, event, outcome)
        ended = transaction or self._last_completed.get(producer_id)
        self._last_marker[producer_id] = EndMarker(
            offset=event["first_offset"],
            producer_epoch=event["producer_epoch"],
            bumped=ended is not None and event["producer_epoch"] > ended.producer_epoch,
        )
        before = self.states.get(producer_id)
        if coordinator_epoch is not None:
            self._last_coordinator_epoch[producer_id] = coordinator_epoch
            self.longest_idle.pop(producer_id, None)
        elif before is not None:
            coordinator_epoch = before.coordinator_epoch
        same_epoch = before is not None and before.producer_epoch == event["producer_epoch"]
        if before is None and self.head_gone:
            self._only_marked.add(producer_id)
        # A marker of a newer producer epoch empties the batch metadata (ProducerStateEntry#maybeUpdateProducerEpoch).
        self.states[producer_id] = ProducerSnapshotEntry(
            producer_id=producer_id,
            producer_epoch=event["producer_epoch"],
            last_sequence=before.last_sequence if before is not None and same_epoch else -1,
            last_offset=before.last_offset if before is not None and same_epoch else -1,
            offset_delta=before.offset_delta if before is not None and same_epoch else 0,
            timestamp=event["last_timestamp"],
            coordinator_epoch=-1 if coordinator_epoch is None else coordinator_epoch,
            current_transaction_first_offset=None,
        )
        self._epoch(event)
        self._reached(event)

    def _repeated(self, producer_id: int, event: Event, outcome: str) -> None:
        """Takes a marker without data before it: sent again, or of a transaction that wrote nothing here.

        Only under transaction version 2 (the marker's epoch is above its data's) does an equal epoch prove that it
        speaks of the same transaction; under version 1 the next, empty transaction ends with the same epoch.
        """
        last = self._last_completed.get(producer_id)
        if last is None or producer_id not in self._idle_since_marker or UNKNOWN in (outcome, last.outcome):
            return
        if last.marker_producer_epoch != event["producer_epoch"]:
            self._idle_since_marker.discard(producer_id)
            return
        if outcome == last.outcome:
            last.repeated_markers += 1
        elif last.marker_producer_epoch > last.producer_epoch:
            last.contradicting_markers += 1


def seeded(replay: ProducerReplay, states: Iterable[ProducerSnapshotEntry]) -> ProducerReplay:
    """A replay that goes on from a producer snapshot, as a broker loads its state (UnifiedLog#rebuildProducerState)."""
    for state in states:
        replay.states[state.producer_id] = state
        if state.current_transaction_first_offset is not None:
            replay._open[state.producer_id] = Transaction(
                producer_id=state.producer_id,
                producer_epoch=state.producer_epoch,
                first_offset=state.current_transaction_first_offset,
                last_offset=state.last_offset,
                records=0,
                first_timestamp=state.timestamp,
                last_timestamp=state.timestamp,
            )
        if state.coordinator_epoch >= 0:
            replay._last_coordinator_epoch[state.producer_id] = state.coordinator_epoch
    return replay
