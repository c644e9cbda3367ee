-- Consumer groups' positions in the latest run of each cluster; `lost_from_offset`: the group had read what is lost now.
CREATE VIEW tidegauge.v_committed_offset AS
SELECT f.cluster, f.snapshot_id, l.captured_at, f.run_id, f."group", f.topic, f.partition, f.committed_offset, f.leader_epoch,
       tidegauge.instant(f.committed_at_ms) AS committed_at, f.log_start_offset, f.log_end_offset, f.high_watermark_upper,
       f.in_range, f.lost_from_offset
FROM tidegauge.committed_offsets f
JOIN tidegauge.v_run_latest l ON l.run_id = f.run_id;
