-- Risks of each cluster's latest run, counted when it was published: by what has to fail (now, single, double) how many rows
-- `v_risk` has, and of how many topics partitions would pay in which way. A cluster that could not be judged has no row.
CREATE VIEW tidegauge.v_risk_count AS
SELECT c.cluster, s.run_id, c.failures, c.risks, c.losing, c.unavailable, c.unclean, c.refusing
FROM tidegauge.risk_count c
JOIN tidegauge.cluster_summary s ON s.cluster = c.cluster;
