from tidegauge.expectations.invariants.shared.derived_files import EPOCH_CHECKPOINT_NOT_COPIED
from tidegauge.expectations.model import Invariant, Severity
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="B13",
    key="EPOCH_CACHE_MONOTONIC",
    name="LeaderEpochCheckpointMonotonic",
    severity=Severity.CRITICAL,
    relation="replicas",
    statement=line("""
        In a leader-epoch-checkpoint epochs and start offsets both rise from entry to entry and are never negative.
    """),
    because=line("""
        The broker drops whatever a new epoch contradicts before it writes the file. Where it does not rise, the answer
        to where an epoch ends depends on which line is looked at, and replicas truncate to different offsets.
    """),
    applies_when=line("""
        (NOT epoch_checkpoint_missing AND epoch_checkpoint_entries IS NOT NULL)
        OR NOT coalesce(epoch_checkpoints_copied, true)
    """),
    unknown=(EPOCH_CHECKPOINT_NOT_COPIED,),
    breach_when="epoch_checkpoint_disorder > 0",
    evidence=(
        "epoch_checkpoint_entries",
        "epoch_checkpoint_disorder",
        "checkpoint_last_leader_epoch",
        "checkpoint_last_epoch_start_offset",
        "last_leader_epoch",
    ),
    explanation=lines("""
        {epoch_checkpoint_disorder} of the {epoch_checkpoint_entries} entries in broker {broker_id}'s
          leader-epoch-checkpoint of {topic}-{partition} do not rise above the entry before them, or are negative.
        Its last entry is epoch {checkpoint_last_leader_epoch} from offset {checkpoint_last_epoch_start_offset}.
        The last batch of the log is of epoch {last_leader_epoch}.
    """),
    next="find . -path \\*/{topic}-{partition}/leader-epoch-checkpoint | xargs head -n 100",
    implies=("B14", "B15"),
    points_to="restored_files",
    reference="LeaderEpochFileCache#assign, #maybeTruncateNonMonotonicEntries; KIP-101",
)
