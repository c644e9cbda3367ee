-- The latest word on each invariant, one row per cluster and code. `unknown` is not `holds`: the reasons say why.
CREATE VIEW tidegauge.v_invariant_status AS
SELECT r.cluster, r.snapshot_id, r.captured_at, i.*
FROM tidegauge.invariant_result i
JOIN tidegauge.v_run_latest r ON r.run_id = i.run_id;
