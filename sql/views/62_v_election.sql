-- The history of each partition's leadership, from the metadata log as the latest run of each cluster read it.
CREATE VIEW tidegauge.v_election AS
SELECT f.cluster, f.snapshot_id, f.run_id, f.topic, f.topic_id, f.partition, f.metadata_offset, f.sequence_in_log,
       tidegauge.instant(f.at_ms) AS at, f.leader_id, f.previous_leader_id, f.leader_epoch, f.partition_epoch,
       f.isr, f.previous_isr, f.elr, f.election, f.records_at_stake, f.topic_deleted
FROM tidegauge.partition_changes f
JOIN tidegauge.v_run_latest l ON l.run_id = f.run_id
WHERE f.election <> 'none';
