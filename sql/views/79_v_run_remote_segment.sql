-- Segments in tiered storage as each published run saw them.
CREATE VIEW tidegauge.v_run_remote_segment AS
SELECT f.cluster, f.snapshot_id, r.captured_at, f.run_id, f.topic, f.partition, f.segment_id, f.start_offset, f.end_offset,
       f.state, f.size_bytes,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.remote_segments f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
