"""A producer snapshot against the log that it sums up.

In: a parsed `.snapshot` file, the producers' states that a replay of the log up to its offset gives. Out:
`IndexFileFacts`. What a broker may have forgotten by then, or may know from records that are gone, is no error; and
where nothing tells whether it had forgotten a producer, that is said.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidegauge.facts.metadata.expiration import SOONEST_EXPIRATION_MS, UNKNOWN_EXPIRATION, Expiration, Idle
from tidegauge.facts.segments.index_file_facts import IndexFileFacts, with_form
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshot, ProducerSnapshotEntry

_LAST_BATCH: Final = frozenset({"last_sequence", "last_offset", "offset_delta"})
_COMPARED: Final = (
    "producer_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp",
    "coordinator_epoch",
    "current_transaction_first_offset",
)


def check_producer_snapshot(
    snapshot: ProducerSnapshot,
    *,
    offset: int,
    states: Mapping[int, ProducerSnapshotEntry] | None,
    head_gone: bool,
    log_first_offset: int | None,
    compacted: bool,
    log_start_offset: int,
    taken_before_ms: int | None,
    captured_at_ms: int | None = None,
    expiration: Expiration = UNKNOWN_EXPIRATION,
    idle_since_marker: Mapping[int, Idle] = MappingProxyType({}),
) -> IndexFileFacts:
    """A producer snapshot at `offset` against the replay of the log up to there.

    `states` is None where the log before it could not be replayed. A superset is sound (retention or cleaning removed
    the data); a producer may be missing when it had expired, or when all its data lie below the log start.
    `taken_before_ms` bounds when the snapshot was taken: by the batches behind it; None where there are none (a
    snapshot at the log end may have been taken by a restart long after the last batch, but not after the capture).
    `idle_since_marker`: how long each producer had written nothing at most, since a marker told its coordinator epoch.
    """
    facts = with_form(IndexFileFacts(kind="snapshot", entries=len(snapshot.entries)), snapshot.corruptions)
    _check_ranges(facts, snapshot, offset)
    if states is None:
        facts.content_checkable = False
        facts.uncheckable_reason = "the log before it could not be replayed"
        return facts
    named = {e.producer_id: e for e in snapshot.entries}
    for producer_id, state in states.items():
        below = state.last_offset < log_start_offset
        # Behind an end marker of version 2 a producer names no batch; a whole log has the marker.
        if producer_id in named or compacted or (below and (head_gone or state.last_offset >= 0)):
            continue
        forgotten = _forgotten(state, taken_before_ms, captured_at_ms, expiration)
        if forgotten is None:
            facts.undecided[producer_id] = state.timestamp
        if forgotten is False:
            facts.missing_entries += 1
            facts.note("missing", None, f"{last_heard_of(state)} and is not in it")
    for producer_id, entry in named.items():
        known = states.get(producer_id)
        if known is not None:
            unfounded = _without_ground(
                entry,
                known,
                head_gone=head_gone,
                compacted=compacted,
                log_first_offset=log_first_offset,
                log_start_offset=log_start_offset,
            )
            _compare(facts, entry, known, unfounded, expiration, idle_since_marker.get(producer_id))
        elif not head_gone and not compacted and entry.last_offset >= 0:
            # With the whole log there, neither retention, nor DeleteRecords, nor cleaning can have removed its data.
            facts.extra_entries += 1
            facts.note(
                "extra", None, f"producer {producer_id} (last offset {entry.last_offset}) has no batch in the log"
            )
    return facts


def _check_ranges(facts: IndexFileFacts, snapshot: ProducerSnapshot, offset: int) -> None:
    """What an entry must be by itself, in a snapshot at this offset."""
    for at, entry in enumerate(snapshot.entries):
        first = entry.current_transaction_first_offset
        bad = []
        if entry.last_offset >= offset:
            bad.append(f"last offset {entry.last_offset} is not below {offset}")
        if first is not None and first >= offset:
            bad.append(f"transaction's first offset {first} is not below {offset}")
        if entry.last_offset >= 0 and entry.last_offset - entry.offset_delta < 0:
            bad.append(f"offset delta {entry.offset_delta} reaches below 0 from {entry.last_offset}")
        if bad:
            facts.range_errors += 1
            facts.note("range", 10 + at * 46, f"producer {entry.producer_id}: {'; '.join(bad)}")


def _compare(
    facts: IndexFileFacts,
    entry: ProducerSnapshotEntry,
    known: ProducerSnapshotEntry,
    unfounded: frozenset[str],
    expiration: Expiration,
    idle: Idle | None,
) -> None:
    """An entry beside what the replay says of the same producer, but for the `unfounded` fields."""
    differing = [
        f"{name} is {getattr(entry, name)}, recomputed {getattr(known, name)}"
        for name in _COMPARED
        if name not in unfounded and getattr(entry, name) != getattr(known, name)
    ]
    if idle is not None and _coordinator_forgotten(entry, known):
        forgotten = expiration.may_be_over(written_at_ms=idle.since_ms, idle_ms=idle.for_ms)
        told = [d for d in differing if not d.startswith("coordinator_epoch ")]
        if forgotten is None and differing and not told:
            facts.undecided[entry.producer_id] = known.timestamp
        differing = differing if forgotten is False else told
    if differing:
        facts.wrong_entries += 1
        facts.note("wrong", None, f"producer {entry.producer_id}: {'; '.join(differing)}")


def last_heard_of(state: ProducerSnapshotEntry) -> str:
    """A producer, and the last that is known of it."""
    did = f"wrote up to offset {state.last_offset}" if state.last_offset >= 0 else "ended a transaction"
    return f"producer {state.producer_id} {did}"


def _forgotten(
    state: ProducerSnapshotEntry, taken_before_ms: int | None, captured_at_ms: int | None, expiration: Expiration
) -> bool | None:
    """Whether a broker may have let a producer go before it took the snapshot; None: nothing tells."""
    if state.current_transaction_first_offset is not None:
        return False
    if taken_before_ms is not None:
        return expiration.may_be_over(written_at_ms=state.timestamp, idle_ms=taken_before_ms - state.timestamp)
    if captured_at_ms is None:
        return None
    # Of the capture no more is known than of the newest batch: that it was moments ago is not for sure.
    idle_ms = max(captured_at_ms - state.timestamp, SOONEST_EXPIRATION_MS)
    return expiration.may_be_over(written_at_ms=state.timestamp, idle_ms=idle_ms)


def _coordinator_forgotten(entry: ProducerSnapshotEntry, known: ProducerSnapshotEntry) -> bool:
    """The snapshot knows no coordinator epoch, as of a producer that came back after the broker had let it go."""
    return entry.coordinator_epoch < 0 <= known.coordinator_epoch


def _without_ground(
    entry: ProducerSnapshotEntry,
    known: ProducerSnapshotEntry,
    *,
    head_gone: bool,
    compacted: bool,
    log_first_offset: int | None,
    log_start_offset: int,
) -> frozenset[str]:
    """Of a producer's fields, those in which snapshot and replay may differ for want of the same records.

    The snapshot may know what is no longer in the log. And it may know less than what still lies there: a broker that
    rebuilds the state reads from the log start on (`UnifiedLog#rebuildProducerState`), which DeleteRecords and
    retention move before the segments below it go.
    """
    names: set[str] = set()
    if (head_gone or compacted) and known.coordinator_epoch < 0 <= entry.coordinator_epoch:
        names.add("coordinator_epoch")
    if log_first_offset is None:
        return frozenset(names)
    begun, recomputed = entry.current_transaction_first_offset, known.current_transaction_first_offset
    if head_gone:
        if begun is not None and begun < log_first_offset:
            names.add("current_transaction_first_offset")
        if known.last_offset < 0 and entry.last_offset < log_first_offset:
            # Of what it wrote only an end marker is left.
            names |= _LAST_BATCH
    if log_first_offset < log_start_offset:
        if entry.coordinator_epoch < 0:
            names.add("coordinator_epoch")
        if entry.last_offset < 0 and known.last_offset < log_start_offset:
            names |= _LAST_BATCH
        if recomputed is not None and recomputed < log_start_offset and (begun is None or begun > recomputed):
            names.add("current_transaction_first_offset")
    return frozenset(names)
