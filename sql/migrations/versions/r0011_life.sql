-- What people say of a breach, and what is counted once at publishing so that nobody counts a million rows to see a page.

CREATE TABLE tidegauge.acknowledgement (
    cluster            text NOT NULL,
    breach_id          text NOT NULL,
    acknowledged_at    timestamptz NOT NULL,
    acknowledged_by    text NOT NULL CHECK (acknowledged_by <> ''),
    acknowledged_until timestamptz,               -- null: until the breach is resolved
    note               text,
    opened_at          timestamptz NOT NULL,      -- capture that had opened the breach by then: a later opening is news
    ended_at           timestamptz,               -- replaced by another one, or withdrawn; rows are never removed
    ended_by           text
);
CREATE UNIQUE INDEX acknowledgement_in_force ON tidegauge.acknowledgement (cluster, breach_id) WHERE ended_at IS NULL;
CREATE INDEX acknowledgement_of_breach ON tidegauge.acknowledgement (cluster, breach_id, acknowledged_at);

-- Says who takes care of a breach, and until when it need not be told again. `outcome`: acknowledged, already (the same
-- words are in force: nothing changed), replaced (another one was in force: it is what is returned), resolved (nothing to
-- acknowledge), unknown (no such breach), past (`until` is over), nobody (no name).
-- Whoever may call it needs no right on a table.
CREATE FUNCTION tidegauge.acknowledge(of_cluster text, of_breach text, who text, until_at timestamptz, why text)
RETURNS TABLE (outcome text, acknowledged_by text, acknowledged_at timestamptz, acknowledged_until timestamptz, note text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    present tidegauge.acknowledgement;
    found_state text;
    opened timestamptz;
    said timestamptz := clock_timestamp();
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('tidegauge:acknowledge:' || of_cluster || '/' || of_breach, 0));
    SELECT b.state, r.captured_at INTO found_state, opened FROM tidegauge.breach b
    JOIN tidegauge.audit_run r ON r.run_id = b.opened_run WHERE b.cluster = of_cluster AND b.breach_id = of_breach;
    IF found_state IS NULL OR found_state = 'resolved' THEN
        RETURN QUERY SELECT coalesce(found_state, 'unknown'), NULL::text, NULL::timestamptz, NULL::timestamptz, NULL::text;
        RETURN;
    END IF;
    IF coalesce(btrim(who), '') = '' OR until_at <= said THEN
        RETURN QUERY SELECT CASE WHEN coalesce(btrim(who), '') = '' THEN 'nobody' ELSE 'past' END,
                            NULL::text, NULL::timestamptz, NULL::timestamptz, NULL::text;
        RETURN;
    END IF;
    SELECT * INTO present FROM tidegauge.acknowledgement a
    WHERE a.cluster = of_cluster AND a.breach_id = of_breach AND a.ended_at IS NULL;
    IF present.acknowledged_at IS NOT NULL AND present.opened_at >= opened
       AND (present.acknowledged_until IS NULL OR present.acknowledged_until > said) THEN
        IF (present.acknowledged_by, present.acknowledged_until, present.note)
           IS NOT DISTINCT FROM (btrim(who), until_at, nullif(btrim(why), '')) THEN
            RETURN QUERY SELECT 'already', present.acknowledged_by, present.acknowledged_at, present.acknowledged_until,
                                present.note;
            RETURN;
        END IF;
        RETURN QUERY SELECT 'replaced', present.acknowledged_by, present.acknowledged_at, present.acknowledged_until,
                            present.note;
    ELSE
        RETURN QUERY SELECT 'acknowledged', btrim(who), said, until_at, nullif(btrim(why), '');
    END IF;
    UPDATE tidegauge.acknowledgement a SET ended_at = said, ended_by = btrim(who)
    WHERE a.cluster = of_cluster AND a.breach_id = of_breach AND a.ended_at IS NULL;
    INSERT INTO tidegauge.acknowledgement
        (cluster, breach_id, acknowledged_at, acknowledged_by, acknowledged_until, note, opened_at)
    VALUES (of_cluster, of_breach, said, btrim(who), until_at, nullif(btrim(why), ''), opened);
END
$$;
REVOKE ALL ON FUNCTION tidegauge.acknowledge(text, text, text, timestamptz, text) FROM PUBLIC;

-- Takes back what is in force; false where nothing was.
CREATE FUNCTION tidegauge.withdraw_acknowledgement(of_cluster text, of_breach text, who text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE tidegauge.acknowledgement a SET ended_at = clock_timestamp(), ended_by = btrim(who)
    WHERE a.cluster = of_cluster AND a.breach_id = of_breach AND a.ended_at IS NULL;
    RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION tidegauge.withdraw_acknowledgement(text, text, text) FROM PUBLIC;

-- Worst first, and by what names a place: the pages' orders, so that each page is a short walk on an index.
ALTER TABLE tidegauge.breach
    ADD COLUMN severity_rank smallint GENERATED ALWAYS AS
        (CASE severity WHEN 'critical' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END) STORED,
    ADD COLUMN topic_key text COLLATE "C" GENERATED ALWAYS AS (left(subject ->> 'topic', 249)) STORED,
    ADD COLUMN partition_key text COLLATE "C" GENERATED ALWAYS AS (left(subject ->> 'partition', 20)) STORED;
CREATE INDEX breach_root_open ON tidegauge.breach (severity_rank, code, cluster, breach_id)
    WHERE state <> 'resolved' AND implied_by IS NULL;
CREATE INDEX breach_root_open_of_cluster ON tidegauge.breach (cluster, severity_rank, code, breach_id)
    WHERE state <> 'resolved' AND implied_by IS NULL;
CREATE INDEX breach_resolved ON tidegauge.breach (severity_rank, code, cluster, breach_id) WHERE state = 'resolved';
CREATE INDEX breach_resolved_of_cluster ON tidegauge.breach (cluster, severity_rank, code, breach_id)
    WHERE state = 'resolved';
CREATE INDEX breach_of_topic ON tidegauge.breach (cluster, topic_key, partition_key, severity_rank, code, breach_id);
CREATE INDEX breach_of_code ON tidegauge.breach (code, severity_rank, cluster, breach_id) WHERE state <> 'resolved';
CREATE INDEX breach_by_id ON tidegauge.breach ((breach_id COLLATE "C"), cluster);
CREATE INDEX breach_implied ON tidegauge.breach (cluster, implied_by, severity_rank, code, breach_id)
    WHERE implied_by IS NOT NULL;
ALTER TABLE tidegauge.finding ADD COLUMN severity_rank smallint GENERATED ALWAYS AS
    (CASE severity WHEN 'critical' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END) STORED;
CREATE INDEX finding_worst_first ON tidegauge.finding (run_id, severity_rank, code, breach_id);
CREATE INDEX audit_run_by_capture ON tidegauge.audit_run (captured_at DESC, run_id DESC) WHERE status = 'published';
CREATE INDEX loss_of_partition ON tidegauge.loss (run_id, (left(topic, 249) COLLATE "C"), partition);
DROP INDEX tidegauge.loss_of_run;
CREATE INDEX transactions_open ON tidegauge.transactions (run_id, first_timestamp_ms) WHERE outcome = 'open';

CREATE TABLE tidegauge.breach_count (
    cluster  text NOT NULL,
    code     text NOT NULL,
    severity text NOT NULL,
    state    text NOT NULL,
    roots    bigint NOT NULL,
    breaches bigint NOT NULL,
    PRIMARY KEY (cluster, code, severity, state)
);
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

-- Counts a cluster anew, taking `publishing` for published; null where no run is being published.
CREATE FUNCTION tidegauge.renew_summaries(of_cluster text, publishing text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    latest text;
BEGIN
    INSERT INTO tidegauge.finding_count
    SELECT run_id, severity, count(*) FILTER (WHERE implied_by IS NULL), count(*)
    FROM tidegauge.finding WHERE run_id = publishing GROUP BY run_id, severity
    ON CONFLICT DO NOTHING;

    DELETE FROM tidegauge.breach_count WHERE cluster = of_cluster;
    INSERT INTO tidegauge.breach_count
    SELECT cluster, code, severity, state, count(*) FILTER (WHERE implied_by IS NULL), count(*)
    FROM tidegauge.breach WHERE cluster = of_cluster GROUP BY cluster, code, severity, state;

    SELECT run_id INTO latest FROM (
        SELECT DISTINCT ON (snapshot_id) run_id, captured_at, snapshot_id FROM tidegauge.audit_run
        WHERE cluster = of_cluster AND (status = 'published' OR run_id = publishing)
        ORDER BY snapshot_id, published_at DESC NULLS FIRST, run_id DESC) AS latest_of_snapshot
    ORDER BY captured_at DESC, snapshot_id DESC LIMIT 1;
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
    LEFT JOIN (SELECT subject ->> 'topic' AS topic, count(*) FILTER (WHERE severity = 'critical') AS critical,
                      count(*) FILTER (WHERE severity = 'warning') AS warning,
                      count(*) FILTER (WHERE severity = 'info') AS info
               FROM tidegauge.breach WHERE cluster = of_cluster AND state <> 'resolved' AND implied_by IS NULL
               GROUP BY 1) AS b USING (topic)
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

INSERT INTO tidegauge.finding_count
SELECT f.run_id, f.severity, count(*) FILTER (WHERE f.implied_by IS NULL), count(*)
FROM tidegauge.finding f GROUP BY f.run_id, f.severity;
SELECT tidegauge.renew_summaries(cluster, NULL) FROM (SELECT DISTINCT cluster FROM tidegauge.audit_run) AS known;
