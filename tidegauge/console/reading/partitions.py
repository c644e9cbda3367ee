"""A topic and a partition, as one run saw them."""

from collections.abc import Sequence

from tidegauge.console.database import Reader, Row
from tidegauge.console.reading.paging import Slice, sliced, unpack

_MOST = 5_000
"""Rows of one relation about one partition that a page reads."""

_TOPIC = "SELECT * FROM tidegauge.v_topic WHERE cluster = :cluster AND topic_key = left(:topic, 249) AND topic = :topic"
_PARTITIONS = """
SELECT p.*, b.critical, b.warning, b.info, s.replica_count, s.size_bytes, x.records AS records_lost_or_at_risk
FROM (SELECT * FROM tidegauge.v_run_partition
      WHERE run_id = :run_id AND topic_key = left(:topic, 249) AND topic = :topic AND partition > :partition
      ORDER BY topic_key, partition LIMIT :limit) p
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE severity = 'critical') AS critical,
           count(*) FILTER (WHERE severity = 'warning') AS warning,
           count(*) FILTER (WHERE severity = 'info') AS info
    FROM tidegauge.v_breach WHERE cluster = p.cluster AND topic_key = p.topic_key AND partition_key = p.partition::text
      AND found_state <> 'resolved' AND implied_by IS NULL) b
CROSS JOIN LATERAL (
    SELECT count(*) AS replica_count, sum(size_bytes) AS size_bytes FROM tidegauge.v_run_replica
    WHERE run_id = p.run_id AND topic_key = p.topic_key AND partition = p.partition) s
CROSS JOIN LATERAL (
    SELECT sum(records) AS records FROM tidegauge.v_run_loss
    WHERE run_id = p.run_id AND topic_key = p.topic_key AND partition = p.partition) x
ORDER BY p.partition
"""
_OF_PARTITION = (
    "SELECT * FROM tidegauge.{view} "
    "WHERE run_id = :run_id AND topic_key = left(:topic, 249) AND topic = :topic AND partition = :partition "
    "ORDER BY {order} LIMIT :limit"
)
_ORDER = {
    "v_run_partition": "topic_id",
    "v_run_replica": "broker_id, is_future",
    "v_run_epoch_span": "broker_id, leader_epoch",
    "v_run_divergence": "leader_id, follower_id",
    "v_run_transaction": "first_offset DESC, producer_id",
    "v_run_sequence_gap": '"offset", broker_id',
    "v_run_partition_change": "metadata_offset, sequence_in_log",
    "v_run_committed_offset": '"group"',
    "v_run_loss": "start_offset, end_offset",
    "v_run_remote_segment": "start_offset, segment_id",
}
_BREACHES = """
SELECT * FROM tidegauge.v_breach
WHERE cluster = :cluster AND topic_key = left(:topic, 249) AND partition_key = CAST(:partition AS text)
  AND (found_state <> 'resolved' OR :resolved)
ORDER BY implied_by IS NOT NULL, severity_rank, code, breach_id LIMIT :limit
"""
_RUNS = """
SELECT run_id, snapshot_id, captured_at, ruleset_version FROM tidegauge.v_run
WHERE cluster = :cluster AND is_current ORDER BY captured_at DESC, snapshot_id DESC LIMIT 60
"""
_RUN = "SELECT * FROM tidegauge.v_run WHERE run_id = :run_id AND cluster = :cluster"


def topic(store: Reader, cluster: str, name: str) -> Row | None:
    """One topic of the latest run."""
    return store.row(_TOPIC, cluster=cluster, topic=name)


def partitions(store: Reader, run_id: str, topic: str, *, after: str | None, size: int) -> Slice:
    """A topic's partitions by number. Raises `ValueError` for a position that is none."""
    key = unpack(after, partition=int) or {"partition": -1}
    rows = store.rows(_PARTITIONS, run_id=run_id, topic=topic, limit=size + 1, **key)
    return sliced(rows, size, "partition")


def of_partition(store: Reader, view: str, run_id: str, topic: str, partition: int) -> Sequence[Row]:
    """A view's rows about one partition, in the order of their kind."""
    query = _OF_PARTITION.format(view=view, order=_ORDER[view])
    return store.rows(query, run_id=run_id, topic=topic, partition=partition, limit=_MOST)


def breaches(store: Reader, cluster: str, topic: str, partition: int, *, resolved: bool, limit: int) -> Sequence[Row]:
    """What is wrong with a partition, worst first, consequences too."""
    return store.rows(_BREACHES, cluster=cluster, topic=topic, partition=partition, resolved=resolved, limit=limit)


def runs(store: Reader, cluster: str) -> Sequence[Row]:
    """The cluster's latest snapshots, to choose from."""
    return store.rows(_RUNS, cluster=cluster)


def run(store: Reader, cluster: str, run_id: str) -> Row | None:
    """One of the cluster's runs."""
    return store.row(_RUN, cluster=cluster, run_id=run_id)
