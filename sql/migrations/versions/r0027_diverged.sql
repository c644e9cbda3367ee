-- As r0025 has it, but for `diverged_replicas`: followers of which D05 is breached. Counted in the facts, a copy of a moving
-- cluster had some whose logs were only read later than their leaders'.
CREATE OR REPLACE FUNCTION tidegauge.renew_summaries(of_cluster text, publishing text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    latest text;
BEGIN
    INSERT INTO tidegauge.finding_count
    SELECT run_id, severity, count(*) FILTER (WHERE implied_by IS NULL), count(*)
    FROM tidegauge.finding WHERE run_id = publishing GROUP BY run_id, severity
    ON CONFLICT DO NOTHING;

    SELECT run_id INTO latest FROM (
        SELECT DISTINCT ON (snapshot_id) run_id, captured_at, snapshot_id FROM tidegauge.audit_run
        WHERE cluster = of_cluster AND (status = 'published' OR run_id = publishing)
        ORDER BY snapshot_id, published_at DESC NULLS FIRST, run_id DESC) AS latest_of_snapshot
    ORDER BY captured_at DESC, snapshot_id DESC LIMIT 1;

    IF EXISTS (SELECT FROM tidegauge.cluster_summary WHERE cluster = of_cluster AND run_id = latest) THEN
        UPDATE tidegauge.topic_summary s SET critical = b.critical, warning = b.warning, info = b.info
        FROM (SELECT t.topic, coalesce(sum(c.roots) FILTER (WHERE c.severity = 'critical'), 0) AS critical,
                     coalesce(sum(c.roots) FILTER (WHERE c.severity = 'warning'), 0) AS warning,
                     coalesce(sum(c.roots) FILTER (WHERE c.severity = 'info'), 0) AS info
              FROM tidegauge.topic_summary t
              LEFT JOIN tidegauge.topic_breach_count c ON c.cluster = of_cluster AND c.topic = t.topic
              WHERE t.cluster = of_cluster GROUP BY t.topic) AS b
        WHERE s.cluster = of_cluster AND s.topic = b.topic
          AND (s.critical, s.warning, s.info) IS DISTINCT FROM (b.critical, b.warning, b.info);
        RETURN;
    END IF;

    DELETE FROM tidegauge.cluster_summary WHERE cluster = of_cluster;
    DELETE FROM tidegauge.topic_summary WHERE cluster = of_cluster;
    IF latest IS NULL THEN
        RETURN;
    END IF;

    INSERT INTO tidegauge.topic_summary (cluster, run_id, topic, partitions, replicas, size_bytes, offline_partitions,
                                         under_replicated_partitions, critical, warning, info, records_lost_or_at_risk)
    SELECT of_cluster, latest, topic, coalesce(p.partitions, 0), coalesce(r.replicas, 0), coalesce(r.size_bytes, 0),
           coalesce(p.offline, 0), coalesce(p.under_replicated, 0), coalesce(b.critical, 0), coalesce(b.warning, 0),
           coalesce(b.info, 0), coalesce(l.records, 0)
    FROM (SELECT topic, count(*) AS partitions, count(*) FILTER (WHERE leader_id IS NULL AND isr IS NOT NULL) AS offline,
                 count(*) FILTER (WHERE cardinality(isr) < cardinality(replicas)) AS under_replicated
          FROM tidegauge.partitions WHERE run_id = latest AND topic IS NOT NULL GROUP BY topic) AS p
    FULL JOIN (SELECT topic, count(*) AS replicas, sum(size_bytes) AS size_bytes
               FROM tidegauge.replicas WHERE run_id = latest AND topic IS NOT NULL GROUP BY topic) AS r USING (topic)
    LEFT JOIN (SELECT topic, sum(roots) FILTER (WHERE severity = 'critical') AS critical,
                      sum(roots) FILTER (WHERE severity = 'warning') AS warning,
                      sum(roots) FILTER (WHERE severity = 'info') AS info
               FROM tidegauge.topic_breach_count WHERE cluster = of_cluster GROUP BY topic) AS b USING (topic)
    LEFT JOIN (SELECT topic, sum(records) AS records
               FROM tidegauge.loss WHERE run_id = latest AND state <> 'possible' GROUP BY topic) AS l USING (topic);

    INSERT INTO tidegauge.cluster_summary
    SELECT of_cluster, latest, b.captured, b.missing, t.topics, t.partitions, t.replicas, t.size_bytes, t.offline,
           t.under_replicated,
           (SELECT count(*) FROM tidegauge.partitions
            WHERE run_id = latest AND cardinality(isr) < min_insync_replicas),
           (SELECT count(*) FROM tidegauge.partition_changes WHERE run_id = latest AND election = 'unclean'),
           coalesce((SELECT breached FROM tidegauge.invariant_result WHERE run_id = latest AND code = 'D05'), 0),
           x.open, x.hanging, l.at_risk, l.lost
    FROM (SELECT count(*) FILTER (WHERE captured) AS captured, count(*) FILTER (WHERE NOT captured) AS missing
          FROM tidegauge.brokers WHERE run_id = latest) AS b,
         (SELECT count(*) AS topics, coalesce(sum(partitions), 0) AS partitions, coalesce(sum(replicas), 0) AS replicas,
                 coalesce(sum(size_bytes), 0) AS size_bytes, coalesce(sum(offline_partitions), 0) AS offline,
                 coalesce(sum(under_replicated_partitions), 0) AS under_replicated
          FROM tidegauge.topic_summary WHERE cluster = of_cluster) AS t,
         (SELECT count(*) AS open, count(*) FILTER (WHERE hanging) AS hanging
          FROM tidegauge.transactions WHERE run_id = latest AND outcome = 'open') AS x,
         (SELECT coalesce(sum(records) FILTER (WHERE state = 'at_risk'), 0) AS at_risk,
                 coalesce(sum(records) FILTER (WHERE state = 'lost'), 0) AS lost
          FROM tidegauge.loss WHERE run_id = latest) AS l;
END
$$;
