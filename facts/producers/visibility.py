"""What consumers see of each batch of one replica, and why.

In: batch headers of a replica, its transactions, its transaction indexes, the high watermark. Out: a `Visibility` a
batch. What a consumer of committed records gets is worked out as a broker and its client do it, from the last stable
offset and the transaction index; what it should get, from the end markers; and where the two differ, that is said.

    read_uncommitted   data below the high watermark
    read_committed     data below the last stable offset, but for what the transaction index calls aborted

Sources: UnifiedLog#read, TransactionIndex#collectAbortedTxns, CompletedFetch#fetchRecords; KIP-98.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tidegauge.facts.producers.state import UNKNOWN, Transaction
from tidegauge.facts.segments.summary import ABORT, COMMIT
from tidegauge.kafka_log.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from tidegauge.kafka_log.transaction_index import AbortedTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """One batch: what it is, who sees it, and why. `wrong`: what they see is not what the end marker says.

    `transaction` is committed, aborted, open, or unknown where its end marker cannot be read; None of a batch that is
    part of none. `end_offset` is exclusive.
    """

    start_offset: int
    end_offset: int
    records: int
    leader_epoch: int
    producer_id: int | None
    producer_epoch: int | None
    kind: str
    transaction: str | None
    transaction_first_offset: int | None
    marker_offset: int | None
    read_uncommitted: bool
    read_committed: bool
    reason: str
    wrong: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """What is known of the replica: its bounds, transactions, and the transaction index of each segment by its base."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    transactions: Sequence[Transaction]
    aborted: Mapping[int, Sequence[AbortedTransaction]]


def visibility(log: ReplicaLog, batches: Iterable[NDArray[Any]]) -> Iterator[Visibility]:
    """One answer a batch, in log order."""
    by_producer: dict[int, list[Transaction]] = defaultdict(list)
    for transaction in sorted(log.transactions, key=lambda t: t.first_offset):
        by_producer[transaction.producer_id].append(transaction)
    bases = sorted(log.aborted)
    for block in batches:
        for row in block:
            yield _of_batch(log, row, by_producer.get(int(row["producer_id"]), ()), bases)


def _of_batch(log: ReplicaLog, row: Any, own: Sequence[Transaction], bases: Sequence[int]) -> Visibility:
    start, end = int(row["base_offset"]), int(row["last_offset"]) + 1
    attributes = int(row["attributes"])
    control, transactional = bool(attributes & CONTROL_BIT), bool(attributes & TRANSACTIONAL_BIT)
    transaction = _transaction_of(own, start) if transactional and not control else None
    outcome = transaction.outcome if transaction is not None else None
    listed = transactional and not control and _is_listed(log, row, start, end, bases)
    hidden = _hidden_from_all(log, start, end, control=control, control_type=int(row["control_type"]))
    committed_reason = _hidden_from_committed(log, end, listed=listed, outcome=outcome)
    wrong = None
    if hidden is None and end <= log.last_stable_offset:
        wrong = _contradiction(outcome, listed=listed)
    return Visibility(
        start_offset=start,
        end_offset=end,
        records=int(row["record_count"]),
        leader_epoch=int(row["partition_leader_epoch"]),
        producer_id=_known(int(row["producer_id"])),
        producer_epoch=_known(int(row["producer_epoch"])),
        kind=_kind(row, control=control),
        transaction=outcome,
        transaction_first_offset=transaction.first_offset if transaction is not None else None,
        marker_offset=transaction.marker_offset if transaction is not None else None,
        read_uncommitted=hidden is None,
        read_committed=hidden is None and committed_reason is None,
        reason=hidden or committed_reason or _seen(outcome),
        wrong=wrong,
    )


def _transaction_of(own: Sequence[Transaction], offset: int) -> Transaction | None:
    at = bisect_right([t.first_offset for t in own], offset) - 1
    return own[at] if at >= 0 and offset <= own[at].last_offset else None


def _is_listed(log: ReplicaLog, row: Any, start: int, end: int, bases: Sequence[int]) -> bool:
    """Whether a client that fetches this batch is told that its producer's transaction was aborted.

    The broker reads the index from the fetched segment on, and stops at the first entry whose last stable offset lies
    at or above what it returns.
    """
    for base in bases[max(bisect_right(bases, start) - 1, 0) :]:
        for entry in log.aborted[base]:
            touches = entry.last_offset >= start and entry.first_offset < end
            if touches and entry.producer_id == int(row["producer_id"]):
                return True
            if entry.last_stable_offset >= end:
                return False
    return False


def _hidden_from_all(log: ReplicaLog, start: int, end: int, *, control: bool, control_type: int) -> str | None:
    if control:
        what = {ABORT: "an abort marker", COMMIT: "a commit marker"}.get(control_type, "a control record")
        return f"{what}: never given to an application"
    if end <= log.log_start_offset:
        return f"below the log start at {log.log_start_offset}"
    if end > log.high_watermark:
        return f"not below the high watermark, which is {log.high_watermark} as far as is known"
    return None


def _hidden_from_committed(log: ReplicaLog, end: int, *, listed: bool, outcome: str | None) -> str | None:
    if end > log.last_stable_offset:
        if outcome == "open":
            return "its transaction is open"
        if outcome == UNKNOWN:
            return "its end marker cannot be read"
        return f"not below the last stable offset {log.last_stable_offset}: an earlier transaction is open"
    return "the transaction index lists it as aborted" if listed else None


def _contradiction(outcome: str | None, *, listed: bool) -> str | None:
    if outcome == "aborted" and not listed:
        return "aborted, and visible to read_committed: the transaction index does not list it"
    if outcome == "committed" and listed:
        return "committed, and hidden from read_committed: the transaction index lists it as aborted"
    return None


def _seen(outcome: str | None) -> str:
    if outcome == UNKNOWN:
        return "its end marker cannot be read"
    return "part of no transaction" if outcome is None else f"its transaction is {outcome}"


def _kind(row: Any, *, control: bool) -> str:
    if not control:
        return "data"
    return {ABORT: "abort marker", COMMIT: "commit marker"}.get(int(row["control_type"]), "control")


def _known(value: int) -> int | None:
    return value if value >= 0 else None
