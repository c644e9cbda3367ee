"""What verdicts rest on: the columns that ruleset 8 reads, and the members of ISR and ELR, each judged by itself.

Revision ID: r0021
Revises: r0020
"""

from alembic import op

revision = "r0021"
down_revision = "r0020"
branch_labels = None
depends_on = None

_COLUMNS: dict[str, dict[str, str]] = {
    "loss": {"markers": "bigint"},
    "changes": {"elections_on_record": "boolean", "changed_without_epochs": "boolean"},
    "committed_offsets": {
        "elections_on_record": "boolean",
        "highest_leader_epoch": "integer",
        "epoch_never_given_out": "boolean",
        "name_reused": "boolean",
        "metadata_damaged": "boolean",
        "commit_steps": "integer",
        "falls": "integer",
        "step_from_offset": "bigint",
        "step_from_at_ms": "bigint",
        "step_to_offset": "bigint",
        "step_to_at_ms": "bigint",
        "step_record_offset": "bigint",
        "lineage_captured": "boolean",
        "log_starts_copied": "boolean",
    },
    "replicas": {
        "elections_on_record": "boolean",
        "metadata_log_captured": "boolean",
        "may_be_earlier_topics": "boolean",
        "metadata_damaged": "boolean",
        "epoch_checkpoints_copied": "boolean",
        "newest_producer_snapshot": "bigint",
        "producer_snapshots_copied": "boolean",
        "producer_ids": "bigint",
        "producer_ids_unless_expired": "bigint",
        "log_starts_copied": "boolean",
    },
    "divergences": {
        "markers_at_stake": "bigint",
        "possible_records": "bigint",
        "commitment_lacks": "text",
        "elections_on_record": "boolean",
        "damage_hides": "boolean",
        "leader_segment": "text",
        "follower_segment": "text",
        "leader_known": "boolean",
        "differs_without_epochs": "boolean",
    },
    "brokers": {
        "offline_replicas": "text[]",
        "metadata_log_captured": "boolean",
        "wrong_properties": "text[]",
    },
    "epoch_spans": {
        "metadata_log_captured": "boolean",
        "metadata_damaged": "boolean",
        "epoch_checkpoints_copied": "boolean",
        "log_starts_copied": "boolean",
        "policy_history_known": "boolean",
    },
    "producers": {"metadata_log_captured": "boolean", "unsettled_batches": "integer"},
    "index_files": {
        "undecided_entries": "integer",
        "older_has_entries": "boolean",
        "cleaning_known": "boolean",
    },
    "transaction_ends": {"by_clocks": "boolean", "name_reused": "boolean"},
    "transactions": {"aborted_by_hand": "boolean"},
    "transactional_ids": {"metadata_log_captured": "boolean"},
    "groups": {"metadata_log_captured": "boolean"},
    "segments": {
        "segment_limit_history_known": "boolean",
        "policy_history_known": "boolean",
        "gaps_held_elsewhere": "integer",
        "short_batches": "integer",
        "short_batches_held_elsewhere": "integer",
        "older_format_batches": "bigint",
        "format_falls": "bigint",
        "format_fall_offset": "bigint",
        "epochless_first": "bigint",
    },
    "share_states": {
        "read_committed": "boolean",
        "aborted_offsets": "bigint",
        "read_leader_epoch": "integer",
        "read_end_offset": "bigint",
        "epoch_end_offset": "bigint",
        "epoch_end_settled": "boolean",
        "lineage_captured": "boolean",
        "log_starts_copied": "boolean",
    },
    "upkeep": {"retention_history_known": "boolean", "producers_perhaps_expired": "integer"},
    "upkeep_changes": {
        "retention_history_known": "boolean",
        "epochs_start_offset": "bigint",
        "leader_log_start_offset": "bigint",
        "deleted_by_request": "boolean",
        "deletion_by_request_possible": "boolean",
    },
    "partition_changes": {
        "isr_joined_inactive": "integer[]",
        "node_id": "integer",
        "path": "text",
        "snapshot_nodes": "integer[]",
        "snapshot_paths": "text[]",
        "elected_log_captured": "boolean",
    },
    "topics": {"node_id": "integer", "path": "text"},
    "broker_registrations": {"node_id": "integer", "path": "text"},
    "metadata_entries": {"node_id": "integer", "path": "text", "paths_otherwise": "text[]"},
    "metadata_logs": {"path": "text"},
    "fencing_epochs": {"node_id": "integer", "path": "text"},
}
"""Relation -> new columns with their types; null in runs of before."""

_ISR_MEMBERS = """
    CREATE TABLE tidegauge.isr_members (
        run_id text NOT NULL, cluster text NOT NULL, snapshot_id text NOT NULL, topic text, partition integer,
        leader_id integer, follower_id integer, in_isr boolean, in_elr boolean, captured boolean,
        log_dir_missing boolean, present boolean, follower_log_start_offset bigint, follower_log_end_offset bigint,
        follower_last_leader_epoch integer, known_high_watermark bigint, known_high_watermark_broker integer,
        leader_log_end_offset bigint, leader_high_watermark bigint, log_start_offset bigint,
        first_differing_offset bigint, follower_clean_shutdown boolean, follower_alive boolean,
        elections_on_record boolean, broker_quiet boolean, snapshot_quiet boolean
    ) PARTITION BY RANGE (run_id)
"""
_MOVED = ("known_high_watermark bigint", "known_high_watermark_broker integer")
"""From `divergences` to `isr_members`."""

_SUMMARY = (
    (
        "FROM tidegauge.loss WHERE run_id = latest GROUP BY topic",
        "FROM tidegauge.loss WHERE run_id = latest AND state <> 'possible' GROUP BY topic",
    ),
    (
        "count(*) FILTER (WHERE leader_id IS NULL) AS offline",
        "count(*) FILTER (WHERE leader_id IS NULL AND isr IS NOT NULL) AS offline",
    ),
)
"""What `renew_summaries` counts, before and now: a loss that is only possible is none yet, and a partition of which
nothing tells who leads it is not offline for that.
"""


def upgrade() -> None:
    """The new columns, the members, and losses that are only possible."""
    op.execute(_ISR_MEMBERS)
    op.execute("CREATE TABLE tidegauge.isr_members_default PARTITION OF tidegauge.isr_members DEFAULT")
    op.execute("CREATE INDEX isr_members_of_run ON tidegauge.isr_members (run_id)")
    for column in _MOVED:
        op.execute(f"ALTER TABLE tidegauge.divergences DROP COLUMN {column.split()[0]} CASCADE")  # views are made anew
    for relation, columns in _COLUMNS.items():
        for name, type_ in columns.items():
            op.execute(f"ALTER TABLE tidegauge.{relation} ADD COLUMN {name} {type_}")
    _loss_states("'at_risk', 'lost', 'possible'")
    for before, now in _SUMMARY:
        _renewed(before, now)


def downgrade() -> None:
    """Without them."""
    for before, now in _SUMMARY:
        _renewed(now, before)
    op.execute("DROP TABLE tidegauge.isr_members CASCADE")
    op.execute("DELETE FROM tidegauge.loss WHERE state = 'possible'")
    _loss_states("'at_risk', 'lost'")
    for relation, columns in _COLUMNS.items():
        for name in columns:
            op.execute(f"ALTER TABLE tidegauge.{relation} DROP COLUMN {name} CASCADE")  # views are made anew
    for column in _MOVED:
        op.execute(f"ALTER TABLE tidegauge.divergences ADD COLUMN {column}")


def _loss_states(states: str) -> None:
    op.execute("ALTER TABLE tidegauge.loss DROP CONSTRAINT IF EXISTS loss_state_check")
    op.execute(f"ALTER TABLE tidegauge.loss ADD CONSTRAINT loss_state_check CHECK (state IN ({states}))")


def _renewed(before: str, now: str) -> None:
    """Puts a piece of `renew_summaries` in place of another."""
    function = "'tidegauge.renew_summaries(text, text)'::regprocedure"
    (definition,) = op.get_bind().exec_driver_sql(f"SELECT pg_get_functiondef({function})").one()
    assert before in definition, f"renew_summaries has changed: {before!r} is not in it"
    op.get_bind().exec_driver_sql(definition.replace(before, now), execution_options={"no_parameters": True})
