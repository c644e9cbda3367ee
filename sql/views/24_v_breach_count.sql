-- How many breaches a cluster has by code, severity and state (open, still_open, resolved); `roots` follow from no other
-- one. Counted when a run is published.
CREATE VIEW tidegauge.v_breach_count AS
SELECT cluster, code, severity, state, roots, breaches FROM tidegauge.breach_count;
