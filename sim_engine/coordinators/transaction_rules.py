"""What a transaction coordinator answers at once, and when it has to act: rules about one id, nothing changes here.

In: an id's state and a request's numbers. Out: the error of the answer, by Kafka's name. A request with an older epoch
is refused, unless it is the last one again, whose answer was lost.

Source: Kafka TransactionCoordinator#endTransaction, #endTransactionWithTV1, #prepareInitProducerIdTransit (4.4).
"""

from tidegauge.sim_engine.coordinators.coordinator_effects import NONE
from tidegauge.sim_engine.coordinators.transaction_metadata import (
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    Status,
    TransactionMetadata,
)


def end_v1(now: TransactionMetadata, producer_id: int, producer_epoch: int, *, commit: bool, busy: bool) -> str | None:
    """The error (or NONE) with which EndTxn is answered at once; None if the transaction is to end now."""
    if now.producer_id != producer_id:
        return "INVALID_PRODUCER_ID_MAPPING"
    if now.producer_epoch != producer_epoch:
        return "PRODUCER_FENCED"
    if busy:
        return "CONCURRENT_TRANSACTIONS"
    match now.status:
        case Status.ONGOING:
            return None
        case Status.COMPLETE_COMMIT | Status.COMPLETE_ABORT:
            return NONE if commit == (now.status is Status.COMPLETE_COMMIT) else "INVALID_TXN_STATE"
        case Status.PREPARE_COMMIT | Status.PREPARE_ABORT:
            return "CONCURRENT_TRANSACTIONS" if commit == now.commits else "INVALID_TXN_STATE"
        case Status.EMPTY:
            return "INVALID_TXN_STATE"


def end_v2(now: TransactionMetadata, producer_id: int, producer_epoch: int, *, commit: bool, busy: bool) -> str | None:
    """As `end_v1`. An epoch one below the id's is the same request again, whose answer was lost (KIP-890)."""
    overflowed = (
        now.previous_producer_id == producer_id
        and now.producer_id != producer_id
        and producer_epoch == LAST_CLIENT_EPOCH
        and now.producer_epoch == 0
    )
    again = overflowed or now.producer_epoch == producer_epoch + 1
    if now.producer_id != producer_id and not overflowed:
        return "INVALID_PRODUCER_ID_MAPPING"
    same = producer_epoch == now.producer_epoch and now.producer_id == producer_id
    complete = now.status in (Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)
    if not (again if now.status.is_prepared else same or (complete and again)):
        return "PRODUCER_FENCED"
    if busy:
        return "CONCURRENT_TRANSACTIONS"
    match now.status:
        case Status.ONGOING:
            return None
        case Status.PREPARE_COMMIT | Status.PREPARE_ABORT:
            return "CONCURRENT_TRANSACTIONS" if commit == now.commits else "INVALID_TXN_STATE"
        case Status.COMPLETE_COMMIT | Status.COMPLETE_ABORT if again:
            return NONE if commit == (now.status is Status.COMPLETE_COMMIT) else "INVALID_TXN_STATE"
        case _:
            # Nothing is open. A V2 client may abort all the same: its records may have been lost on their way.
            return "INVALID_TXN_STATE" if commit else None


def may_continue(now: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Whether a producer that says who it is may be the id's newest; its epoch is looked at afterwards."""
    return (
        now.producer_epoch == NO_EPOCH
        or producer_id == now.producer_id
        or (producer_id == now.previous_producer_id and producer_epoch >= LAST_CLIENT_EPOCH)
    )


def not_the_producer(now: TransactionMetadata, producer_id: int, producer_epoch: int) -> str | None:
    """The error of who is not the id's producer of now."""
    if now.producer_id != producer_id:
        return "INVALID_PRODUCER_ID_MAPPING"
    return None if now.producer_epoch == producer_epoch else "PRODUCER_FENCED"


def client_error(error: str) -> str:
    """What a client is told of a failed write (TransactionStateManager#appendTransactionToLog)."""
    match error:
        case "NOT_ENOUGH_REPLICAS" | "NOT_ENOUGH_REPLICAS_AFTER_APPEND" | "REQUEST_TIMED_OUT":
            return "COORDINATOR_NOT_AVAILABLE"
        case "NOT_LEADER_OR_FOLLOWER" | "KAFKA_STORAGE_ERROR":
            return "NOT_COORDINATOR"
        case _:
            return "UNKNOWN_SERVER_ERROR"
