"""Invariants about transactions: their markers, and what their coordinator knows of them (family F).

In: rows of `transactions`, from the reference replica of each partition. The rule that must hold here: a marker that a
new coordinator sends again, or one without data, is sound; and so is a transaction that is merely not over yet.
"""

from typing import Final

from expectations.catalogue.model import Invariant, Severity, Unknown

_COPY_SKEW_MS: Final = 3_600_000
"""How far apart two files of a fuzzy copy may have been read. An hour is longer than a plain copy of a broker takes; a
capture that takes longer dates what it reads. Too long costs an `unknown`, too short a false alarm."""

_COORDINATOR_NOT_CAPTURED: Final = Unknown(
    reason="the coordinator's records were not captured",
    when="outcome = 'open' AND NOT coordinator_known",
)

MARKER_EPOCH_TV01 = Invariant(
    code="F02",
    key="MARKER_EPOCH_TV01",
    name="MarkerEpochNotBelowData",
    severity=Severity.CRITICAL,
    relation="transactions",
    statement="A transaction's end marker never has a lower producer epoch than the data it ends.",
    because="A marker of an older epoch belongs to an older transaction. Where it ends a newer one, records were "
    "committed "
    "or aborted by a decision that was not about them (KIP-890).",
    applies_when="outcome <> 'open'",
    breach_when="marker_producer_epoch < producer_epoch",
    evidence=(
        "transactional_id",
        "producer_epoch",
        "marker_producer_epoch",
        "marker_offset",
        "outcome",
        "coordinator_epoch",
    ),
    explanation=(
        "Producer {producer_id} wrote offsets {first_offset}..{last_offset} of {topic}-{partition} in producer epoch "
        "{producer_epoch}.",
        "The marker at {marker_offset} that ended them ({outcome}) carries producer epoch {marker_producer_epoch}, an "
        "older one.",
        "So an earlier transaction's decision ended this one: its {record_count} records are {outcome} by mistake.",
    ),
    start_offset="first_offset",
    end_offset="marker_offset + 1",
    records="record_count",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition "
    "{partition}",
    reference="ProducerAppendInfo#checkProducerEpoch, KIP-890",
)

MARKER_EPOCH_TV2 = Invariant(
    code="F03",
    key="MARKER_EPOCH_TV2",
    name="MarkerEpochBumpedOnce",
    severity=Severity.CRITICAL,
    relation="transactions",
    statement="Under transaction version 2 an end marker's producer epoch is its data's plus one, but for one that an "
    "operator sent.",
    because="Version 2 bumps the epoch with every transaction, so that a late marker can be told from a right one. A "
    "marker of any other epoch ended a transaction that it was not meant for. kafka-transactions.sh abort alone sends "
    "the data's own epoch, for a transaction that nobody else will end.",
    applies_when="outcome <> 'open' AND coalesce(client_transaction_version, 2) >= 2",
    unknown=(
        Unknown(
            reason="the coordinator's records were not captured",
            when="aborted_by_hand IS NULL AND outcome = 'aborted' AND marker_producer_epoch = producer_epoch "
            "AND NOT coordinator_known",
        ),
        Unknown(
            reason="transaction version not known",
            when="client_transaction_version IS NULL AND marker_producer_epoch <> producer_epoch + 1 "
            "AND NOT coalesce(aborted_by_hand, FALSE)",
        ),
        Unknown(
            reason="an older coordinator bumps twice when it fences (KAFKA-19367)",
            when="outcome = 'aborted' AND marker_producer_epoch = producer_epoch + 2",
        ),
    ),
    # A lower epoch is MarkerEpochNotBelowData's.
    breach_when="marker_producer_epoch <> producer_epoch + 1 AND marker_producer_epoch >= producer_epoch "
    "AND NOT coalesce(aborted_by_hand, FALSE)",
    derived=(("expected_epoch", "producer_epoch + 1"),),
    evidence=(
        "transactional_id",
        "producer_epoch",
        "marker_producer_epoch",
        "client_transaction_version",
        "marker_offset",
        "outcome",
    ),
    explanation=(
        "Producer {producer_id} (transactional id {transactional_id}) uses transaction version "
        "{client_transaction_version}.",
        "It wrote offsets {first_offset}..{last_offset} of {topic}-{partition} in producer epoch {producer_epoch}, so "
        "their "
        "marker must carry epoch {expected_epoch}.",
        "The marker at {marker_offset} ({outcome}) carries epoch {marker_producer_epoch}: it is another "
        "transaction's, come late, or was sent by hand while this one ran.",
    ),
    start_offset="first_offset",
    end_offset="marker_offset + 1",
    records="record_count",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition "
    "{partition}",
    reference="ProducerAppendInfo#checkProducerEpoch (strict at the leader since 4.2), TransactionsCommand, KIP-664, "
    "KIP-890, KAFKA-19999",
)

DATA_EPOCH_AFTER_MARKER = Invariant(
    code="F04",
    key="DATA_EPOCH_AFTER_MARKER",
    name="DataEpochNotBelowMarker",
    severity=Severity.WARNING,
    relation="transactions",
    statement="Under transaction version 2 a producer's first data behind an end marker have at least its epoch, and "
    "sequence 0.",
    because="The marker raises the producer epoch, so that what was sent before it is refused when it comes late. "
    "Data of an "
    "older epoch behind it leaked into the next transaction, and share its outcome.",
    applies_when="previous_marker_bumped AND client_transaction_version = 2",
    breach_when="producer_epoch < previous_marker_producer_epoch OR first_sequence <> 0",
    derived=(
        ("stale", "CASE WHEN producer_epoch < previous_marker_producer_epoch THEN producer_epoch END"),
        ("begins_with", "CASE WHEN first_sequence <> 0 THEN first_sequence END"),
    ),
    evidence=(
        "transactional_id",
        "producer_epoch",
        "first_sequence",
        "previous_marker_offset",
        "previous_marker_producer_epoch",
        "outcome",
    ),
    explanation=(
        "Producer {producer_id}'s transaction before ended with the marker at {previous_marker_offset} of "
        "{topic}-{partition}, producer epoch {previous_marker_producer_epoch}.",
        "Its next data, from offset {first_offset} on, have producer epoch {stale}: they were sent before that marker.",
        "Its next data, from offset {first_offset} on, begin with sequence {begins_with} instead of 0.",
        "They became part of the next transaction, which is {outcome}.",
    ),
    start_offset="first_offset",
    end_offset="last_offset + 1",
    records="record_count",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition "
    "{partition}",
    implies=("E02", "E03", "F03", "K19"),
    reference="ProducerAppendInfo#checkSequence, #checkProducerEpoch; KIP-890",
)

COORDINATOR_EPOCH_MONOTONIC = Invariant(
    code="F05",
    key="COORDINATOR_EPOCH_MONOTONIC",
    name="CoordinatorEpochNeverFalls",
    severity=Severity.WARNING,
    relation="transactions",
    statement="The coordinator epoch of a producer's end markers never falls.",
    because="A marker of an older coordinator epoch was sent by a coordinator that had been replaced: a zombie that "
    "may have "
    "decided otherwise than its successor.",
    applies_when="outcome <> 'open'",
    breach_when="coordinator_epoch < coalesce(previous_coordinator_epoch, coordinator_epoch)",
    evidence=("transactional_id", "coordinator_epoch", "previous_coordinator_epoch", "marker_offset", "outcome"),
    explanation=(
        "Producer {producer_id}'s marker at {marker_offset} of {topic}-{partition} was written by coordinator epoch "
        "{coordinator_epoch}.",
        "Its marker before that came from coordinator epoch {previous_coordinator_epoch}, so the later marker is by a "
        "coordinator that had already been replaced.",
        "It ended offsets {first_offset}..{last_offset} as {outcome}; the coordinator in office may say otherwise.",
    ),
    start_offset="first_offset",
    end_offset="marker_offset + 1",
    records="record_count",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}",
    implies=("K19",),
    reference="ProducerAppendInfo#checkCoordinatorEpoch (on followers it only logs)",
)

ONE_OUTCOME_PER_TXN = Invariant(
    code="F06",
    key="ONE_OUTCOME_PER_TXN",
    name="OneOutcomePerTransaction",
    severity=Severity.CRITICAL,
    relation="transactions",
    statement="A transaction is ended as committed or as aborted, never as both.",
    because="Consumers that read between the two markers saw one outcome, later ones the other; other partitions may "
    "follow either.",
    breach_when="contradicting_markers > 0",
    evidence=(
        "transactional_id",
        "outcome",
        "marker_offset",
        "contradicting_markers",
        "repeated_markers",
        "coordinator_epoch",
    ),
    explanation=(
        "Producer {producer_id}'s transaction at offsets {first_offset}..{last_offset} of {topic}-{partition} was "
        "ended as "
        "{outcome} by the marker at {marker_offset}.",
        "{contradicting_markers} further marker(s) of the same producer epoch say the opposite, with no data in "
        "between: "
        "they speak of the same {record_count} records.",
        "A marker sent again by a new coordinator is of the same kind; these are not.",
    ),
    start_offset="first_offset",
    end_offset="marker_offset + 1",
    records="record_count",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}",
    reference="TransactionCoordinator#endTransaction, ProducerStateManager#completeTxn",
)

HANGING_TXN = Invariant(
    code="F08",
    key="HANGING_TXN",
    name="NoHangingTransaction",
    severity=Severity.WARNING,
    relation="transactions",
    statement="No transaction stays open for longer than the longest timeout while its coordinator does not know it.",
    because="Nobody will ever end it: the last stable offset stands still, read_committed consumers wait, and neither "
    "the "
    "cleaner nor retention of consumer offsets gets past it.",
    unknown=(
        _COORDINATOR_NOT_CAPTURED,
        Unknown(reason="the instant of the capture is not known", when="hanging AND captured_at_ms IS NULL"),
        Unknown(
            reason="too young to tell",
            # Until the longest timeout has passed, the coordinator may still be about to write. A record's instant is
            # its producer's word, and brokers take any number: nothing is subtracted from it, or 64 bits may not do.
            when="hanging AND last_timestamp_ms >= captured_at_ms - max_transaction_timeout_ms",
        ),
        Unknown(
            reason="copy skew",
            when="hanging AND NOT snapshot_quiet "
            f"AND last_timestamp_ms >= captured_at_ms - max_transaction_timeout_ms - {_COPY_SKEW_MS}",
        ),
    ),
    breach_when="outcome = 'open' AND hanging AND last_timestamp_ms < captured_at_ms - max_transaction_timeout_ms",
    derived=(
        ("idle_for_ms", "CASE WHEN last_timestamp_ms >= 0 THEN captured_at_ms - last_timestamp_ms END"),
        ("may_run_for_ms", "max_transaction_timeout_ms"),
        ("nobody", "CASE WHEN transactional_id IS NULL THEN 'No transactional id' END"),
        ("not_listed", "CASE WHEN coordinator_lists_partition IS NOT TRUE THEN 'does not list this partition' END"),
    ),
    evidence=(
        "transactional_id",
        "coordinator_state",
        "coordinator_lists_partition",
        "last_timestamp_ms",
        "captured_at_ms",
    ),
    explanation=(
        "Producer {producer_id}, epoch {producer_epoch}, has a transaction open on {topic}-{partition} since offset "
        "{first_offset}.",
        "{nobody} at any coordinator has that producer id, so no coordinator will end it.",
        "Its coordinator's record of {transactional_id} is in state {coordinator_state} and {not_listed}, so it will "
        "not end it.",
        "Its last record is {idle_for_ms} old; no transaction may run for longer than {may_run_for_ms}.",
        "The last stable offset of {topic}-{partition} stays at {first_offset} until somebody aborts it.",
    ),
    start_offset="first_offset",
    end_offset="last_offset + 1",
    records="record_count",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> abort --topic {topic} --partition {partition} "
    "--start-offset {first_offset}",
    implies=("F12",),
    reference="kafka-transactions find-hanging, ProducerStateManager#hasLateTransaction, KIP-664",
)

OPEN_TXN_KNOWN = Invariant(
    code="F09",
    key="OPEN_TXN_KNOWN",
    name="OpenTransactionKnownToCoordinator",
    severity=Severity.CRITICAL,
    relation="transactions",
    statement="Each open transaction is ongoing, or about to end, at its coordinator, which lists the partition.",
    because="Data came into a partition outside of any transaction (KIP-890): a later transaction of the same "
    "producer may "
    "commit it, or nobody ever ends it.",
    unknown=(
        _COORDINATOR_NOT_CAPTURED,
        Unknown(
            reason="copy skew",
            # Copied before the partition, the coordinator may not know the transaction yet, if it is young. Copied
            # after it, it may have ended the transaction meanwhile; not so if it never heard of it, or still is where
            # InitProducerId left it.
            when=f"""hanging AND NOT snapshot_quiet AND (
                first_timestamp_ms >= captured_at_ms - {_COPY_SKEW_MS}
                OR NOT (coordinator_state IS NULL
                        OR (coordinator_state = 'Empty' AND coordinator_producer_epoch <= producer_epoch)))""",
        ),
        Unknown(
            reason="the instant of the capture is not known",
            when="hanging AND NOT snapshot_quiet AND captured_at_ms IS NULL",
        ),
    ),
    breach_when="outcome = 'open' AND hanging",
    derived=(
        ("nobody", "CASE WHEN transactional_id IS NULL THEN 'No transactional id' END"),
        ("not_listed", "CASE WHEN coordinator_lists_partition IS NOT TRUE THEN 'does not list this partition' END"),
    ),
    evidence=(
        "transactional_id",
        "coordinator_state",
        "coordinator_producer_epoch",
        "coordinator_lists_partition",
        "first_timestamp_ms",
        "captured_at_ms",
    ),
    explanation=(
        "Producer {producer_id}, epoch {producer_epoch}, has a transaction open on {topic}-{partition}: offsets "
        "{first_offset}..{last_offset}.",
        "{nobody} at any coordinator has that producer id.",
        "Its coordinator's record of {transactional_id} is in state {coordinator_state}, producer epoch "
        "{coordinator_producer_epoch}.",
        "That record {not_listed}, and a coordinator writes it before the first record of the transaction may be "
        "appended.",
        "So these {record_count} records were written outside of a transaction.",
    ),
    start_offset="first_offset",
    end_offset="last_offset + 1",
    records="record_count",
    next="bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition "
    "{partition}",
    implies=("F08", "F14", "F04"),
    reference="AddPartitionsToTxnManager (transaction verification, KIP-890 part 1), KAFKA-14402",
)
