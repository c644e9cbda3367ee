from tidegauge.expectations.invariants.shared.commands import DUMP_TRANSACTION_LOG
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="F11",
    key="TXN_STATE_MACHINE",
    name="TransactionStatesFollowEachOther",
    severity=Severity.WARNING,
    relation="transactional_ids",
    statement=line("""
        Each state that a coordinator writes of a transactional id may follow the one before it, and its producer epoch
        never falls.
    """),
    because=line("""
        A transaction is begun, decided, completed, in this order. A record that skips a step was written by a
        coordinator that did not know what its predecessor had decided, and it may have decided otherwise.
    """),
    unknown=(
        Unknown(
            reason="the cleaner has removed the records in between",
            evidence=None,
            when="broken_steps = 0 AND judged_steps = 0 AND unjudged_steps > 0",
        ),
    ),
    breach_when="broken_steps > 0",
    evidence=("state", "producer_id", "producer_epoch", "judged_steps", "broken_steps", "updated_at_ms"),
    explanation=lines("""
        {topic}-{partition} has {record_count} records of transactional id {transactional_id}.
        {broken_steps} of them may not follow the one before.
        It is in state {state} now, producer id {producer_id}, epoch {producer_epoch}.
    """),
    details=("state", "producer_id", "producer_epoch"),
    next=DUMP_TRANSACTION_LOG,
    implies=("F13", "K19"),
    points_to="coordinator_bug",
    reference="TransactionState#validPreviousStates, TransactionMetadata#prepareTransitionTo",
)
