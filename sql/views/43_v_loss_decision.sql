-- What people decided of losses, and opened again: a trail that nobody rewrites.
CREATE VIEW tidegauge.v_loss_decision AS
SELECT decision_id, decided_at, action, cluster, loss_id, records, ranges, decided_by, verification, from_address,
       database_role, note
FROM tidegauge.loss_decision;
