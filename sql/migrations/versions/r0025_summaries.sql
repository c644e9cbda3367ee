-- What is counted once at publishing, so that nobody counts a million rows to see a page.

CREATE TABLE tidegauge.finding_count (            -- what each run found, counted: a point of the trend
    run_id   text NOT NULL REFERENCES tidegauge.audit_run ON DELETE CASCADE,
    severity text NOT NULL,
    roots    bigint NOT NULL,
    findings bigint NOT NULL,
    PRIMARY KEY (run_id, severity)
);

CREATE TABLE tidegauge.cluster_summary (          -- the latest run of each cluster, counted
    cluster                     text PRIMARY KEY,
    run_id                      text NOT NULL REFERENCES tidegauge.audit_run ON DELETE CASCADE,
    brokers                     bigint NOT NULL,
    brokers_missing             bigint NOT NULL,
    topics                      bigint NOT NULL,
    partitions                  bigint NOT NULL,
    replicas                    bigint NOT NULL,
    size_bytes                  numeric NOT NULL,
    offline_partitions          bigint NOT NULL,
    under_replicated_partitions bigint NOT NULL,
    under_min_isr_partitions    bigint NOT NULL,
    unclean_elections           bigint NOT NULL,
    diverged_replicas           bigint NOT NULL,
    open_transactions           bigint NOT NULL,
    hanging_transactions        bigint NOT NULL,
    records_at_risk             numeric NOT NULL,
    records_lost                numeric NOT NULL
);

CREATE TABLE tidegauge.topic_summary (            -- its topics
    cluster                     text NOT NULL,
    run_id                      text NOT NULL REFERENCES tidegauge.audit_run ON DELETE CASCADE,
    topic                       text NOT NULL,
    topic_key                   text COLLATE "C" NOT NULL GENERATED ALWAYS AS (left(topic, 249)) STORED,
    partitions                  bigint NOT NULL,
    replicas                    bigint NOT NULL,
    size_bytes                  numeric NOT NULL,
    offline_partitions          bigint NOT NULL,
    under_replicated_partitions bigint NOT NULL,
    critical                    bigint NOT NULL,  -- root breaches that are not resolved
    warning                     bigint NOT NULL,
    info                        bigint NOT NULL,
    records_lost_or_at_risk     numeric NOT NULL,
    trouble_order               bigint NOT NULL GENERATED ALWAYS AS (-(critical * 1000000 + warning)) STORED
);
CREATE INDEX topic_summary_by_name ON tidegauge.topic_summary (cluster, topic_key);
CREATE INDEX topic_summary_by_trouble ON tidegauge.topic_summary (cluster, trouble_order, topic_key);
CREATE INDEX topic_summary_search ON tidegauge.topic_summary (topic_key, cluster);
CREATE INDEX topic_summary_of_run ON tidegauge.topic_summary (run_id);

-- Counts what a cluster's latest run says, if that is another run than before, and brings its topics' breaches up to
-- date; `publishing` counts as published, null where no run is being published. A loss that is only possible is none
-- yet, and a partition of which nothing tells who leads it is not offline for that.
CREATE FUNCTION tidegauge.renew_summaries(of_cluster text, publishing text) RETURNS void LANGUAGE plpgsql AS $$
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

CREATE TABLE tidegauge.risk_count (               -- of clusters that could be judged; goes with the cluster's summary
    cluster     text NOT NULL REFERENCES tidegauge.cluster_summary ON DELETE CASCADE,
    failures    text NOT NULL,                    -- what has to fail: now, single, double
    risks       bigint NOT NULL,
    losing      bigint NOT NULL,                  -- topics, as the other three
    unavailable bigint NOT NULL,
    unclean     bigint NOT NULL,
    refusing    bigint NOT NULL,
    PRIMARY KEY (cluster, failures)
);

-- Counts risks when a run becomes the latest of its cluster, not each time that somebody asks for metrics.
CREATE FUNCTION tidegauge.count_risks() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tidegauge.risk_count (cluster, failures, risks, losing, unavailable, unclean, refusing)
    SELECT NEW.cluster, kind.failures, coalesce(sum(t.risks), 0), count(*) FILTER (WHERE t.losing),
           count(*) FILTER (WHERE t.unavailable), count(*) FILTER (WHERE t.unclean), count(*) FILTER (WHERE t.refusing)
    FROM unnest(ARRAY['now', 'single', 'double']) AS kind(failures)
    LEFT JOIN (
        SELECT CASE WHEN failure = 'now' THEN 'now'
                    WHEN cardinality(brokers) < 2 OR failure = 'rack' THEN 'single' ELSE 'double' END AS failures,
               topic, count(*) AS risks, bool_or(losing > 0) AS losing, bool_or(unavailable > 0) AS unavailable,
               bool_or(unclean > 0) AS unclean, bool_or(refusing > 0) AS refusing
        FROM tidegauge.risks WHERE run_id = NEW.run_id GROUP BY 1, 2) AS t ON t.failures = kind.failures
    WHERE EXISTS (SELECT FROM tidegauge.postures WHERE run_id = NEW.run_id)
    GROUP BY kind.failures;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION tidegauge.count_risks() FROM PUBLIC;
CREATE TRIGGER count_risks AFTER INSERT ON tidegauge.cluster_summary
    FOR EACH ROW EXECUTE FUNCTION tidegauge.count_risks();
