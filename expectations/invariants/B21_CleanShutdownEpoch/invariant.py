from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.diagnoses import WORD_OF_ITS_BROKER_IS_OLDER
from tidegauge.expectations.invariants.shared.lacking import NO_METADATA_LOG
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_OTHER_EPOCH: Final = "clean_shutdown_broker_epoch <> broker_epoch"

INVARIANT = Invariant(
    code="B21",
    key="CLEAN_SHUTDOWN_EPOCH",
    name="CleanShutdownEpoch",
    severity=Severity.WARNING,
    relation="brokers",
    statement="The broker epoch in .kafka_cleanshutdown is that of the broker's last registration.",
    because=line("""
        It is the proof that the disk is as the broker left it when it was last registered. With another epoch it is an
        older image of the disk, passed off as clean: what was written since is not on it.
    """),
    applies_when="captured AND clean_shutdown_broker_epoch IS NOT NULL",
    unknown=(
        NO_METADATA_LOG,
        Unknown(reason="not in the metadata log", evidence=Evidence.METADATA_LOG, when="broker_epoch IS NULL"),
        Unknown(
            reason="restarted while it was copied", evidence=Evidence.ONE_MOMENT, when=f"NOT fenced AND {_OTHER_EPOCH}"
        ),
    ),
    breach_when=_OTHER_EPOCH,
    derived=(
        ("older", "CASE WHEN clean_shutdown_broker_epoch < broker_epoch THEN broker_epoch END"),
        ("newer", "CASE WHEN clean_shutdown_broker_epoch > broker_epoch THEN broker_epoch END"),
    ),
    evidence=("clean_shutdown_broker_epoch", "broker_epoch", "fenced", "clean_shutdown"),
    explanation=lines("""
        Broker {broker_id} left .kafka_cleanshutdown under broker epoch {clean_shutdown_broker_epoch}.
        It has registered since, under epoch {older}: this disk is an image of before.
        The metadata log knows no later registration than {newer}: it is older than this disk, or of another cluster.
        When it comes back, the controller takes it out of ISR and ELR because of this (KIP-966), if the two differ.
    """),
    next="grep brokerEpoch <log.dir of broker {broker_id}>/.kafka_cleanshutdown",
    points_to="stale_disk",
    diagnosis=(WORD_OF_ITS_BROKER_IS_OLDER,),
    reference="CleanShutdownFileHandler, ReplicationControlManager#handleUncleanBrokerShutdown; KIP-966",
)
