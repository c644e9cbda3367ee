-- The breaches of each published run, as that run put them.
CREATE VIEW tidegauge.v_finding AS
SELECT r.cluster, r.snapshot_id, r.captured_at, f.*
FROM tidegauge.finding f
JOIN tidegauge.v_run r ON r.run_id = f.run_id;
