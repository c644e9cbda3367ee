"""Invariants about what producers wrote outside of the rules, and what brokers remember of them (D, E, F).

In: rows of `producers`, `divergences` and `replicas`. The rule that must hold here: an application that writes the same
again, after an abort or because it means it, has broken no rule.
"""

from typing import Final

from expectations.evidence import Evidence
from expectations.model import Invariant, Severity, Unknown

_LIVE_LIMIT: Final = 5_000
"""Producers of one partition whose state a broker keeps; each costs it a few hundred bytes of heap, and room in every
producer snapshot."""
_NEW_LIMIT: Final = 1_000
"""New producers of one partition in an hour: about what one producer a message comes to."""
_DESCRIBE: Final = "bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} "
"--partition {partition}"

NON_TXN_IN_OPEN_TXN = Invariant(
    code="F01",
    key="NON_TXN_IN_OPEN_TXN",
    name="NoPlainWritesInOpenTransaction",
    severity=Severity.CRITICAL,
    relation="producers",
    statement="While a transaction of a producer is open in a partition, the producer writes nothing else there.",
    because="The leader refuses such a batch. One that is stored is visible at once or not at all, whatever becomes "
    "of the "
    "transaction around it.",
    applies_when="first_sequence IS NOT NULL",
    breach_when="nontransactional_batches > 0",
    evidence=(
        "nontransactional_batches",
        "nontransactional_offset",
        "first_offset",
        "last_offset",
        "last_timestamp_ms",
    ),
    explanation=(
        "Producer {producer_id}, epoch {producer_epoch}, has a transaction open in {topic}-{partition} on broker "
        "{broker_id}.",
        "Inside of it {nontransactional_batches} of its batches, the first at offset {nontransactional_offset}, are "
        "not part "
        "of a transaction.",
        "Consumers of committed records skip them if it is aborted, and should not: nobody asked for that.",
    ),
    start_offset="nontransactional_offset",
    next=_DESCRIBE,
    points_to="producer_bug",
    reference="ProducerAppendInfo#appendDataBatch (InvalidTxnStateException); KIP-98",
)

CROSS_EPOCH_PAYLOAD_DUP = Invariant(
    code="E06",
    key="CROSS_EPOCH_PAYLOAD_DUP",
    name="NoRepetitionInNewEpoch",
    severity=Severity.WARNING,
    relation="producers",
    statement="The first batches of a producer epoch are not, byte for byte, the last ones of the producer's epoch "
    "before.",
    because="A producer that raises its epoch while it waits for an answer, and sends the batch again, stores it "
    "twice: "
    "the leader knows sequences within an epoch only (librdkafka 4953).",
    applies_when="first_sequence IS NOT NULL",
    unknown=(
        Unknown(
            reason="too many look alike to compare them all",
            evidence=None,
            when="repeated_batches = 0 AND repeats_unverified > 0",
        ),
    ),
    breach_when="repeated_batches > 0",
    evidence=(
        "repeated_batches",
        "repeated_offset",
        "repeats_offset",
        "first_offset",
        "last_offset",
        "last_timestamp_ms",
    ),
    explanation=(
        "Producer {producer_id} began epoch {producer_epoch} in {topic}-{partition} with batches that it had written "
        "in an "
        "older epoch.",
        "{repeated_batches} batches on broker {broker_id}, the first at offset {repeated_offset}, have the records and "
        "timestamps of earlier ones, the first at {repeats_offset}.",
        "No transaction with them was aborted: consumers read these records twice.",
    ),
    start_offset="repeated_offset",
    next=_DESCRIBE,
    points_to="producer_bug",
    reference="ProducerStateManager (sequences are checked within an epoch); KIP-360, librdkafka issue 4953",
)

PRODUCER_COUNT = Invariant(
    code="E08",
    key="PRODUCER_COUNT",
    name="FewProducersPerPartition",
    severity=Severity.INFO,
    relation="replicas",
    statement=f"A partition has at most {_LIVE_LIMIT} live producers, and at most {_NEW_LIMIT} new ones in an hour.",
    because="A broker keeps each producer's state until it has been idle for producer.id.expiration.ms (a day), and "
    "writes "
    "all of them into every producer snapshot. Thousands come from an application that makes a producer for each "
    "message.",
    unknown=(
        Unknown(
            reason="the instant of the capture is not known",
            evidence=Evidence.INSTANTS,
            when="new_producer_ids IS NULL",
        ),
        Unknown(
            reason="setting not known",
            evidence=Evidence.SETTINGS,
            when=f"live_producer_ids IS NULL AND producer_ids_unless_expired > {_LIVE_LIMIT} "
            f"AND new_producer_ids <= {_NEW_LIMIT}",
        ),
    ),
    breach_when=f"coalesce(live_producer_ids > {_LIVE_LIMIT}, false) OR new_producer_ids > {_NEW_LIMIT}",
    evidence=("live_producer_ids", "producer_ids_unless_expired", "new_producer_ids", "log_end_offset"),
    explanation=(
        "Broker {broker_id} keeps the states of {live_producer_ids} producers of {topic}-{partition}.",
        "{new_producer_ids} of them wrote for the first time in the hour before the capture.",
    ),
    next=_DESCRIBE,
    points_to="client_behaviour",
    reference="ProducerStateManager (producer.id.expiration.ms); KIP-936",
)

PRODUCER_STATE_AGREEMENT = Invariant(
    code="D16",
    key="PRODUCER_STATE_AGREEMENT",
    name="ProducerStatesAgree",
    severity=Severity.WARNING,
    relation="divergences",
    statement="Producer snapshots that two replicas took at one offset tell the same of each producer that both know.",
    because="Each replica works the state out of the same batches. A follower whose state is another one refuses sound "
    "batches as out of order, or stores duplicates, once it leads.",
    applies_when="compared_producer_snapshots > 0",
    breach_when="producer_state_differences > 0",
    evidence=(
        "producer_state_differences",
        "differing_snapshot_offset",
        "differing_producer_id",
        "leader_producer_state",
        "follower_producer_state",
        "compared_producer_snapshots",
    ),
    explanation=(
        "Brokers {leader_id} and {follower_id} each have a producer snapshot of {topic}-{partition} at offset "
        "{differing_snapshot_offset}.",
        "Of producer {differing_producer_id}, broker {leader_id}'s says: {leader_producer_state}.",
        "Broker {follower_id}'s says: {follower_producer_state}.",
        "{producer_state_differences} such differences were found in {compared_producer_snapshots} pairs of snapshots.",
    ),
    start_offset="differing_snapshot_offset",
    next=_DESCRIBE,
    points_to="derived_file",
    reference="ProducerStateManager#takeSnapshot, UnifiedLog#rebuildProducerState",
)
