-- Records that are lost, that Kafka will truncate (`at_risk`), or of which that is not known (`possible`), by the latest run
-- of each cluster.
CREATE VIEW tidegauge.v_loss AS
SELECT r.cluster, r.snapshot_id, r.captured_at, l.*
FROM tidegauge.loss l
JOIN tidegauge.v_run_latest r ON r.run_id = l.run_id;
