-- What each cluster answered about itself while its latest snapshot was taken, beside what the files say.
CREATE VIEW tidegauge.v_cluster_answer AS
SELECT f.cluster, f.snapshot_id, l.captured_at, f.run_id, f.kind, f.name, f.broker_id, f.topic, f.partition, f."group",
       f.transactional_id, f.producer_id, tidegauge.instant(f.asked_before_at_ms) AS asked_before_at,
       tidegauge.instant(f.asked_after_at_ms) AS asked_after_at, f.answered_before, f.answered_after, f.recomputed_lowest,
       f.recomputed_highest, f.answered_before_text, f.answered_after_text, f.recomputed_values, f.incomparable_reason, f.error
FROM tidegauge.cluster_answers f
JOIN tidegauge.v_run_latest l ON l.run_id = f.run_id;
