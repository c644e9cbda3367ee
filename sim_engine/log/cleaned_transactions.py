"""What a cleaner knows of transactions on its way through a log: which data were aborted, which markers have data.

In: the batches of a log in their order, and what its transaction indexes say. Out: whether a batch may go, and the
index entries that still have data. A marker stays until a pass met no data of its transaction.

Source: Kafka CleanedTransactionMetadata.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from tidegauge.kafka_log.transaction_index import AbortedTransaction
from tidegauge.sim_engine.log.stored_batch import StoredBatch


class CleanedTransactions:
    """One pass. `kept_entries` are the aborted transactions of which data were met since they were last taken."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, AbortedTransaction]] = []
        self._added = 0
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_data: set[int] = set()
        self._committed: set[int] = set()
        self._kept: list[AbortedTransaction] = []

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Aborted transactions that overlap the batches to come; one that is known already does no harm."""
        for transaction in aborted:
            heappush(self._waiting, (transaction.first_offset, self._added, transaction))
            self._added += 1

    def take_kept_entries(self) -> tuple[AbortedTransaction, ...]:
        """The entries for the index of the segment that was just cleaned."""
        kept, self._kept = tuple(self._kept), []
        return kept

    def may_go(self, batch: StoredBatch) -> bool:
        """Takes the next batch: aborted data may go, and a marker of a transaction without data."""
        self._begin_up_to(batch.last_offset)
        if batch.is_control:
            return self._marker_may_go(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._aborted_with_data.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _marker_may_go(self, batch: StoredBatch) -> bool:
        producer_id = batch.producer_id
        if not batch.records:
            return True
        if not batch.is_marker:
            return False
        if batch.committed:
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data
        transaction = self._aborted.pop(producer_id, None)
        had_data = producer_id in self._aborted_with_data
        self._aborted_with_data.discard(producer_id)
        if transaction is not None and had_data:
            self._kept.append(transaction)
            return False
        return True

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            transaction = heappop(self._waiting)[2]
            self._aborted.setdefault(transaction.producer_id, transaction)
