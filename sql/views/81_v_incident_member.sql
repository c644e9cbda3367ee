-- What belongs to which incident: breaches, losses and risks, each with the rule that put it there and the evidence. `is_open`: a
-- breach that no run has seen resolved, a loss that waits for a decision, a risk by the latest run. Records are those of a loss
-- that nobody has decided.
CREATE VIEW tidegauge.v_incident_member AS
SELECT m.cluster, m.incident_id, m.kind, m.member, m.topic, m.partitions, m.rule, m.because,
       b.code, b.name, b.severity, b.implied_by, b.found_state, b.subject ->> 'group' AS group_name,
       coalesce(b.found_state <> 'resolved', l.undecided,
                EXISTS (SELECT FROM tidegauge.v_risk r
                        WHERE m.kind = 'risk' AND r.cluster = m.cluster AND r.topic = m.member AND r.failure = 'now')) AS is_open,
       coalesce(b.state = 'acknowledged', false) AS acknowledged,
       l.state AS loss_state, coalesce(l.records_lost, 0) AS records_lost, coalesce(l.records_at_risk, 0) AS records_at_risk,
       coalesce(l.records_possible, 0) AS records_possible, l.groups_affected, l.held_by,
       b.opened_at, b.resolved_at, b.last_seen_at
FROM tidegauge.incident_member m
LEFT JOIN tidegauge.v_breach b ON m.kind = 'breach' AND b.cluster = m.cluster AND b.breach_id = m.member
LEFT JOIN tidegauge.v_loss_ledger l ON m.kind = 'loss' AND l.cluster = m.cluster AND l.loss_id = m.member;
