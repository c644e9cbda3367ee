-- Replicas in the latest run of each cluster.
CREATE VIEW tidegauge.v_replica AS
SELECT f.cluster, f.snapshot_id, l.captured_at, f.run_id, f.broker_id, f.topic, f.topic_id, f.partition, f.log_dir,
       f.is_leader, f.in_isr, f.in_elr, f.assigned, f.is_future, f.broker_alive,
       f.log_start_offset, f.log_end_offset, f.high_watermark, f.recovery_point_offset, f.first_unstable_offset,
       f.last_stable_offset, f.last_leader_epoch, f.metadata_leader_epoch, f.segment_count, f.batch_count, f.damaged_batches,
       f.size_bytes
FROM tidegauge.replicas f
JOIN tidegauge.v_run_latest l ON l.run_id = f.run_id;
