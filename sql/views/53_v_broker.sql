-- Brokers in the latest run of each cluster; one that was not captured is known from the metadata log only.
CREATE VIEW tidegauge.v_broker AS
SELECT f.cluster, f.snapshot_id, s.run_id, f.broker_id, f.rack, f.registered, f.fenced, f.captured, f.clean_shutdown,
       f.broker_epoch, f.replica_count, f.size_bytes, f.log_dirs,
       tidegauge.instant(f.read_started_at_ms) AS read_started_at,
       tidegauge.instant(f.read_finished_at_ms) AS read_finished_at
FROM tidegauge.cluster_summary s
JOIN tidegauge.brokers f ON f.run_id = s.run_id;
