-- Breaches that no run has seen resolved, worst first. One that the latest run could not judge stays: `seen_in_latest` says.
CREATE VIEW tidegauge.v_breach_open AS
SELECT b.*, b.last_seen_run = l.run_id AS seen_in_latest
FROM tidegauge.v_breach b
JOIN tidegauge.v_run_latest l ON l.cluster = b.cluster
WHERE b.state <> 'resolved'
ORDER BY array_position(ARRAY['critical', 'warning', 'info'], b.severity), b.code, b.subject::text;
