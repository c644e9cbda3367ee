-- Who said of which breach that it is known, until when, and what became of that word. `in_force`: it was neither replaced
-- nor withdrawn, is not over, and the breach was not resolved and opened again since.
-- `verification`: who vouches for the name (airflow, proxy, token), or nobody (unverified); `ended_verification` for `ended_by`.
CREATE VIEW tidegauge.v_acknowledgement AS
SELECT a.cluster, a.breach_id, a.acknowledged_by, a.acknowledged_at, a.acknowledged_until, a.note, a.opened_at, a.ended_at,
       a.ended_by,
       a.ended_at IS NULL AND (a.acknowledged_until IS NULL OR a.acknowledged_until > now())
           AND coalesce(b.state <> 'resolved' AND a.opened_at >= o.captured_at, false) AS in_force,
       a.verification, a.ended_verification
FROM tidegauge.acknowledgement a
LEFT JOIN tidegauge.breach b ON b.cluster = a.cluster AND b.breach_id = a.breach_id
LEFT JOIN tidegauge.audit_run o ON o.run_id = b.opened_run AND o.status = 'published';
