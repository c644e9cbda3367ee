-- One row per cluster that has a published run: what its loss ledger comes to. What nobody has decided and no proof closed,
-- by state; since when the oldest of it is known; and what is over.
CREATE VIEW tidegauge.v_loss_total AS
SELECT c.cluster, r.source,
       count(DISTINCT s.loss_id) FILTER (WHERE s.undecided) AS losses_undecided,
       coalesce(sum(s.records) FILTER (WHERE s.undecided AND s.state = 'lost'), 0) AS records_lost_undecided,
       coalesce(sum(s.records) FILTER (WHERE s.undecided AND s.state = 'at_risk'), 0) AS records_at_risk_undecided,
       coalesce(sum(s.records) FILTER (WHERE s.undecided AND s.state = 'possible'), 0) AS records_possible_undecided,
       min(s.state_at) FILTER (WHERE s.undecided AND s.state = 'lost') AS lost_since,
       min(s.first_told_at) FILTER (WHERE s.undecided AND s.state = 'at_risk') AS at_risk_since,
       min(s.first_told_at) FILTER (WHERE s.undecided AND s.state = 'possible') AS possible_since,
       min(s.first_told_at) FILTER (WHERE s.undecided) AS oldest_undecided_at,
       coalesce(sum(s.records) FILTER (WHERE NOT s.undecided AND s.state <> 'back'), 0) AS records_decided,
       coalesce(sum(s.records) FILTER (WHERE s.state = 'back'), 0) AS records_back
FROM tidegauge.cluster_summary c
JOIN tidegauge.audit_run r ON r.run_id = c.run_id
LEFT JOIN tidegauge.v_loss_stretch s ON s.cluster = c.cluster
GROUP BY c.cluster, r.source;
