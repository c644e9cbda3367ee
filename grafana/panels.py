"""What Grafana's dashboards show: four pages, each a list of panels with a title, a kind, a query and a size.

The rule that must hold: every query reads the store's `v_*` views, as a role that may read nothing else, and what a
viewer chooses comes into it only as a quoted string.
"""

from typing import Final

from links import TO_BREACH, TO_CLUSTER, TO_INCIDENT, TO_PARTITION
from model import Annotation, Dashboard, Panel

_CLUSTER: Final = ("cluster", "SELECT DISTINCT cluster FROM tidegauge.v_run ORDER BY 1")
_TOPIC: Final = (
    "topic",
    "SELECT DISTINCT topic FROM tidegauge.v_partition WHERE cluster = ${cluster:sqlstring} ORDER BY 1",
)
_PARTITION: Final = (
    "partition",
    "SELECT partition FROM tidegauge.v_partition WHERE cluster = ${cluster:sqlstring} AND topic = ${topic:sqlstring}"
    " ORDER BY 1",
)
_HERE: Final = "cluster = ${cluster:sqlstring}"
_OF_PARTITION: Final = f"{_HERE} AND topic = ${{topic:sqlstring}} AND partition::text = ${{partition:sqlstring}}"

_INCIDENTS: Final = """
SELECT cluster, severity, state, what, began_at, records_lost, records_at_risk, open_breaches, undecided_losses,
       cardinality(partitions) AS partitions, incident_id
FROM tidegauge.v_incident WHERE state <> 'over' {where}
ORDER BY array_position(ARRAY['critical', 'warning', 'info'], severity), records_lost DESC, records_at_risk DESC,
         began_at DESC, incident_id
LIMIT 200
"""


def _incidents(*, words: str, where: str = "") -> Annotation:
    return Annotation(
        name="Incidents",
        colour="red",
        sql=f"""
SELECT began_at AS time, ended_at AS timeend, {words} AS text, kind || ',' || severity AS tags
FROM tidegauge.v_incident WHERE {where}severity <> 'info' AND $__timeFilter(began_at) LIMIT 500
""",
    )


_ELECTIONS_HERE: Final = Annotation(
    name="Unclean elections",
    colour="orange",
    sql=f"""
SELECT at AS time, topic || '-' || partition || ': broker ' || leader_id || ' leads epoch ' || leader_epoch AS text,
       'unclean' AS tags
FROM tidegauge.v_election WHERE {_HERE} AND election LIKE 'unclean%' AND $__timeFilter(at) LIMIT 500
""",
)

FLEET: Final = Dashboard(
    uid="tidegauge-fleet",
    title="Tidegauge / Fleet",
    about="All clusters: how old the picture is, what is broken, what is lost.",
    variables=(),
    annotations=(_incidents(words="cluster || ': ' || what"),),
    panels=(
        Panel(title="Clusters", kind="stat", width=4, height=4, sql="SELECT count(*) FROM tidegauge.v_run_latest"),
        Panel(
            title="Not audited for a day",
            kind="stat",
            width=5,
            height=4,
            bad_from=1,
            about="Clusters whose newest audited snapshot is older than 26 hours: what is said of them is old.",
            sql="SELECT count(*) FROM tidegauge.v_run_latest WHERE captured_at < now() - interval '26 hours'",
        ),
        Panel(
            title="Open critical breaches",
            kind="stat",
            width=5,
            height=4,
            bad_from=1,
            sql="SELECT count(*) FROM tidegauge.v_breach_open WHERE severity = 'critical' AND implied_by IS NULL",
        ),
        Panel(
            title="Open warnings",
            kind="stat",
            width=5,
            height=4,
            sql="SELECT count(*) FROM tidegauge.v_breach_open WHERE severity = 'warning' AND implied_by IS NULL",
        ),
        Panel(
            title="Records lost or at risk, undecided",
            kind="stat",
            width=5,
            height=4,
            bad_from=1,
            about="Over all runs, until somebody decides or the records are back. Simulated clusters are left out.",
            sql="""
SELECT coalesce(sum(records_lost_undecided + records_at_risk_undecided), 0) AS records
FROM tidegauge.v_loss_total WHERE source <> 'simulated'
""",
        ),
        Panel(
            title="Incidents, the worst first",
            kind="table",
            width=24,
            height=8,
            links=(TO_CLUSTER, TO_INCIDENT),
            about="Breaches, losses and risks of one cause and time. Records are those that nobody has decided.",
            sql=_INCIDENTS.format(where=""),
        ),
        Panel(
            title="Clusters, the worst first",
            kind="table",
            width=24,
            height=9,
            links=(TO_CLUSTER,),
            sql="""
SELECT r.cluster, r.captured_at, round(extract(epoch FROM now() - r.captured_at) / 3600) AS hours_old, r.consistency,
       count(b.breach_id) FILTER (WHERE b.severity = 'critical') AS critical,
       count(b.breach_id) FILTER (WHERE b.severity = 'warning') AS warning,
       count(b.breach_id) FILTER (WHERE b.severity = 'info') AS info,
       t.records_lost_undecided, t.records_at_risk_undecided, t.oldest_undecided_at, c.brokers, c.replicas, c.unread_files
FROM tidegauge.v_run_latest r
LEFT JOIN tidegauge.v_breach_open b ON b.cluster = r.cluster AND b.implied_by IS NULL
LEFT JOIN tidegauge.v_coverage c ON c.cluster = r.cluster
LEFT JOIN tidegauge.v_loss_total t ON t.cluster = r.cluster
GROUP BY r.cluster, r.captured_at, r.consistency, t.records_lost_undecided, t.records_at_risk_undecided,
         t.oldest_undecided_at, c.brokers, c.replicas, c.unread_files
ORDER BY critical DESC, warning DESC, r.cluster
""",
        ),
        Panel(
            title="Breached subjects by audit",
            kind="timeseries",
            sql="""
SELECT captured_at AS time, cluster AS metric, sum(breached) AS breached
FROM tidegauge.v_invariant_history
WHERE is_current AND severity <> 'info' AND $__timeFilter(captured_at)
GROUP BY 1, 2 ORDER BY 1
""",
        ),
        Panel(
            title="Invariants that could be judged",
            kind="timeseries",
            unit="percentunit",
            about="The share that holds or is breached; the rest is unknown, which is not green.",
            sql="""
SELECT captured_at AS time, cluster AS metric, avg(CASE WHEN verdict = 'unknown' THEN 0.0 ELSE 1.0 END) AS judged
FROM tidegauge.v_invariant_history
WHERE is_current AND $__timeFilter(captured_at)
GROUP BY 1, 2 ORDER BY 1
""",
        ),
        Panel(
            title="Open breaches of all clusters, roots only",
            kind="table",
            width=24,
            height=10,
            links=(TO_CLUSTER, TO_BREACH),
            sql="""
SELECT severity, cluster, code, name, topic, partition, broker_id, records, opened_at, times_opened, breach_id
FROM tidegauge.v_breach_open
WHERE implied_by IS NULL
ORDER BY array_position(ARRAY['critical', 'warning', 'info'], severity), opened_at DESC
LIMIT 200
""",
        ),
    ),
)

CLUSTER: Final = Dashboard(
    uid="tidegauge-cluster",
    title="Tidegauge / Cluster",
    about="One cluster by its latest audit: verdicts, breaches, losses, elections, risks, transactions, groups.",
    variables=(_CLUSTER,),
    annotations=(_incidents(words="what", where=f"{_HERE} AND "), _ELECTIONS_HERE),
    panels=(
        Panel(
            title="Verdicts",
            kind="piechart",
            width=6,
            height=7,
            sql=f"SELECT verdict AS metric, count(*) AS invariants FROM tidegauge.v_invariant_status WHERE {_HERE} GROUP BY 1",
        ),
        Panel(
            title="Snapshot",
            kind="table",
            width=18,
            height=7,
            sql=f"""
SELECT captured_at, snapshot_id, consistency, source, brokers, replicas, segments, batches, bytes, unread_files
FROM tidegauge.v_coverage WHERE {_HERE}
""",
        ),
        Panel(
            title="Incidents",
            kind="table",
            width=24,
            height=7,
            links=(TO_INCIDENT,),
            about="Breaches, losses and risks of one cause and time. Records are those that nobody has decided.",
            sql=_INCIDENTS.format(where=f"AND {_HERE}"),
        ),
        Panel(
            title="Open breaches",
            kind="table",
            width=24,
            height=10,
            links=(TO_PARTITION, TO_BREACH),
            about="Roots first; what follows from a breach names it in implied_by.",
            sql=f"""
SELECT cluster, severity, code, name, topic, partition, broker_id, start_offset, end_offset, records, state, opened_at,
       seen_in_latest, implied_by, next, breach_id
FROM tidegauge.v_breach_open WHERE {_HERE}
ORDER BY implied_by IS NOT NULL, array_position(ARRAY['critical', 'warning', 'info'], severity), code
LIMIT 500
""",
        ),
        Panel(
            title="Losses that nobody has decided",
            kind="table",
            width=24,
            links=(TO_PARTITION,),
            about="Over all runs. A loss stays until somebody decides it, or its records are proven to be back.",
            sql=f"""
SELECT loss_id, topic, partition, leader_epoch, state, records, since, last_told_at, held_by, cause, groups_affected
FROM tidegauge.v_loss_ledger WHERE {_HERE} AND undecided ORDER BY records_lost DESC, records_at_risk DESC, loss_id
LIMIT 500
""",
        ),
        Panel(
            title="Lost, or at risk, by the latest audit",
            kind="table",
            links=(TO_PARTITION,),
            sql=f"""
SELECT topic, partition, start_offset, end_offset, records, state, declared_committed, held_by, cause, groups_affected
FROM tidegauge.v_loss WHERE {_HERE} ORDER BY records DESC
""",
        ),
        Panel(
            title="Unclean elections",
            kind="table",
            links=(TO_PARTITION,),
            sql=f"""
SELECT at, topic, partition, leader_id, previous_leader_id, leader_epoch, previous_isr, records_at_stake, metadata_offset
FROM tidegauge.v_election WHERE {_HERE} AND election = 'unclean' AND NOT coalesce(topic_deleted, false)
ORDER BY at DESC LIMIT 200
""",
        ),
        Panel(
            title="Risks",
            kind="table",
            width=24,
            about="What would be lost if a broker or a rack failed, or two of them, and what is so now. No breach: nothing of "
            "it has happened. A pair stands here where it costs more than each half.",
            sql=f"""
SELECT failures, topic, failure, brokers, racks, partition_count, losing, unavailable, unclean, refusing, records_at_risk,
       records_at_risk_known, losing_partitions, unavailable_partitions
FROM tidegauge.v_risk WHERE {_HERE}
ORDER BY failures = 'double', failure <> 'now', losing DESC, unavailable DESC, refusing DESC, unclean DESC, topic, failure,
         brokers, racks
LIMIT 500
""",
        ),
        Panel(
            title="Open transactions",
            kind="table",
            links=(TO_PARTITION,),
            about="They hold read_committed consumers back; a hanging one does so for ever.",
            sql=f"""
SELECT hanging, topic, partition, transactional_id, producer_id, producer_epoch, first_offset, began_at, coordinator_state
FROM tidegauge.v_transaction_open WHERE {_HERE} ORDER BY hanging DESC NULLS LAST, began_at LIMIT 200
""",
        ),
        Panel(
            title="Groups that had read what is lost, or point outside the log",
            kind="table",
            links=(TO_PARTITION,),
            sql=f"""
SELECT "group", topic, partition, committed_offset, log_start_offset, log_end_offset, lost_from_offset, committed_at
FROM tidegauge.v_committed_offset
WHERE {_HERE} AND (in_range IS FALSE OR lost_from_offset IS NOT NULL)
ORDER BY 1, 2, 3 LIMIT 200
""",
        ),
        Panel(
            title="Breaches by family over time",
            kind="timeseries",
            sql=f"""
SELECT captured_at AS time, left(code, 1) AS metric, sum(breached) AS breached
FROM tidegauge.v_invariant_history
WHERE {_HERE} AND is_current AND $__timeFilter(captured_at)
GROUP BY 1, 2 ORDER BY 1
""",
        ),
        Panel(
            title="Not known, and so not green",
            kind="table",
            sql=f"""
SELECT s.code, s.name, s.severity, reason.key AS reason, reason.value::bigint AS subjects
FROM tidegauge.v_invariant_status s, jsonb_each_text(s.reasons) AS reason
WHERE s.{_HERE} ORDER BY s.code
""",
        ),
        Panel(
            title="Every invariant",
            kind="table",
            width=24,
            height=12,
            sql=f"""
SELECT code, name, severity, verdict, checked, breached, unknown
FROM tidegauge.v_invariant_status WHERE {_HERE}
ORDER BY array_position(ARRAY['breached', 'unknown', 'holds'], verdict), code
""",
        ),
    ),
)

PARTITION: Final = Dashboard(
    uid="tidegauge-partition",
    title="Tidegauge / Partition",
    about="One partition by the latest audit of its cluster: replicas, leadership, breaches, transactions, groups.",
    variables=(_CLUSTER, _TOPIC, _PARTITION),
    panels=(
        Panel(
            title="As the controller sees it",
            kind="table",
            width=24,
            height=4,
            sql=f"""
SELECT leader_id, leader_epoch, partition_epoch, replicas, isr, elr, min_insync_replicas, log_start_offset,
       last_stable_offset, high_watermark_lower, high_watermark_upper, log_end_offset, cleanup_policy,
       unclean_leader_election_enable
FROM tidegauge.v_partition WHERE {_OF_PARTITION}
""",
        ),
        Panel(
            title="Replicas",
            kind="table",
            width=24,
            height=6,
            sql=f"""
SELECT broker_id, is_leader, in_isr, in_elr, log_start_offset, recovery_point_offset, last_stable_offset, high_watermark,
       log_end_offset, last_leader_epoch, segment_count, batch_count, damaged_batches, size_bytes, log_dir
FROM tidegauge.v_replica WHERE {_OF_PARTITION} ORDER BY broker_id
""",
        ),
        Panel(
            title="Where each replica's log ends",
            kind="barchart",
            sql=f"""
SELECT 'broker ' || broker_id AS broker, log_start_offset, high_watermark, log_end_offset
FROM tidegauge.v_replica WHERE {_OF_PARTITION} ORDER BY broker_id
""",
        ),
        Panel(
            title="Elections",
            kind="table",
            sql=f"""
SELECT at, election, leader_id, previous_leader_id, leader_epoch, isr, previous_isr, elr, records_at_stake, metadata_offset
FROM tidegauge.v_election WHERE {_OF_PARTITION} ORDER BY metadata_offset DESC LIMIT 200
""",
        ),
        Panel(
            title="Breaches, open and resolved",
            kind="table",
            width=24,
            sql=f"""
SELECT severity, state, code, name, broker_id, start_offset, end_offset, records, first_seen_at, last_seen_at, resolved_at,
       implied_by, next, breach_id
FROM tidegauge.v_breach
WHERE {_HERE} AND topic = ${{topic:sqlstring}} AND partition = ${{partition:sqlstring}}
ORDER BY state = 'resolved', array_position(ARRAY['critical', 'warning', 'info'], severity), last_seen_at DESC
""",
        ),
        Panel(
            title="Lost, or at risk",
            kind="table",
            sql=f"""
SELECT start_offset, end_offset, records, state, leader_epoch, declared_committed, held_by, cause, groups_affected
FROM tidegauge.v_loss WHERE {_OF_PARTITION} ORDER BY start_offset
""",
        ),
        Panel(
            title="Open transactions",
            kind="table",
            sql=f"""
SELECT hanging, transactional_id, producer_id, producer_epoch, first_offset, last_offset, record_count, began_at,
       coordinator_state
FROM tidegauge.v_transaction_open WHERE {_OF_PARTITION} ORDER BY first_offset
""",
        ),
        Panel(
            title="Groups",
            kind="table",
            width=24,
            sql=f"""
SELECT "group", committed_offset, high_watermark_upper - committed_offset AS records_behind, leader_epoch, in_range,
       lost_from_offset, committed_at
FROM tidegauge.v_committed_offset WHERE {_OF_PARTITION} ORDER BY 1
""",
        ),
    ),
)

OPERATIONS: Final = Dashboard(
    uid="tidegauge-operations",
    title="Tidegauge / Audit operations",
    about="The audits themselves: when they ran, how long they took, how much they read and left unread.",
    variables=(_CLUSTER,),
    panels=(
        Panel(
            title="Newest audited snapshot",
            kind="stat",
            width=6,
            height=5,
            unit="s",
            bad_from=26 * 3600,
            sql=f"SELECT extract(epoch FROM now() - captured_at) FROM tidegauge.v_run_latest WHERE {_HERE}",
        ),
        Panel(
            title="From capture to verdict",
            kind="stat",
            width=6,
            height=5,
            unit="s",
            sql=f"SELECT extract(epoch FROM published_at - captured_at) FROM tidegauge.v_run_latest WHERE {_HERE}",
        ),
        Panel(
            title="Files left unread",
            kind="stat",
            width=6,
            height=5,
            bad_from=1,
            sql=f"SELECT unread_files FROM tidegauge.v_coverage WHERE {_HERE}",
        ),
        Panel(
            title="Published runs in this time",
            kind="stat",
            width=6,
            height=5,
            sql=f"SELECT count(*) FROM tidegauge.v_run WHERE {_HERE} AND $__timeFilter(captured_at)",
        ),
        Panel(
            title="How long an audit takes",
            kind="timeseries",
            unit="s",
            sql=f"""
SELECT captured_at AS time, extract(epoch FROM finished_at - started_at) AS seconds
FROM tidegauge.v_run WHERE {_HERE} AND $__timeFilter(captured_at) ORDER BY 1
""",
        ),
        Panel(
            title="How much it reads",
            kind="timeseries",
            unit="decbytes",
            sql=f"""
SELECT captured_at AS time, (coverage ->> 'bytes')::bigint AS bytes
FROM tidegauge.v_run WHERE {_HERE} AND $__timeFilter(captured_at) ORDER BY 1
""",
        ),
        Panel(
            title="Runs",
            kind="table",
            width=24,
            height=10,
            sql=f"""
SELECT captured_at, snapshot_id, previous_snapshot_id, ruleset_version, consistency, source, started_at, finished_at,
       published_at, is_current, run_id
FROM tidegauge.v_run WHERE {_HERE} AND $__timeFilter(captured_at) ORDER BY captured_at DESC LIMIT 500
""",
        ),
        Panel(
            title="Left unread",
            kind="table",
            width=24,
            sql=f"""
SELECT file ->> 'path' AS path, file ->> 'reason' AS reason
FROM tidegauge.v_coverage, jsonb_array_elements(unread) AS file WHERE {_HERE} LIMIT 500
""",
        ),
    ),
)

DASHBOARDS: Final = (FLEET, CLUSTER, PARTITION, OPERATIONS)
