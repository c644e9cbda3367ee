-- Every published audit run. Of one snapshot there may be several, one a ruleset version: `is_current` marks the one that was
-- published last, which is the one that the life of breaches is read from.
CREATE VIEW tidegauge.v_run AS
SELECT run_id, cluster, snapshot_id, previous_snapshot_id, ruleset_version, consistency, source, captured_at, started_at,
       finished_at, published_at, coverage,
       row_number() OVER (PARTITION BY cluster, snapshot_id ORDER BY published_at DESC, run_id DESC) = 1 AS is_current
FROM tidegauge.audit_run
WHERE status = 'published';
