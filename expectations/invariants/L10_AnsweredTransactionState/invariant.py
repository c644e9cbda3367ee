from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.answers import NO_COORDINATOR, OTHER_VALUE, unless_sound
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="L10",
    key="ANSWERED_TRANSACTION",
    name="AnsweredTransactionState",
    severity=Severity.WARNING,
    relation="cluster_answers",
    subject=("transactional_id",),
    statement="A transactional id's state in its coordinator's log is the one that the coordinator answers.",
    because=line("""
        The coordinator loads its memory from that log when it moves. If they differ, a transaction that was committed
        may be aborted, or one stays open forever.
    """),
    applies_when="kind = 'transaction'",
    unknown=(
        Unknown(reason="not asked", evidence=Evidence.ANSWERS, when="incomparable_reason = 'not asked'"),
        *unless_sound(
            OTHER_VALUE,
            NO_COORDINATOR
            | {
                "changed while copying": Evidence.ONE_MOMENT,
                "last record may not be replicated": None,
                "last record may never have counted": None,
                "no answer": Evidence.ANSWERS,
            },
        ),
    ),
    breach_when=OTHER_VALUE,
    derived=(("nothing", "CASE WHEN cardinality(recomputed_values) = 0 THEN 'nothing' END"),),
    evidence=("answered_before_text", "answered_after_text", "recomputed_values"),
    explanation=lines("""
        The coordinator of {transactional_id} answered before the copy: {answered_before_text}.
        It answered after the copy: {answered_after_text}.
        Its log says: {recomputed_values}.
        Its log says {nothing} of it.
    """),
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}",
    points_to="answered_otherwise",
    reference="TransactionCoordinator#handleDescribeTransactions, KIP-664",
)
