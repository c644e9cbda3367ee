-- Open breaches of each topic, counted, as `breach_count` counts those of each invariant. Both follow `breach` by triggers,
-- so that a run which changes ten breaches of a million costs ten.
CREATE TABLE tidegauge.topic_breach_count (
    cluster      text NOT NULL,
    topic_digest text NOT NULL,                   -- a hostile name is longer than an entry of an index may be
    topic        text NOT NULL,
    severity     text NOT NULL,
    roots        bigint NOT NULL,
    PRIMARY KEY (cluster, topic_digest, severity)
);

CREATE FUNCTION tidegauge.count_breaches() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM tidegauge.add_breaches(array_agg(c)) FROM (
            SELECT ROW(cluster, code, severity, state, subject ->> 'topic', count(*) FILTER (WHERE implied_by IS NULL),
                       count(*))::tidegauge.breach_change AS c
            FROM added GROUP BY cluster, code, severity, state, subject ->> 'topic') AS counted;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM tidegauge.add_breaches(array_agg(c)) FROM (
            SELECT ROW(cluster, code, severity, state, subject ->> 'topic', -count(*) FILTER (WHERE implied_by IS NULL),
                       -count(*))::tidegauge.breach_change AS c
            FROM removed GROUP BY cluster, code, severity, state, subject ->> 'topic') AS counted;
    ELSIF TG_OP = 'UPDATE' THEN
        PERFORM tidegauge.add_breaches(array_agg(c)) FROM (
            SELECT ROW(cluster, code, severity, state, topic, sum(sign) FILTER (WHERE is_root), sum(sign))
                   ::tidegauge.breach_change AS c
            FROM (SELECT cluster, code, severity, state, subject ->> 'topic' AS topic, implied_by IS NULL AS is_root, 1 AS sign
                  FROM added
                  UNION ALL
                  SELECT cluster, code, severity, state, subject ->> 'topic', implied_by IS NULL, -1 FROM removed) AS changed
            GROUP BY cluster, code, severity, state, topic) AS counted;
    ELSE
        DELETE FROM tidegauge.breach_count;
        DELETE FROM tidegauge.topic_breach_count;
    END IF;
    RETURN NULL;
END
$$;

CREATE TYPE tidegauge.breach_change AS (
    cluster text, code text, severity text, state text, topic text, roots bigint, breaches bigint
);

CREATE FUNCTION tidegauge.add_breaches(changes tidegauge.breach_change[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tidegauge.breach_count AS c (cluster, code, severity, state, roots, breaches)
    SELECT cluster, code, severity, state, coalesce(sum(roots), 0), sum(breaches) FROM unnest(changes)
    GROUP BY cluster, code, severity, state HAVING coalesce(sum(roots), 0) <> 0 OR sum(breaches) <> 0
    ON CONFLICT (cluster, code, severity, state) DO UPDATE
    SET roots = c.roots + excluded.roots, breaches = c.breaches + excluded.breaches;
    DELETE FROM tidegauge.breach_count
    WHERE breaches = 0 AND cluster IN (SELECT cluster FROM unnest(changes));

    INSERT INTO tidegauge.topic_breach_count AS c (cluster, topic_digest, topic, severity, roots)
    SELECT cluster, md5(topic), topic, severity, sum(roots) FROM unnest(changes)
    WHERE topic IS NOT NULL AND state <> 'resolved' GROUP BY cluster, topic, severity HAVING sum(roots) <> 0
    ON CONFLICT (cluster, topic_digest, severity) DO UPDATE SET roots = c.roots + excluded.roots;
    DELETE FROM tidegauge.topic_breach_count
    WHERE roots = 0 AND cluster IN (SELECT cluster FROM unnest(changes));
END
$$;
REVOKE ALL ON FUNCTION tidegauge.count_breaches(), tidegauge.add_breaches(tidegauge.breach_change[]) FROM PUBLIC;

-- What is there already.
DELETE FROM tidegauge.breach_count;
SELECT tidegauge.add_breaches(array_agg(c)) FROM (
    SELECT ROW(cluster, code, severity, state, subject ->> 'topic', count(*) FILTER (WHERE implied_by IS NULL), count(*))
           ::tidegauge.breach_change AS c
    FROM tidegauge.breach GROUP BY cluster, code, severity, state, subject ->> 'topic') AS counted;

CREATE TRIGGER count_added AFTER INSERT ON tidegauge.breach REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.count_breaches();
CREATE TRIGGER count_removed AFTER DELETE ON tidegauge.breach REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.count_breaches();
CREATE TRIGGER count_changed AFTER UPDATE ON tidegauge.breach REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.count_breaches();
CREATE TRIGGER count_none AFTER TRUNCATE ON tidegauge.breach
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.count_breaches();

-- Counts what a cluster's latest run says, if that is another run than before, and brings its topics' breaches up to date;
-- `publishing` counts as published, null where no run is being published.
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
    FROM (SELECT topic, count(*) AS partitions, count(*) FILTER (WHERE leader_id IS NULL) AS offline,
                 count(*) FILTER (WHERE cardinality(isr) < cardinality(replicas)) AS under_replicated
          FROM tidegauge.partitions WHERE run_id = latest AND topic IS NOT NULL GROUP BY topic) AS p
    FULL JOIN (SELECT topic, count(*) AS replicas, sum(size_bytes) AS size_bytes
               FROM tidegauge.replicas WHERE run_id = latest AND topic IS NOT NULL GROUP BY topic) AS r USING (topic)
    LEFT JOIN (SELECT topic, sum(roots) FILTER (WHERE severity = 'critical') AS critical,
                      sum(roots) FILTER (WHERE severity = 'warning') AS warning,
                      sum(roots) FILTER (WHERE severity = 'info') AS info
               FROM tidegauge.topic_breach_count WHERE cluster = of_cluster GROUP BY topic) AS b USING (topic)
    LEFT JOIN (SELECT topic, sum(records) AS records FROM tidegauge.loss WHERE run_id = latest GROUP BY topic) AS l
        USING (topic);

    INSERT INTO tidegauge.cluster_summary
    SELECT of_cluster, latest, b.captured, b.missing, t.topics, t.partitions, t.replicas, t.size_bytes, t.offline,
           t.under_replicated,
           (SELECT count(*) FROM tidegauge.partitions
            WHERE run_id = latest AND cardinality(isr) < min_insync_replicas),
           (SELECT count(*) FROM tidegauge.partition_changes WHERE run_id = latest AND election = 'unclean'),
           (SELECT count(*) FROM tidegauge.divergences WHERE run_id = latest AND records_at_stake > 0),
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

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tidegauge_writer')
       AND has_schema_privilege('tidegauge_writer', 'tidegauge', 'USAGE') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON tidegauge.topic_breach_count TO tidegauge_writer;
    END IF;
END
$$;
