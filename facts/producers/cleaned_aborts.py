"""Aborted transactions in a log that a cleaner works on: their records go first, then the index entry, then the marker.

In: the entries of a segment's transaction index, the replayed transactions of the log. Out: two counts in the file's
`IndexFileFacts`. While a record of an aborted transaction is in the log, its ABORT marker stands behind it and the
index of the marker's segment names it. What a cleaner has emptied needs neither.

Source: CleanedTransactionMetadata#onControlBatchRead, #onBatchRead; KAFKA-13727, KAFKA-14055.
"""

from collections.abc import Iterable

from tidegauge.facts.producers.replay import ProducerReplay
from tidegauge.facts.producers.state import UNKNOWN, Transaction
from tidegauge.facts.segments.index_file_facts import IndexFileFacts
from tidegauge.kafka_log.transaction_index import AbortedTransaction


def check_aborts_kept(
    facts: IndexFileFacts,
    entries: Iterable[AbortedTransaction],
    replay: ProducerReplay,
    *,
    segment: tuple[int, int | None],
    log_end_offset: int,
) -> None:
    """Counts into `facts`. `segment`: its base offset and the next one's."""
    base, next_base = segment
    listed = {(e.producer_id, e.last_offset) for e in entries}
    facts.aborted_unlisted = facts.aborted_unmarked = 0
    for t in replay.completed:
        if t.outcome != "aborted" or t.records <= 0 or t.marker_offset is None:
            continue
        ends_here = base <= t.marker_offset and (next_base is None or t.marker_offset < next_base)
        if ends_here and (t.producer_id, t.marker_offset) not in listed:
            facts.aborted_unlisted += 1
            facts.note(
                "unlisted",
                None,
                f"producer {t.producer_id} aborted [{t.first_offset}, {t.marker_offset}], of which {t.records} "
                "records are still there: no entry",
            )
    written = [t for t in replay.transactions if t.records > 0]
    for at, entry in enumerate(entries):
        if entry.last_offset >= log_end_offset:
            continue
        left = [
            t
            for t in written
            if t.producer_id == entry.producer_id and entry.first_offset <= t.first_offset < entry.last_offset
        ]
        if any(_otherwise(t, entry) for t in left):
            facts.aborted_unmarked += 1
            facts.note(
                "unmarked",
                at * 34,
                f"entry {at}: producer {entry.producer_id} aborted [{entry.first_offset}, {entry.last_offset}]; its "
                "records are still there, and no ABORT marker at that offset",
            )


def _otherwise(transaction: Transaction, entry: AbortedTransaction) -> bool:
    """Whether a transaction ended otherwise than an entry says, as far as its marker tells."""
    if transaction.outcome == UNKNOWN:
        return False
    return transaction.outcome != "aborted" or transaction.marker_offset != entry.last_offset
