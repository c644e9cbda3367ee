-- Replicas as each published run saw them.
CREATE VIEW tidegauge.v_run_replica AS
SELECT f.cluster, f.snapshot_id, r.captured_at, f.run_id, f.broker_id, f.topic, f.partition, f.log_dir, f.is_leader,
       f.is_reference, f.in_isr, f.in_elr, f.assigned, f.is_future, f.broker_alive, f.log_start_offset,
       f.local_log_start_offset, f.log_end_offset, f.high_watermark, f.recovery_point_offset, f.first_unstable_offset,
       f.last_stable_offset, f.last_leader_epoch, f.segment_count, f.batch_count, f.damaged_batches, f.size_bytes,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.replicas f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
