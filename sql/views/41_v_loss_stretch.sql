-- Stretches of offsets of the loss ledger, each with its state: possible, at_risk, lost, or back (a later snapshot shows the
-- same records on the leader). `life` has what was seen of it, by kind, with the first and the last run that saw it.
CREATE VIEW tidegauge.v_loss_stretch AS
SELECT l.cluster, l.loss_id, l.topic, l.topic_id, l.partition, l.leader_epoch, l.source, s.start_offset, s.end_offset,
       s.records, s.declared_committed, s.state, s.state_at, s.first_told_at, s.last_told_at, s.undecided,
       CASE WHEN s.state IN ('lost', 'back') THEN '{}' ELSE s.held_by END AS held_by, s.cause,
       s.groups_affected, s.life, s.back_at, d.action AS decision, d.decided_by, d.decided_at,
       CASE s.state WHEN 'lost' THEN 3 WHEN 'at_risk' THEN 2 WHEN 'possible' THEN 1 ELSE 0 END AS rank,
       left(l.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.loss_ledger l
JOIN tidegauge.loss_stretch s ON s.loss_id = l.loss_id
LEFT JOIN tidegauge.loss_decision d ON d.decision_id = s.decision_id;
