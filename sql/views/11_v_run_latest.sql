-- One row per cluster: the run about its newest snapshot, by when the snapshot was captured, not by when it was audited.
CREATE VIEW tidegauge.v_run_latest AS
SELECT DISTINCT ON (cluster) run_id, cluster, snapshot_id, previous_snapshot_id, ruleset_version, consistency, source,
       captured_at, started_at, finished_at, published_at, coverage
FROM tidegauge.v_run
WHERE is_current
ORDER BY cluster, captured_at DESC, snapshot_id DESC;
