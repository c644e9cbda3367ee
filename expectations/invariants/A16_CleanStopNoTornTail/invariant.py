from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A16",
    key="CLEAN_STOP_NO_TORN_TAIL",
    name="CleanStopNoTornTail",
    severity=Severity.CRITICAL,
    relation="segments",
    statement="After a clean stop every segment reads to its last byte and every checksum is right.",
    because=line("""
        The broker flushes and closes all logs before it writes .kafka_cleanshutdown, and at the next start it trusts
        that file: it recovers nothing, and serves the damage.
    """),
    applies_when="clean_shutdown",
    breach_when="length_errors > 0 OR crc_errors > 0",
    evidence=("clean_shutdown", "length_errors", "crc_errors", "size_bytes", "valid_bytes"),
    explanation=lines("""
        Broker {broker_id} left .kafka_cleanshutdown: all its logs were flushed and closed before that.
        {path} has {length_errors} breaks in its chain of batches and {crc_errors} failing checksums all the same.
        So the bytes changed after the stop, the file system lost writes it had confirmed, or the copy was made while
          the broker ran.
        At its next start this broker will not recover the log, and so not notice.
    """),
    details=("length", "torn_tail", "crc"),
    next="kafka-dump-log.sh --files {path} | tail -n 3",
    consequence_of="A01",
    points_to="lost_flush",
    reference="LogManager#shutdown, CleanShutdownFileHandler, LogLoader#recoverLog",
)
