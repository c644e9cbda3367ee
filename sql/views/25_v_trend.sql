-- One row per published run: how many breaches it found by severity, roots only (`findings`: consequences too), and how much
-- it looked at. A line over time for each cluster; `is_current` as in v_run.
CREATE VIEW tidegauge.v_trend AS
SELECT r.cluster, r.run_id, r.snapshot_id, r.captured_at, r.ruleset_version, r.is_current,
       coalesce((SELECT c.roots FROM tidegauge.finding_count c WHERE c.run_id = r.run_id AND c.severity = 'critical'), 0)
           AS critical,
       coalesce((SELECT c.roots FROM tidegauge.finding_count c WHERE c.run_id = r.run_id AND c.severity = 'warning'), 0)
           AS warning,
       coalesce((SELECT c.roots FROM tidegauge.finding_count c WHERE c.run_id = r.run_id AND c.severity = 'info'), 0)
           AS info,
       coalesce((SELECT sum(c.findings) FROM tidegauge.finding_count c WHERE c.run_id = r.run_id), 0) AS findings,
       (r.coverage ->> 'replicas')::bigint AS replicas, (r.coverage ->> 'segments')::bigint AS segments,
       (r.coverage ->> 'bytes')::bigint AS bytes,
       jsonb_array_length(coalesce(r.coverage -> 'unread', '[]')) AS unread_files
FROM tidegauge.v_run r;
