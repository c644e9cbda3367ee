from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_TWICE: Final = "(live_directories > 1 OR future_directories > 1)"

INVARIANT = Invariant(
    code="A17",
    key="PARTITION_DIR_UNIQUE",
    name="PartitionDirectoryUnique",
    severity=Severity.WARNING,
    relation="partition_directories",
    statement=line("""
        A broker has one live directory of a partition over all its log dirs, and at most one that it is moving it to.
    """),
    because=line("""
        With two the broker does not start, or serves one and leaves the other to go stale. Which of them holds the
        partition's log only their content tells.
    """),
    applies_when="state = 'live' AND (log_dir = log_dirs[1] OR log_dirs IS NULL)",
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when=f"NOT broker_quiet AND {_TWICE}"),),
    breach_when=_TWICE,
    derived=(
        ("live", "CASE WHEN live_directories > 1 THEN live_directories END"),
        ("moving", "CASE WHEN future_directories > 1 THEN future_directories END"),
    ),
    evidence=("log_dirs", "live_directories", "future_directories"),
    explanation=lines("""
        Broker {broker_id} has {live} live directories of {topic}-{partition}, in log dirs {log_dirs}.
        Broker {broker_id} has {moving} directories that it is moving {topic}-{partition} to.
        Directories that wait to be deleted, or were set aside as stray, are not counted.
    """),
    next=line("""
        bin/kafka-log-dirs.sh --bootstrap-server <host:port> --describe --broker-list {broker_id} --topic-list {topic}
    """),
    implies=("A12", "B16", "B17", "D02", "D05", "D07"),
    points_to="interrupted_cleanup",
    reference="LogManager#loadLogs, LogManager#replaceCurrentWithFutureLog",
)
