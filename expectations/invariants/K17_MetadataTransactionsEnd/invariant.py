from tidegauge.expectations.invariants.shared.commands import DUMP_METADATA_RECORD
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="K17",
    key="TXN_METADATA_RECORDS",
    name="MetadataTransactionsEnd",
    severity=Severity.WARNING,
    relation="metadata_logs",
    # The log is one, whichever node's copy of it was read; where copies differ, that is MetadataLogsMatch's.
    subject=("topic", "partition"),
    statement=line("""
        A metadata transaction ends or is aborted before another begins, before another controller does anything else,
        and before anything else happens that the log or a snapshot tells of.
    """),
    because=line("""
        Nodes hold a transaction's records back until it ends. One that is left open, or ended by somebody else, is
        applied by halves: a topic with some of its partitions.
    """),
    applies_when="replayed",
    unknown=(
        Unknown(reason="log damaged", evidence=None, when="damaged AND transaction_errors > 0"),
        # At the log's very end: nothing has come after it.
        Unknown(
            reason="in flight", evidence=None, when="transaction_errors = 0 AND open_transaction_offset IS NOT NULL"
        ),
    ),
    breach_when="transaction_errors > 0",
    evidence=("transactions", "transaction_errors", "transaction_error_offset", "transaction_error", "path"),
    explanation=lines("""
        Node {broker_id}'s metadata log holds {transactions} metadata transactions, and {transaction_errors} records
          that may not stand where they do.
        At offset {transaction_error_offset} {transaction_error}.
        That record is in {path}.
    """),
    start_offset="transaction_error_offset",
    next=DUMP_METADATA_RECORD,
    implies=("K03",),
    points_to="controller_bug",
    reference="QuorumController, ActivationRecordsGenerator, MetadataBatchLoader#maybeFlushBatches, KIP-868",
)
