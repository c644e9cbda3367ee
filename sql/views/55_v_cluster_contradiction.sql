-- Snapshots that were refused, since they are of another cluster.id than the one that their cluster's name stands for: one
-- row for each such cluster.id, and one more for each time that it came back after somebody had settled it. `snapshot_id`,
-- `place` and `captured_at` are those of the last one.
CREATE VIEW tidegauge.v_cluster_contradiction AS
SELECT cluster, cluster_id, opening, known_cluster_id, snapshot_id, place, captured_at, began_at, refused_at, refusals,
       settled_at IS NULL AS is_open, settled_at, settled_by, outcome, note
FROM tidegauge.cluster_contradiction;
