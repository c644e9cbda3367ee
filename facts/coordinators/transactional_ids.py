"""The history of each transactional id, as `__transaction_state` tells it: its states, decisions, and broken steps.

In: the records of one transactional id in log order, with the number of holes that the cleaner left before each. Out: a
`TransactionalIdHistory`, mergeable over adjacent segments. A step is judged only where nothing can have stood between
its two records.

A decision is a PrepareCommit or PrepareAbort record: from it on the outcome is settled, whatever happens to the
coordinator. Its producer epoch is the one that the end markers carry: the data's under transaction version 1, one more
under version 2 and when a producer is fenced.

Sources: TransactionState#validPreviousStates, TransactionMetadata#prepareTransitionTo, #isProducerEpochExhausted,
KIP-98, KIP-890.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidegauge.kafka_log.coordinator_records import TransactionState
from tidegauge.kafka_log.types import TopicPartition

STEPS_KEPT: Final = 50
"""How many of a transactional id's newest records, and of its broken steps, are kept to be shown."""

_AT_REST: Final = ("Empty", "CompleteCommit", "CompleteAbort")
VALID_PREVIOUS_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "Empty": _AT_REST,
    "Ongoing": ("Ongoing", *_AT_REST),
    "PrepareCommit": ("Ongoing",),
    "PrepareAbort": ("Ongoing", "PrepareEpochFence", *_AT_REST),
    "CompleteCommit": ("PrepareCommit",),
    "CompleteAbort": ("PrepareAbort",),
    "Dead": _AT_REST,
    "PrepareEpochFence": ("Ongoing",),
}
"""State -> the states that it may follow. A tombstone is Dead; after it a transactional id begins anew."""

COMPLETE_OF: Final[Mapping[str, str]] = {"PrepareCommit": "CompleteCommit", "PrepareAbort": "CompleteAbort"}


_ISR_GROWN_AGAIN_MS: Final = 3_000
"""A broker that has left an ISR is not back in it sooner: it has to be seen as gone, to register and to catch up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a coordinator decided on one transaction; `completed_offset` once every partition had answered it."""

    transactional_id: str
    producer_id: int
    marker_epoch: int
    outcome: str
    partitions: tuple[TopicPartition, ...]
    client_transaction_version: int | None
    record_offset: int
    decided_at_ms: int | None
    completed_offset: int | None = None
    completed_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenStep:
    """Two records of one transactional id, the later of which may not follow the earlier."""

    kind: str
    offset: int
    previous_offset: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A record, its offset, and how many holes lie before it in the stretch that was read."""

    offset: int
    holes: int
    value: TransactionState


@dataclass(slots=True, kw_only=True)
class TransactionalIdHistory:
    """One transactional id in one stretch of its log."""

    first: Seen
    last: Seen
    records: int = 1
    judged_steps: int = 0
    unjudged_steps: int = 0
    broken: int = 0
    broken_steps: list[BrokenStep] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    newest: list[Seen] = field(default_factory=list)
    before_last: Seen | None = None
    doubtful: Seen | None = None
    """The second record, if it may not follow the first one, but might follow what stands before that."""

    @property
    def replaced(self) -> TransactionState | None:
        """What stood before the last record and others of its state; None where the log does not tell."""
        before = next((s for s in reversed(self.newest) if s.value.state != self.last.value.state), None)
        return before.value if before is not None and before.holes == self.last.holes else None

    def moved(self, holes: int) -> "TransactionalIdHistory":
        """The same, with so many more holes before all of it."""
        return replace(
            self,
            first=_moved(self.first, holes),
            last=_moved(self.last, holes),
            newest=[_moved(s, holes) for s in self.newest],
            before_last=_moved(self.before_last, holes) if self.before_last is not None else None,
            doubtful=_moved(self.doubtful, holes) if self.doubtful is not None else None,
        )


def begun(offset: int, holes: int, value: TransactionState) -> TransactionalIdHistory:
    """The history that one record is."""
    seen = Seen(offset=offset, holes=holes, value=value)
    return TransactionalIdHistory(first=seen, last=seen, decisions=list(_decisions(seen)), newest=[seen])


def joined(left: TransactionalIdHistory, right: TransactionalIdHistory, holes: int) -> TransactionalIdHistory:
    """Two adjacent stretches, the left one taken over; `holes` is how many lie before where the right one begins."""
    between = right.first.holes + holes - left.last.holes
    if between > 0:
        left.unjudged_steps += 1
    else:
        left.judged_steps += 1
        for step in _broken(left.last, right.first, left.before_last):
            left.broken += 1
            left.broken_steps.append(step)
        if left.records == 1 and _doubtful(left.last.value, right.first.value):
            left.doubtful = right.first
        if right.doubtful is not None and _may_follow(left.last.value, right.doubtful.value):
            right.broken -= 1
            right.broken_steps = [
                s for s in right.broken_steps if (s.kind, s.offset) != ("state", right.doubtful.offset)
            ]
    decided_last = bool(left.decisions) and left.decisions[-1].record_offset == left.last.offset
    if decided_last and _written_again(left.last.value, right.first.value):
        left.decisions.pop()
    _complete(left, right.first)
    left.before_last = _moved(right.before_last, holes) if right.before_last is not None else left.last
    left.records += right.records
    left.judged_steps += right.judged_steps
    left.unjudged_steps += right.unjudged_steps
    left.broken += right.broken
    left.broken_steps = (left.broken_steps + right.broken_steps)[:STEPS_KEPT]
    left.decisions += right.decisions
    left.newest = [*left.newest, *(_moved(s, holes) for s in right.newest)][-STEPS_KEPT:]
    left.last = _moved(right.last, holes)
    return left


def _moved(seen: Seen, holes: int) -> Seen:
    return replace(seen, holes=seen.holes + holes) if holes else seen


def _decisions(seen: Seen) -> tuple[Decision, ...]:
    value = seen.value
    if value.state not in COMPLETE_OF or value.tombstone:
        return ()
    return (
        Decision(
            transactional_id=value.transactional_id,
            producer_id=value.producer_id,
            marker_epoch=value.producer_epoch,
            outcome="committed" if value.state == "PrepareCommit" else "aborted",
            partitions=value.partitions,
            client_transaction_version=value.client_transaction_version,
            record_offset=seen.offset,
            decided_at_ms=value.last_update_ms,
        ),
    )


def _complete(left: TransactionalIdHistory, following: Seen) -> None:
    """The record behind a decision says whether every partition has answered it."""
    before, now = left.last.value, following.value
    if left.decisions and COMPLETE_OF.get(before.state) == now.state and not now.tombstone:
        left.decisions[-1] = replace(
            left.decisions[-1], completed_offset=following.offset, completed_at_ms=now.last_update_ms
        )


def _broken(before: Seen, now: Seen, earlier: Seen | None) -> tuple[BrokenStep, ...]:
    """What is wrong with a step: the state, the producer id, or the producer epoch.

    A record that was not replicated in time stays in the log and never counted for its coordinator: what comes after
    that may follow the record before it (TransactionStateManager#updateCacheCallback).
    """
    old, new = before.value, now.value
    if old.tombstone or _written_again(old, new):
        return ()
    found = []
    excused = earlier is not None and _doubtful(old, new) and _may_follow(earlier.value, new)
    if not _may_follow(old, new) and not excused:
        found.append(("state", f"{'a tombstone' if new.tombstone else new.state} follows {old.state}"))
    if not new.tombstone:
        found += [(kind, detail) for kind, detail in _producer_faults(old, new)]
    return tuple(
        BrokenStep(kind=kind, offset=now.offset, previous_offset=before.offset, detail=detail) for kind, detail in found
    )


def _may_follow(old: TransactionState, new: TransactionState) -> bool:
    return old.tombstone or old.state in VALID_PREVIOUS_STATES["Dead" if new.tombstone else new.state]


def _doubtful(old: TransactionState, new: TransactionState) -> bool:
    """Whether a record may not follow another one, which may never have counted: so long it stood alone.

    The next one is not taken before the ISR has grown again.
    """
    if old.last_update_ms is None or new.last_update_ms is None:
        return False
    return not _may_follow(old, new) and new.last_update_ms - old.last_update_ms >= uncounted_after_ms(old)


def uncounted_after_ms(state: TransactionState) -> int:
    """How long a record has to stand alone at the end of its log for it to be one that never counted.

    It does not count if it is not replicated within the transaction's timeout, or if meanwhile the ISR shrinks below
    min.insync.replicas. It stays in the log all the same, and its coordinator, which told the client to try again,
    learns of it when it loads the log (TransactionStateManager#updateCacheCallback).
    """
    return min(state.timeout_ms, _ISR_GROWN_AGAIN_MS)


def _written_again(old: TransactionState, new: TransactionState) -> bool:
    """Whether a coordinator whose record was not replicated in time, and so did not count for it, wrote it once more.

    It stays in the log; the client, told to try again, asks for the same (TransactionStateManager#updateCacheCallback).
    """
    same = old.state == new.state and set(old.partitions) == set(new.partitions) and not new.tombstone
    return same and (old.producer_id, old.producer_epoch) == (new.producer_id, new.producer_epoch)


def _producer_faults(old: TransactionState, new: TransactionState) -> list[tuple[str, str]]:
    if new.producer_id != old.producer_id:
        # Rotation: InitProducerId or, under version 2, the end of the transaction that used the last epoch.
        if new.state not in _AT_REST:
            return [("producer_id", f"producer id {old.producer_id} became {new.producer_id} in state {new.state}")]
        if new.producer_epoch != 0:
            return [
                ("producer_epoch", f"producer id {new.producer_id} is new and begins in epoch {new.producer_epoch}")
            ]
        return []
    if new.producer_epoch < old.producer_epoch:
        return [("producer_epoch", f"producer epoch {old.producer_epoch} became {new.producer_epoch}")]
    settled = COMPLETE_OF.get(old.state) == new.state or (old.state == new.state == "Ongoing")
    if settled and new.producer_epoch != old.producer_epoch:
        return [
            ("producer_epoch", f"producer epoch {old.producer_epoch} became {new.producer_epoch} inside a transaction")
        ]
    return []
