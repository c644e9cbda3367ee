"""Which transaction version a transaction was written under, and whether somebody ended it by hand.

In: a replica's replayed transactions and end markers, the coordinators' decisions, and which levels
`transaction.version` has had. Out: a `Telling` for each transaction. That a marker came late is never guessed from its
epoch alone, for three sound ones bear their data's own epoch under version 2 as well.

    data 4 | marker 5                      version 2: its coordinator has raised the epoch
    data 4 | marker 5 | data 5 | marker 5  late, if it repeats the marker before; else the client is back at version 1
    data 4 | abort 4                       by hand: `kafka-transactions.sh abort` sends the epoch that it is told of

A client goes back to version 1 in the same epoch only where the level of the feature has fallen; one that was started
anew with an older library has a new epoch, which no marker had before. A marker that comes late was sent once already,
and stands before the data that it ends. Of a transaction that its coordinator runs, or ends with a marker of its own
behind that one, nobody's hand was needed.

Sources: TransactionsCommand#buildAbortSpec, AbortTransactionHandler, TransactionCoordinator#endTransaction,
TransactionManager#maybeUpdateTransactionV2Enabled; KIP-664, KIP-890.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidegauge.facts.clocks import CLOCKS_APART_MS
from tidegauge.facts.context import PartitionContext
from tidegauge.facts.coordinators.transactional_ids import COMPLETE_OF, Decision
from tidegauge.facts.producers.replay import ProducerReplay
from tidegauge.facts.producers.state import Transaction
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.transactions.end_markers import Marker, MarkersByEpoch, end_markers

_NO_MARKERS: Final[Sequence[Marker]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """`version`: None where nothing tells it. `by_hand`: an operator aborted it; None where that is not known."""

    version: int | None
    by_hand: bool | None = False


def tellings(context: PartitionContext, replica: ReplicaFacts) -> list[Telling]:
    """One for each of the replica's transactions, in their order."""
    bumped = _first_bumped(replica.replay)
    found, evidence = [], None
    for transaction in replica.replay.transactions:
        version = _version(transaction, bumped)
        if version == 1 or not _in_own_epoch(transaction):
            found.append(Telling(version=version))
            continue
        evidence = evidence or _Evidence.of(context, replica)
        found.append(evidence.of_unbumped(transaction, version, bumped.get(transaction.producer_id)))
    return found


def aborted_by_hand(context: PartitionContext, replica: ReplicaFacts) -> list[Transaction]:
    """Transactions that an operator ended, as far as that is known."""
    told = zip(replica.replay.transactions, tellings(context, replica), strict=True)
    return [transaction for transaction, telling in told if telling.by_hand]


def _in_own_epoch(transaction: Transaction) -> bool:
    return transaction.marker_producer_epoch == transaction.producer_epoch


def _first_bumped(replay: ProducerReplay) -> dict[int, Transaction | None]:
    """Producer id -> its first committed transaction that ends one epoch above its data (KIP-890).

    From there on the producer writes under transaction version 2; before it, or if its commits never do (None), under
    version 1, whatever its coordinator says today. Aborts don't count: under version 1 fencing raises the epoch too.
    """
    found: dict[int, Transaction | None] = {}
    for transaction in sorted(replay.completed, key=lambda t: t.first_offset):
        if transaction.outcome != "committed" or found.get(transaction.producer_id) is not None:
            continue
        bumped = transaction.marker_producer_epoch == transaction.producer_epoch + 1
        found[transaction.producer_id] = transaction if bumped else None
    return found


def _version(transaction: Transaction, first_bumped: Mapping[int, Transaction | None]) -> int | None:
    """The transaction version by the producer's commits alone; None if its producer never committed one here."""
    if transaction.producer_id not in first_bumped:
        return None
    first = first_bumped[transaction.producer_id]
    return 2 if first is not None and transaction.first_offset >= first.first_offset else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """What may account for markers that bear the epoch of their data."""

    context: PartitionContext
    markers: MarkersByEpoch
    by_producer: Mapping[int, Sequence[Transaction]]
    decisions: Mapping[tuple[int, int], Sequence[Decision]]
    """By producer id and the epoch of the markers."""
    repeated: frozenset[tuple[int, int]]
    """(producer id, epoch) of more than one transaction that ended in its own epoch, as under version 1 only."""

    @classmethod
    def of(cls, context: PartitionContext, replica: ReplicaFacts) -> "_Evidence":
        by_producer: dict[int, list[Transaction]] = {}
        for transaction in replica.replay.transactions:
            by_producer.setdefault(transaction.producer_id, []).append(transaction)
        decisions: dict[tuple[int, int], list[Decision]] = {}
        for _, decision in context.coordinators.decisions:
            decisions.setdefault((decision.producer_id, decision.marker_epoch), []).append(decision)
        ended = Counter((t.producer_id, t.producer_epoch) for t in replica.replay.completed if _in_own_epoch(t))
        return cls(
            context=context,
            markers=end_markers(replica),
            by_producer=by_producer,
            decisions=decisions,
            repeated=frozenset(key for key, count in ended.items() if count > 1),
        )

    def of_unbumped(self, transaction: Transaction, version: int | None, first: Transaction | None) -> Telling:
        """Of a transaction whose marker bears the epoch of its data. `first`: the first of its producer's that does
        not.
        """
        key = (transaction.producer_id, transaction.producer_epoch)
        told = self._versions_told(*key)
        if 1 in told or key in self.repeated:
            return Telling(version=1)
        by_hand = self._by_hand(transaction)
        if by_hand is not False or version is None:
            return Telling(version=None, by_hand=by_hand)
        if self._is_decided_one_above(transaction):
            return Telling(version=2)
        fallen = self._may_have_fallen(first, transaction)
        if self._repeats(transaction, transaction.outcome):
            return Telling(version=None if fallen is not False else 2)
        return Telling(version=1 if fallen else None)

    def _versions_told(self, producer_id: int, producer_epoch: int) -> set[int]:
        """Under which versions the coordinator ended something with markers of that epoch."""
        told = {
            min(d.client_transaction_version or 1, 2) for d in self.decisions.get((producer_id, producer_epoch), ())
        }
        state = self.context.coordinators.transactions_by_producer.get(producer_id)
        if (
            state is not None
            and state.producer_epoch == producer_epoch
            and state.state in (*COMPLETE_OF, *COMPLETE_OF.values())
        ):
            told.add(min(state.client_transaction_version or 1, 2))
        return told

    def _repeats(self, transaction: Transaction, outcome: str) -> bool:
        """Whether the marker says again what one of the same epoch had said before the data came, of older ones."""
        before, producer_epoch = transaction.previous_marker, transaction.producer_epoch
        if before is not None and before.bumped and before.producer_epoch == producer_epoch:
            same = self.markers.get((transaction.producer_id, producer_epoch), _NO_MARKERS)
            return any(m.offset == before.offset and m.outcome == outcome for m in same)
        decided = self.decisions.get((transaction.producer_id, producer_epoch), ())
        if decided:
            return any(d.outcome == outcome for d in decided)
        return 2 in self._versions_told(transaction.producer_id, producer_epoch)

    def _by_hand(self, transaction: Transaction) -> bool | None:
        """Whether an operator sent the marker: it aborts, and the coordinator has not ended these data itself.

        Where the marker also repeats an older one, it is late if the producer goes on with the transaction.
        """
        if transaction.outcome != "aborted":
            return False
        if self._runs(transaction):
            return False
        following = self._following(transaction)
        if not self._repeats(transaction, "aborted"):
            return following is None or following.outcome == "aborted"
        if following is not None or self._goes_on(transaction):
            return False
        return True if self.context.coordinators.transaction_states_known else None

    def _runs(self, transaction: Transaction) -> bool:
        """Whether the coordinator has a transaction of this epoch under way here."""
        state, context = self.context.coordinators.transactions_by_producer.get(transaction.producer_id), self.context
        if state is None or not any(
            (p.topic, p.partition) == (context.topic, context.partition) for p in state.partitions
        ):
            return False
        ahead = {"Ongoing": 0, "PrepareCommit": 1, "PrepareAbort": 1}.get(state.state)
        return ahead is not None and state.producer_epoch == transaction.producer_epoch + ahead

    def _following(self, transaction: Transaction) -> Marker | None:
        """The marker, one epoch above, that the coordinator sent for these data after all."""
        above = transaction.producer_epoch + 1
        own = self.by_producer[transaction.producer_id]
        begun = min((t.first_offset for t in own if t.producer_epoch >= above), default=None)
        for marker in self.markers.get((transaction.producer_id, above), _NO_MARKERS):
            if transaction.marker_offset is not None and marker.offset > transaction.marker_offset:
                return marker if begun is None or marker.offset < begun else None
        return None

    def _goes_on(self, transaction: Transaction) -> bool:
        """Whether the producer wrote more in this epoch."""
        return any(
            t.producer_epoch == transaction.producer_epoch and t.first_offset > transaction.first_offset
            for t in self.by_producer[transaction.producer_id]
        )

    def _is_decided_one_above(self, transaction: Transaction) -> bool:
        """Whether the coordinator ended these very data under version 2, whatever this marker says."""
        decided = self.decisions.get((transaction.producer_id, transaction.producer_epoch + 1), ())
        return any((d.client_transaction_version or 0) >= 2 for d in decided) and not self._goes_on(transaction)

    def _may_have_fallen(self, first: Transaction | None, transaction: Transaction) -> bool | None:
        """Whether the level was below 2 after the producer had used version 2, until this marker; None: not known."""
        levels = self.context.settings.transaction_levels
        if levels is None or first is None:
            return None
        own = self.markers.get((transaction.producer_id, transaction.producer_epoch), _NO_MARKERS)
        until_ms = next((m.at_ms for m in own if m.offset == transaction.marker_offset), None)
        raised = False
        for step in levels.steps:
            level = int(step.value)
            late = until_ms is not None and step.since_ms is not None and step.since_ms > until_ms + CLOCKS_APART_MS
            if raised and level < 2 and not late:
                return True
            raised |= level >= 2
        if levels.whole or (levels.from_ms is not None and first.first_timestamp > levels.from_ms + CLOCKS_APART_MS):
            return False
        return None
