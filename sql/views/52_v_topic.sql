-- Topics in the latest run of each cluster, with their root breaches that are not resolved. `trouble_order` puts the worst
-- first; `topic_key` is the name as indices have it.
CREATE VIEW tidegauge.v_topic AS
SELECT s.cluster, s.run_id, s.topic, s.partitions, s.replicas, s.size_bytes, s.offline_partitions,
       s.under_replicated_partitions, s.critical, s.warning, s.info, s.records_lost_or_at_risk, s.trouble_order, s.topic_key
FROM tidegauge.topic_summary s;
