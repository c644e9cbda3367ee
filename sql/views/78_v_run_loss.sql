-- Records that each published run found lost, about to be truncated (`at_risk`), or possibly either (`possible`).
CREATE VIEW tidegauge.v_run_loss AS
SELECT r.cluster, r.snapshot_id, r.captured_at, f.run_id, f.topic, f.partition, f.start_offset, f.end_offset, f.records,
       f.leader_epoch, f.held_by, f.state, f.declared_committed, f.cause, f.groups_affected,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.loss f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
