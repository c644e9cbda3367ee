-- Partitions in the latest run of each cluster, with what is wrong there: breaches not resolved, records at risk or lost.
CREATE VIEW tidegauge.v_partition AS
WITH open_breach AS (
    SELECT cluster, subject ->> 'topic' AS topic, subject ->> 'partition' AS partition, count(*) AS breaches,
           count(*) FILTER (WHERE severity = 'critical') AS critical_breaches
    FROM tidegauge.breach
    WHERE state <> 'resolved' AND implied_by IS NULL
    GROUP BY 1, 2, 3
), loss AS (
    SELECT run_id, topic, partition, sum(records) FILTER (WHERE state <> 'possible') AS records,
           sum(records) FILTER (WHERE state = 'possible') AS possible
    FROM tidegauge.loss GROUP BY 1, 2, 3
)
SELECT f.cluster, f.snapshot_id, l.captured_at, f.run_id, f.topic, f.topic_id, f.partition, f.leader_id, f.last_leader_id,
       f.leader_epoch, f.partition_epoch, f.replicas, f.isr, f.elr, f.last_known_elr, f.log_start_offset, f.log_end_offset,
       f.high_watermark_lower, f.high_watermark_upper, f.last_stable_offset, f.first_unstable_offset, f.min_insync_replicas,
       f.cleanup_policy, f.unclean_leader_election_enable, f.cluster_stopped, f.active_replicas,
       coalesce(b.breaches, 0) AS breaches, coalesce(b.critical_breaches, 0) AS critical_breaches,
       coalesce(x.records, 0) AS records_lost_or_at_risk, coalesce(x.possible, 0) AS records_possibly_lost
FROM tidegauge.partitions f
JOIN tidegauge.v_run_latest l ON l.run_id = f.run_id
LEFT JOIN open_breach b ON b.cluster = f.cluster AND b.topic = f.topic AND b.partition = f.partition::text
LEFT JOIN loss x ON x.run_id = f.run_id AND x.topic = f.topic AND x.partition = f.partition;
