from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import DESCRIBE_PRODUCERS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_LIVE_LIMIT: Final = 5_000
"""Producers of one partition whose state a broker keeps; each costs it a few hundred bytes of heap, and room in every
producer snapshot."""
_NEW_LIMIT: Final = 1_000
"""New producers of one partition in an hour: about what one producer a message comes to."""

INVARIANT = Invariant(
    code="E08",
    key="PRODUCER_COUNT",
    name="FewProducersPerPartition",
    severity=Severity.INFO,
    relation="replicas",
    statement=line(f"""
        A partition has at most {_LIVE_LIMIT} live producers, and at most {_NEW_LIMIT} new ones in an hour.
    """),
    because=line("""
        A broker keeps each producer's state until it has been idle for producer.id.expiration.ms (a day), and writes
        all of them into every producer snapshot. Thousands come from an application that makes a producer for each
        message.
    """),
    unknown=(
        Unknown(
            reason="the instant of the capture is not known",
            evidence=Evidence.INSTANTS,
            when="new_producer_ids IS NULL",
        ),
        Unknown(
            reason="setting not known",
            evidence=Evidence.SETTINGS,
            when=line(f"""
                live_producer_ids IS NULL AND producer_ids_unless_expired > {_LIVE_LIMIT}
                AND new_producer_ids <= {_NEW_LIMIT}
            """),
        ),
    ),
    breach_when=f"coalesce(live_producer_ids > {_LIVE_LIMIT}, false) OR new_producer_ids > {_NEW_LIMIT}",
    evidence=("live_producer_ids", "producer_ids_unless_expired", "new_producer_ids", "log_end_offset"),
    explanation=lines("""
        Broker {broker_id} keeps the states of {live_producer_ids} producers of {topic}-{partition}.
        {new_producer_ids} of them wrote for the first time in the hour before the capture.
    """),
    next=DESCRIBE_PRODUCERS,
    points_to="client_behaviour",
    reference="ProducerStateManager (producer.id.expiration.ms); KIP-936",
)
