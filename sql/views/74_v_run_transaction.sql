-- Transactions as each published run saw them; `hanging`: no coordinator will ever end it.
CREATE VIEW tidegauge.v_run_transaction AS
SELECT f.cluster, f.snapshot_id, r.captured_at, f.run_id, f.topic, f.partition, f.broker_id, f.producer_id, f.producer_epoch,
       f.transactional_id, f.first_offset, f.last_offset, f.record_count, f.outcome, f.marker_offset, f.hanging,
       f.coordinator_state, tidegauge.instant(f.first_timestamp_ms) AS began_at,
       tidegauge.instant(f.last_timestamp_ms) AS last_write_at,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.transactions f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
