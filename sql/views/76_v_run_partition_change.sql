-- What the metadata log says became of each partition: leaders, ISR, ELR, elections, as each published run read it.
CREATE VIEW tidegauge.v_run_partition_change AS
SELECT f.cluster, f.snapshot_id, r.captured_at, f.run_id, f.topic, f.topic_id, f.partition, f.metadata_offset,
       f.sequence_in_log, f.from_snapshot, tidegauge.instant(f.at_ms) AS at, f.leader_id, f.previous_leader_id,
       f.leader_epoch, f.partition_epoch, f.replicas, f.isr, f.previous_isr, f.elr, f.election, f.records_at_stake,
       f.topic_deleted,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.partition_changes f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
