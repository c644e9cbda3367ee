-- Every breach that a published run ever found, with its life. What it says is what the last run that saw it said.
-- `state`: open, still_open, resolved, or acknowledged while somebody's word on this opening is in force; `found_state` is
-- what the runs say, whatever people say. `acknowledgement_verification`: who vouches for the name of `acknowledged_by`.
CREATE VIEW tidegauge.v_breach AS
SELECT b.cluster, b.breach_id,
       CASE WHEN a.cluster IS NOT NULL THEN 'acknowledged' ELSE b.state END AS state,
       b.state AS found_state, b.code, b.name, b.severity,
       b.subject ->> 'topic' AS topic, b.subject ->> 'partition' AS partition, b.subject ->> 'broker_id' AS broker_id,
       b.subject, b.start_offset, b.end_offset, b.records, b.explanation, b.evidence, b.implied_by, b.next,
       b.points_to, b.believe, b.diagnosis,
       b.times_opened, b.first_seen_run, f.captured_at AS first_seen_at, b.opened_run, o.captured_at AS opened_at,
       b.last_seen_run, l.captured_at AS last_seen_at, b.resolved_run, r.captured_at AS resolved_at,
       a.acknowledged_by, a.acknowledged_at, a.acknowledged_until, a.note AS acknowledgement_note,
       b.severity_rank, b.topic_key, b.partition_key, a.verification AS acknowledgement_verification
FROM tidegauge.breach b
LEFT JOIN tidegauge.audit_run f ON f.run_id = b.first_seen_run AND f.status = 'published'
LEFT JOIN tidegauge.audit_run o ON o.run_id = b.opened_run AND o.status = 'published'
LEFT JOIN tidegauge.audit_run l ON l.run_id = b.last_seen_run AND l.status = 'published'
LEFT JOIN tidegauge.audit_run r ON r.run_id = b.resolved_run AND r.status = 'published'
LEFT JOIN tidegauge.acknowledgement a ON a.cluster = b.cluster AND a.breach_id = b.breach_id AND a.ended_at IS NULL
    AND b.state <> 'resolved' AND a.opened_at >= o.captured_at AND (a.acknowledged_until IS NULL OR a.acknowledged_until > now());
