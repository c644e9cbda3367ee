from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.commands import SHOW_LEADER_EPOCHS
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="D13",
    key="LEADER_CACHE_HAS_CURRENT",
    name="LeaderKnowsItsEpoch",
    severity=Severity.WARNING,
    relation="replicas",
    statement="A leader's newest checkpointed leader epoch is the one the metadata log gave it.",
    because=line("""
        A broker writes its epoch down before it appends as leader. One that did not is a leader that does not know it,
        or has lost its checkpoint; followers that ask it where an epoch ends get a wrong answer.
    """),
    applies_when=line("""
        is_leader AND metadata_known AND broker_alive AND NOT is_future AND topic <> '__cluster_metadata'
    """),
    unknown=(
        Unknown(
            reason="leader-epoch-checkpoint missing or empty",
            evidence=Evidence.CHECKPOINT,
            when="checkpoint_last_leader_epoch IS NULL",
        ),
        Unknown(
            reason="copy skew",
            evidence=Evidence.ONE_MOMENT,
            # Between the record in the metadata log and the leader's checkpoint lies the time of one image update.
            when="NOT snapshot_quiet AND checkpoint_last_leader_epoch <> metadata_leader_epoch",
        ),
        Unknown(
            # A broker that is started drops epochs at its log end (LeaderEpochFileCache#truncateFromEnd), and is named
            # leader until its registration arrives, or its session is over.
            reason="nothing was written in its epoch: a leader that was just started forgets such an epoch",
            evidence=None,
            when=line("""
                checkpoint_last_leader_epoch < metadata_leader_epoch
                AND COALESCE(last_leader_epoch, -1) <= checkpoint_last_leader_epoch
            """),
        ),
    ),
    breach_when="checkpoint_last_leader_epoch <> metadata_leader_epoch",
    evidence=(
        "metadata_leader_epoch",
        "checkpoint_last_leader_epoch",
        "checkpoint_last_epoch_start_offset",
        "last_leader_epoch",
    ),
    explanation=lines("""
        By the metadata log broker {broker_id} leads {topic}-{partition} in leader epoch {metadata_leader_epoch}.
        Its leader-epoch-checkpoint ends with epoch {checkpoint_last_leader_epoch}, which starts at
          {checkpoint_last_epoch_start_offset}.
        A leader writes its epoch into that file before its first append, so it has not taken this one up, or the file
          was replaced.
    """),
    start_offset="checkpoint_last_epoch_start_offset",
    next=SHOW_LEADER_EPOCHS,
    consequence_of="D14",
    points_to="derived_file",
    reference="Partition#makeLeader, UnifiedLog#assignEpochStartOffset (KAFKA-7415)",
)
