-- Every published audit run. Of one snapshot there may be several, one a ruleset version: `is_current` marks the one that was
-- published last, which is the one that the life of breaches is read from.
CREATE VIEW tidegauge.v_run AS
SELECT r.run_id, r.cluster, r.snapshot_id, r.previous_snapshot_id, r.ruleset_version, r.consistency, r.source, r.captured_at,
       r.started_at, r.finished_at, r.published_at, r.coverage,
       NOT EXISTS (SELECT FROM tidegauge.audit_run l
                   WHERE l.status = 'published' AND l.cluster = r.cluster AND l.snapshot_id = r.snapshot_id
                     AND (l.published_at, l.run_id) > (r.published_at, r.run_id)) AS is_current
FROM tidegauge.audit_run r
WHERE r.status = 'published';
