from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.invariants.shared.history import NOT_IN_THE_EARLIER_COPY, SAME_REPLICA
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

INVARIANT = Invariant(
    code="C09",
    key="LOG_START_MONOTONIC",
    name="LogStartNeverFalls",
    severity=Severity.INFO,
    relation="changes",
    statement="A replica's log starts no lower than it did in the earlier snapshot.",
    because=line("""
        Retention and DeleteRecords only raise it. One that fell shows consumers again what was deleted, which may have
        been deleted because it had to be; or an old copy of the disk was put back.
    """),
    applies_when=SAME_REPLICA,
    unknown=(
        NOT_IN_THE_EARLIER_COPY,
        Unknown(reason="replica not in the copy", evidence=Evidence.REPLICA, when="continuity = 'missing'"),
        Unknown(reason="a segment could not be read", evidence=Evidence.SEGMENT, when="continuity = 'unread'"),
        Unknown(reason="broker not captured", evidence=Evidence.BROKER, when="continuity = 'not captured'"),
        Unknown(reason="log damaged", evidence=None, when="log_start_offset < previous_log_start_offset AND damaged"),
        Unknown(
            reason="log dir replaced",
            evidence=None,
            # What was copied anew starts where the leader's log does; each replica had deleted by its own clock.
            when="log_start_offset < previous_log_start_offset AND directory_replaced",
        ),
        Unknown(
            reason="tiered",
            evidence=None,
            when="log_start_offset < previous_log_start_offset AND remote_storage_enable",
        ),
        Unknown(
            reason="unclean election",
            evidence=None,
            # Truncating below the log start takes the log start along.
            when="log_start_offset < previous_log_start_offset AND unclean_election_offset IS NOT NULL",
        ),
        Unknown(
            reason="log start not checkpointed",
            evidence=Evidence.CHECKPOINT,
            # The broker knows it, and only its checkpoint tells where it lies above the first segment's base.
            when="log_start_offset < previous_log_start_offset AND NOT checkpointed_log_start AND NOT broker_quiet",
        ),
    ),
    breach_when="log_start_offset < previous_log_start_offset",
    derived=(("below", "previous_log_start_offset - log_start_offset"),),
    evidence=(
        "previous_snapshot_id",
        "previous_log_start_offset",
        "log_start_offset",
        "checkpointed_log_start",
        "log_end_offset",
    ),
    explanation=lines("""
        In snapshot {previous_snapshot_id} broker {broker_id}'s log of {topic}-{partition} started at
          {previous_log_start_offset}.
        Now it starts at {log_start_offset}: {below} offsets that had been deleted can be read again.
    """),
    start_offset="log_start_offset",
    end_offset="previous_log_start_offset",
    next="grep '^{topic} {partition} ' <log.dir of broker {broker_id}>/log-start-offset-checkpoint",
    points_to="retention",
    reference="UnifiedLog#maybeIncrementLogStartOffset, UnifiedLog#truncateTo",
)
