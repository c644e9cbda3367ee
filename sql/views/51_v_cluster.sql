-- One row per cluster: what its latest run counted, and how old that picture is. The names are those of Kafka's own metrics.
CREATE VIEW tidegauge.v_cluster AS
SELECT s.cluster, s.run_id, r.snapshot_id, r.previous_snapshot_id, r.ruleset_version, r.consistency, r.source, r.captured_at,
       r.published_at, s.brokers, s.brokers_missing, s.topics, s.partitions, s.replicas, s.size_bytes, s.offline_partitions,
       s.under_replicated_partitions, s.under_min_isr_partitions, s.unclean_elections, s.diverged_replicas,
       s.open_transactions, s.hanging_transactions, s.records_at_risk, s.records_lost,
       (SELECT coalesce(sum(l.records), 0) FROM tidegauge.loss l WHERE l.run_id = s.run_id AND l.state = 'possible')
           AS records_possibly_lost,
       (r.coverage ->> 'segments')::bigint AS segments, (r.coverage ->> 'batches')::bigint AS batches,
       jsonb_array_length(coalesce(r.coverage -> 'unread', '[]')) AS unread_files
FROM tidegauge.cluster_summary s
JOIN tidegauge.audit_run r ON r.run_id = s.run_id AND r.status = 'published';
