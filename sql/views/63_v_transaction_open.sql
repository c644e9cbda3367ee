-- Transactions that are not finished, by the latest run of each cluster: they hold back read_committed consumers.
CREATE VIEW tidegauge.v_transaction_open AS
SELECT f.cluster, f.snapshot_id, l.captured_at, f.run_id, f.topic, f.partition, f.producer_id, f.producer_epoch,
       f.transactional_id, f.first_offset, f.last_offset, f.record_count, f.hanging, f.coordinator_state,
       tidegauge.instant(f.first_timestamp_ms) AS began_at, tidegauge.instant(f.last_timestamp_ms) AS last_write_at
FROM tidegauge.transactions f
JOIN tidegauge.v_run_latest l ON l.run_id = f.run_id
WHERE f.outcome = 'open';
