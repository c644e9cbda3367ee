-- Which offsets each replica holds under which leader epoch: the lineage, as each published run saw it.
CREATE VIEW tidegauge.v_run_epoch_span AS
SELECT f.cluster, f.snapshot_id, r.captured_at, f.run_id, f.broker_id, f.topic, f.partition, f.leader_epoch, f.start_offset,
       f.end_offset, f.batch_count, f.checkpoint_start_offset, f.elected_leader_id, f.divergence_offset,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.epoch_spans f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
