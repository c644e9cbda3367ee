-- Which cluster each name stands for, by its cluster.id. `is_current` is false of one whose name another cluster has taken
-- since: what was captured of it before `retired_at` is still published.
CREATE VIEW tidegauge.v_cluster_identity AS
SELECT cluster, cluster_id, snapshot_id, known_at, retired_at, retired_at IS NULL AS is_current, settled_by, note
FROM tidegauge.cluster_identity;
