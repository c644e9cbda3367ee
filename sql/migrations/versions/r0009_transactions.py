"""Coordinators' logs replayed: transactional ids, groups, share partitions, how transactions ended, and what else tells
of producers and commits.

Revision ID: r0009
Revises: r0008
"""

from typing import Final

from alembic import op

revision = "r0009"
down_revision = "r0008"
branch_labels = None
depends_on = None

_TRANSACTIONAL_IDS: Final = """
    CREATE TABLE tidegauge.transactional_ids (
        run_id                     text NOT NULL,
        cluster                    text NOT NULL,
        snapshot_id                text NOT NULL,
        transactional_id           text,
        topic                      text,
        partition                  integer,
        broker_id                  integer,
        expected_partition         integer,
        partition_count            integer,
        names_hashed               boolean,
        first_record_offset        bigint,
        last_record_offset         bigint,
        record_count               bigint,
        producer_id                bigint,
        producer_epoch             integer,
        previous_producer_id       bigint,
        next_producer_id           bigint,
        state                      text,
        partitions                 text[],
        timeout_ms                 bigint,
        started_at_ms              bigint,
        updated_at_ms              bigint,
        client_transaction_version integer,
        judged_steps               bigint,
        unjudged_steps             bigint,
        broken_steps               bigint,
        decided_transactions       bigint,
        undelivered_transactions   bigint,
        largest_data_epoch         integer,
        anomalies                  jsonb,
        history                    jsonb,
        broker_quiet               boolean,
        snapshot_quiet             boolean
    )
"""
_GROUPS: Final = """
    CREATE TABLE tidegauge.groups (
        run_id                text NOT NULL,
        cluster               text NOT NULL,
        snapshot_id           text NOT NULL,
        "group"               text,
        topic                 text,
        partition             integer,
        broker_id             integer,
        expected_partition    integer,
        partition_count       integer,
        names_hashed          boolean,
        first_record_offset   bigint,
        last_record_offset    bigint,
        record_count          bigint,
        kind                  text,
        generation            integer,
        group_epoch           integer,
        assignment_epoch      integer,
        largest_member_epoch  integer,
        member_count          integer,
        committed_partitions  integer,
        epoch_regressions     bigint,
        pending_commits       integer,
        orphaned_commits      integer,
        orphaned_producer_id  bigint,
        orphaned_first_offset bigint,
        transactions_known    boolean,
        anomalies             jsonb,
        broker_quiet          boolean,
        snapshot_quiet        boolean
    )
"""
_SHARE_STATES: Final = """
    CREATE TABLE tidegauge.share_states (
        run_id                   text NOT NULL,
        cluster                  text NOT NULL,
        snapshot_id              text NOT NULL,
        "group"                  text,
        topic                    text,
        topic_id                 text,
        partition                integer,
        state_partition          integer,
        expected_state_partition integer,
        names_hashed             boolean,
        first_record_offset      bigint,
        last_record_offset       bigint,
        record_count             bigint,
        deleted                  boolean,
        snapshot_epoch           integer,
        state_epoch              integer,
        leader_epoch             integer,
        metadata_leader_epoch    integer,
        start_offset             bigint,
        delivery_complete_count  integer,
        completed_offsets        bigint,
        largest_delivery_count   integer,
        delivery_count_limit     integer,
        range_faults             bigint,
        epoch_faults             bigint,
        log_start_offset         bigint,
        high_watermark_upper     bigint,
        log_end_offset           bigint,
        anomalies                jsonb,
        broker_quiet             boolean,
        snapshot_quiet           boolean
    )
"""
_TRANSACTION_ENDS: Final = """
    CREATE TABLE tidegauge.transaction_ends (
        run_id                     text NOT NULL,
        cluster                    text NOT NULL,
        snapshot_id                text NOT NULL,
        topic                      text,
        partition                  integer,
        broker_id                  integer,
        transactional_id           text,
        producer_id                bigint,
        marker_epoch               integer,
        client_transaction_version integer,
        decided_outcome            text,
        record_partition           integer,
        record_offset              bigint,
        decided_at_ms              bigint,
        completed                  boolean,
        completed_at_ms            bigint,
        marker_offset              bigint,
        marker_outcome             text,
        marker_count               integer,
        open_first_offset          bigint,
        first_held_offset          bigint,
        log_end_offset             bigint,
        high_watermark_upper       bigint,
        created_at_ms              bigint,
        unclean_election_at_ms     bigint,
        log_damaged                boolean,
        ever_compacted             boolean,
        captured_at_ms             bigint,
        broker_quiet               boolean,
        snapshot_quiet             boolean
    )
"""
_TRANSACTION_OUTCOMES: Final = """
    CREATE TABLE tidegauge.transaction_outcomes (
        run_id               text NOT NULL,
        cluster              text NOT NULL,
        snapshot_id          text NOT NULL,
        producer_id          bigint,
        marker_epoch         integer,
        transactional_id     text,
        record_partition     integer,
        record_offset        bigint,
        decided_outcome      text,
        partitions           integer,
        committed_partitions integer,
        aborted_partitions   integer,
        committed_on         text[],
        aborted_on           text[]
    )
"""

_TABLES: Final = {
    "transactional_ids": _TRANSACTIONAL_IDS,
    "groups": _GROUPS,
    "share_states": _SHARE_STATES,
    "transaction_ends": _TRANSACTION_ENDS,
    "transaction_outcomes": _TRANSACTION_OUTCOMES,
}

_ADDED: Final = {
    "replicas": (
        ("live_producer_ids", "bigint"),
        ("new_producer_ids", "bigint"),
    ),
    "divergences": (
        ("compared_producer_snapshots", "integer"),
        ("producer_state_differences", "integer"),
        ("differing_snapshot_offset", "bigint"),
        ("differing_producer_id", "bigint"),
        ("leader_producer_state", "text"),
        ("follower_producer_state", "text"),
    ),
    "producers": (
        ("nontransactional_batches", "integer"),
        ("nontransactional_offset", "bigint"),
        ("repeated_batches", "integer"),
        ("repeated_offset", "bigint"),
        ("repeats_offset", "bigint"),
        ("repeats_unverified", "integer"),
    ),
    "transactions": (
        ("first_sequence", "integer"),
        ("previous_marker_offset", "bigint"),
        ("previous_marker_producer_epoch", "integer"),
        ("previous_marker_bumped", "boolean"),
    ),
    "committed_offsets": (
        ("metadata_leader_epoch", "integer"),
        ("read_leader_epoch", "integer"),
        ("read_end_offset", "bigint"),
        ("epoch_end_offset", "bigint"),
        ("epoch_end_settled", "boolean"),
        ("previous_committed_offset", "bigint"),
        ("previous_committed_at_ms", "bigint"),
        ("previous_topic_id", "text"),
        ("names_hashed", "boolean"),
    ),
    "changes": (
        ("previous_last_stable_offset", "bigint"),
        ("last_stable_offset", "bigint"),
        ("previous_captured_at_ms", "bigint"),
        ("captured_at_ms", "bigint"),
        ("max_transaction_timeout_ms", "bigint"),
        ("stuck_producer_id", "bigint"),
        ("stuck_since_at_ms", "bigint"),
    ),
}
"""Relation -> its new columns, in their order."""


def upgrade() -> None:
    """Five relations more, and columns in six; runs of before have no values in them."""
    for name, table in _TABLES.items():
        op.execute(table)
        op.execute(f"CREATE INDEX {name}_of_run ON tidegauge.{name} (run_id)")
    for name, columns in _ADDED.items():
        added = ", ".join(f"ADD COLUMN {column} {type_}" for column, type_ in columns)
        op.execute(f"ALTER TABLE tidegauge.{name} {added}")


def downgrade() -> None:
    """As it was before."""
    for name, columns in _ADDED.items():
        dropped = ", ".join(f"DROP COLUMN {column}" for column, _ in columns)
        op.execute(f"ALTER TABLE tidegauge.{name} {dropped}")
    for name in reversed(_TABLES):
        op.execute(f"DROP TABLE tidegauge.{name} CASCADE")
