-- Incidents over all runs, with what is open of each. `state`: open while a breach of it is open, a loss of it waits for a
-- decision or a risk of it is there; acknowledged while each of its open breaches is; else over. `records_…` are those of its
-- losses that nobody has decided. `what` begins its sentence; the figures of the sentence are the columns here.
CREATE VIEW tidegauge.v_incident AS
SELECT i.cluster, i.incident_id, r.source,
       CASE WHEN NOT s.is_open THEN 'over'
            WHEN s.open_breaches > 0 AND s.open_breaches = s.acknowledged_breaches THEN 'acknowledged'
            ELSE 'open' END AS state,
       CASE coalesce(s.severity_rank, CASE i.severity WHEN 'critical' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END)
            WHEN 1 THEN 'critical' WHEN 2 THEN 'warning' ELSE 'info' END AS severity,
       i.kind, i.cause, i.anchor, i.what, i.avoid, i.began_at, i.ended_at, i.brokers, i.believe, i.records_read, i.steps,
       s.records_lost, s.records_at_risk, s.records_possible, s.partitions, s.topics, s.groups_affected,
       s.open_breaches, s.breaches, s.undecided_losses, s.losses, s.risks,
       i.first_seen_at, i.last_seen_at, i.times_opened, i.split_from
FROM tidegauge.incident i
JOIN tidegauge.cluster_summary c ON c.cluster = i.cluster
JOIN tidegauge.audit_run r ON r.run_id = c.run_id
CROSS JOIN LATERAL (
    WITH members AS (SELECT * FROM tidegauge.v_incident_member m WHERE m.incident_id = i.incident_id)
    SELECT coalesce(bool_or(m.is_open), false) AS is_open,
           count(*) FILTER (WHERE m.kind = 'breach') AS breaches,
           count(*) FILTER (WHERE m.kind = 'breach' AND m.is_open) AS open_breaches,
           count(*) FILTER (WHERE m.kind = 'breach' AND m.is_open AND m.acknowledged) AS acknowledged_breaches,
           count(*) FILTER (WHERE m.kind = 'loss') AS losses,
           count(*) FILTER (WHERE m.kind = 'loss' AND m.is_open) AS undecided_losses,
           count(*) FILTER (WHERE m.kind = 'risk' AND m.is_open) AS risks,
           coalesce(sum(m.records_lost), 0) AS records_lost, coalesce(sum(m.records_at_risk), 0) AS records_at_risk,
           coalesce(sum(m.records_possible), 0) AS records_possible,
           min(CASE WHEN m.kind = 'breach' THEN CASE m.severity WHEN 'critical' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END
                    WHEN m.kind = 'loss' AND m.loss_state <> 'possible' THEN 1 ELSE 2 END)
               FILTER (WHERE m.is_open) AS severity_rank,
           ARRAY(SELECT o.topic || '-' || o.partition
                 FROM (SELECT DISTINCT o.topic COLLATE "C" AS topic, p AS partition
                       FROM members o, unnest(o.partitions) AS p WHERE o.topic IS NOT NULL) AS o
                 ORDER BY o.topic, o.partition) AS partitions,
           ARRAY(SELECT DISTINCT o.topic COLLATE "C" FROM members o WHERE o.topic IS NOT NULL ORDER BY 1) AS topics,
           ARRAY(SELECT DISTINCT g COLLATE "C" FROM members o,
                        unnest(coalesce(o.groups_affected, '{}') || ARRAY[o.group_name]) AS g
                 WHERE g IS NOT NULL ORDER BY 1) AS groups_affected
    FROM members m) AS s
WHERE i.merged_into IS NULL;
