from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="A15",
    key="INDEX_HAS_LOG",
    name="IndexHasLog",
    severity=Severity.WARNING,
    relation="partition_directories",
    statement="Every index file in a partition's directory has a log of its base offset.",
    because=line("""
        An index is made with its log and goes with it. One that stands alone tells that a log was removed by hand, lost
        by the file system, or left out of a backup.
    """),
    unknown=(Unknown(reason="copy skew", evidence=Evidence.ONE_MOMENT, when="NOT broker_quiet AND orphans > 0"),),
    breach_when="orphans > 0",
    evidence=("orphans", "directory"),
    explanation=lines("""
        In {directory} broker {broker_id} has {orphans} index files of segments of which there is no log.
        The broker deletes them when it loads the log, and says no more than a line about it.
    """),
    details=("orphan",),
    next="ls -la {directory}",
    points_to="interrupted_cleanup",
    reference="LogLoader#loadSegmentFiles",
)
