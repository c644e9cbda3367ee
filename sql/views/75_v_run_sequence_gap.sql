-- Breaks in producers' sequences, with their classified cause, as each published run saw them.
CREATE VIEW tidegauge.v_run_sequence_gap AS
SELECT f.cluster, f.snapshot_id, r.captured_at, f.run_id, f.broker_id, f.topic, f.partition, f.producer_id, f.producer_epoch,
       f.expected_sequence, f.found_sequence, f."offset", f.previous_offset, f.cause,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.sequence_gaps f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
