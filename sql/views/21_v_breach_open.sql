-- Breaches that no run has seen resolved, worst first, acknowledged ones too. One that the latest run could not judge stays:
-- `seen_in_latest` says.
CREATE VIEW tidegauge.v_breach_open AS
SELECT b.*, b.last_seen_run = l.run_id AS seen_in_latest
FROM tidegauge.v_breach b
JOIN tidegauge.v_run_latest l ON l.cluster = b.cluster
WHERE b.found_state <> 'resolved'
ORDER BY b.severity_rank, b.code, b.subject::text;
