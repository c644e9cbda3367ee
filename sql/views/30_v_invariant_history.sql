-- What each published run said about each invariant: a line over time.
CREATE VIEW tidegauge.v_invariant_history AS
SELECT r.cluster, r.snapshot_id, r.captured_at, r.ruleset_version, r.is_current, i.*
FROM tidegauge.invariant_result i
JOIN tidegauge.v_run r ON r.run_id = i.run_id;
