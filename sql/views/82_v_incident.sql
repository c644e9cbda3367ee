-- Incidents over all runs, with what is open of each. `state`: open while a breach of it is open, a loss of it waits for a
-- decision or a risk of it is there; acknowledged while each of its open breaches is; else over. `records_…` are those of its
-- losses that nobody has decided. `what` begins its sentence; the figures of the sentence are the columns here.
CREATE VIEW tidegauge.v_incident AS
SELECT i.cluster, i.incident_id, r.source,
       CASE WHEN s.severity_rank IS NULL AND k.risks IS NULL THEN 'over'
            WHEN s.open_breaches > 0 AND s.open_breaches = a.breaches THEN 'acknowledged'
            ELSE 'open' END AS state,
       CASE coalesce(least(s.severity_rank, k.rank), CASE i.severity WHEN 'critical' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END)
            WHEN 1 THEN 'critical' WHEN 2 THEN 'warning' ELSE 'info' END AS severity,
       i.kind, i.cause, i.anchor, i.what, i.avoid, i.began_at, i.ended_at, i.brokers, i.believe, i.records_read, i.steps,
       s.records_lost, s.records_at_risk, s.records_possible, s.partitions, s.topics, s.groups_affected,
       s.open_breaches, s.breaches, s.undecided_losses, s.losses, coalesce(k.risks, 0) AS risks,
       i.first_seen_at, i.last_seen_at, i.times_opened, i.split_from
FROM tidegauge.incident i
JOIN tidegauge.incident_count s USING (incident_id)
JOIN tidegauge.cluster_summary c ON c.cluster = i.cluster
JOIN tidegauge.audit_run r ON r.run_id = c.run_id
LEFT JOIN (SELECT m.incident_id, count(*) AS breaches
           FROM tidegauge.v_acknowledgement k
           JOIN tidegauge.incident_member m ON m.cluster = k.cluster AND m.kind = 'breach' AND m.member = k.breach_id
           WHERE k.in_force GROUP BY m.incident_id) AS a USING (incident_id)
LEFT JOIN (SELECT m.incident_id, count(*) AS risks, 2 AS rank
           FROM tidegauge.incident_member m
           WHERE m.kind = 'risk' AND EXISTS (SELECT FROM tidegauge.v_risk f
               WHERE f.cluster = m.cluster AND f.topic = m.member AND f.failure = 'now')
           GROUP BY m.incident_id) AS k USING (incident_id)
WHERE i.merged_into IS NULL;
