from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B12",
    key="EPOCH_CHECKPOINT_FORM",
    name="LeaderEpochCheckpointForm",
    severity=Severity.WARNING,
    relation="checkpoint_files",
    subject=("broker_id", "topic", "partition", "path"),
    statement=line("""
        A leader-epoch-checkpoint is empty, or says version 0, a count, and as many lines of epoch and start offset.
    """),
    because=line("""
        A broker refuses one that it cannot read, and reads one that was cut to its first line as no epochs at all: its
        next truncation falls back to the high watermark.
    """),
    applies_when="kind = 'leader-epoch-checkpoint' AND present",
    breach_when="NOT readable OR (NOT empty AND coalesce(declared_entries, -1) <> entries)",
    derived=(("miscounted", "CASE WHEN readable AND declared_entries <> entries THEN declared_entries END"),),
    evidence=("readable", "declared_entries", "entries", "error"),
    explanation=lines("""
        {path} is not a well-formed leader-epoch-checkpoint; {entries} entries could be read.
        It says that it has {miscounted} entries and has {entries}.
        Reading it fails: {error}.
    """),
    next="cat {path}",
    implies=("B13", "B14", "B15"),
    points_to="torn_write",
    reference="CheckpointFile.CheckpointReadBuffer#read; KAFKA-16541, KIP-101",
)
