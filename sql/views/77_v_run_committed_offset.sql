-- Consumer groups' positions as each published run saw them.
CREATE VIEW tidegauge.v_run_committed_offset AS
SELECT f.cluster, f.snapshot_id, r.captured_at, f.run_id, f."group", f.topic, f.partition, f.committed_offset, f.leader_epoch,
       tidegauge.instant(f.committed_at_ms) AS committed_at, f.in_range, f.lost_from_offset,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.committed_offsets f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
