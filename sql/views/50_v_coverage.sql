-- How much of a cluster the latest run looked at, and how old that picture is; `unread_files` were left out.
CREATE VIEW tidegauge.v_coverage AS
SELECT cluster, run_id, snapshot_id, consistency, source, captured_at, published_at,
       (coverage ->> 'brokers')::bigint AS brokers,
       (coverage ->> 'replicas')::bigint AS replicas,
       (coverage ->> 'segments')::bigint AS segments,
       (coverage ->> 'segments_reused')::bigint AS segments_reused,
       (coverage ->> 'batches')::bigint AS batches,
       (coverage ->> 'bytes')::bigint AS bytes,
       jsonb_array_length(coalesce(coverage -> 'unread', '[]')) AS unread_files,
       coverage -> 'unread' AS unread
FROM tidegauge.v_run_latest;
