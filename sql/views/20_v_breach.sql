-- Every breach that a published run ever found, with its life. What it says is what the last run that saw it said.
CREATE VIEW tidegauge.v_breach AS
SELECT b.cluster, b.breach_id, b.state, b.code, b.name, b.severity,
       b.subject ->> 'topic' AS topic, b.subject ->> 'partition' AS partition, b.subject ->> 'broker_id' AS broker_id,
       b.subject, b.start_offset, b.end_offset, b.records, b.explanation, b.evidence, b.implied_by, b.next,
       b.times_opened, b.first_seen_run, f.captured_at AS first_seen_at, b.opened_run, o.captured_at AS opened_at,
       b.last_seen_run, l.captured_at AS last_seen_at, b.resolved_run, r.captured_at AS resolved_at
FROM tidegauge.breach b
LEFT JOIN tidegauge.v_run f ON f.run_id = b.first_seen_run
LEFT JOIN tidegauge.v_run o ON o.run_id = b.opened_run
LEFT JOIN tidegauge.v_run l ON l.run_id = b.last_seen_run
LEFT JOIN tidegauge.v_run r ON r.run_id = b.resolved_run;
