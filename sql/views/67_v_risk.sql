-- What the loss of a broker, a rack, or two of them would cost each topic, by the latest run of each cluster. A risk is no
-- breach: nothing of it has happened, but for `failure = 'now'`. A pair stands here where it costs more than each half.
CREATE VIEW tidegauge.v_risk AS
SELECT f.cluster, f.snapshot_id, l.captured_at, f.run_id, f.topic, f.failure, f.brokers, f.racks, f.partition_count,
       f.losing, f.unavailable, f.unclean, f.refusing, f.records_at_risk, f.records_at_risk_known, f.losing_partitions,
       f.unavailable_partitions, f.unclean_partitions, f.refusing_partitions,
       CASE WHEN f.failure = 'now' THEN 'now'
            WHEN cardinality(f.brokers) < 2 OR f.failure = 'rack' THEN 'single' ELSE 'double' END AS failures
FROM tidegauge.risks f
JOIN tidegauge.cluster_summary s ON s.run_id = f.run_id
JOIN tidegauge.audit_run l ON l.run_id = s.run_id AND l.status = 'published';
