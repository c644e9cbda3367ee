-- Partitions as each published run saw them: `run_id` says which. `topic_key` is the topic's name as indices have it.
CREATE VIEW tidegauge.v_run_partition AS
SELECT f.cluster, f.snapshot_id, r.captured_at, f.run_id, f.topic, f.topic_id, f.partition, f.leader_id, f.last_leader_id,
       f.leader_epoch, f.partition_epoch, f.replicas, f.isr, f.elr, f.last_known_elr, f.log_start_offset, f.log_end_offset,
       f.high_watermark_lower, f.high_watermark_upper, f.last_stable_offset, f.first_unstable_offset, f.min_insync_replicas,
       f.cleanup_policy, f.unclean_leader_election_enable, f.cluster_stopped,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.partitions f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
