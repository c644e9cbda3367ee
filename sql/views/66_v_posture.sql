-- How each topic is set up to bear failures, by the latest run of each cluster: copies, minimum, elections, racks.
CREATE VIEW tidegauge.v_posture AS
SELECT f.cluster, f.snapshot_id, l.captured_at, f.run_id, f.topic, f.topic_id, f.partition_count, f.replication_factor,
       f.min_insync_replicas, f.min_insync_replicas_source, f.unclean_leader_election_enable,
       f.unclean_leader_election_source, f.acknowledged_copies, f.refusal_after, f.loss_after, f.eligible_leader_replicas,
       f.smallest_isr, f.partitions_below_minimum, f.rack_count, f.one_rack_partitions, f.cluster_stopped
FROM tidegauge.postures f
JOIN tidegauge.v_run_latest l ON l.run_id = f.run_id;
