-- The life of a breach, worked out from the findings of all published runs, and counts of breaches.

-- Half of a page stays free, so that a row's next version fits beside it: every audit says again of each open breach
-- that it is there. No index of the ten has what changes then, so a version on the same page needs no entry in any of
-- them, and one on another page needs ten.
CREATE TABLE tidegauge.breach (
    cluster        text NOT NULL,
    breach_id      text NOT NULL,
    state          text NOT NULL CHECK (state IN ('open', 'still_open', 'resolved')),
    first_seen_run text NOT NULL,                 -- the first run that ever saw it
    opened_run     text NOT NULL,                 -- the run that saw it first since it was last resolved
    last_seen_run  text NOT NULL,
    resolved_run   text,                          -- first run after that which judged its subject and did not see it
    times_opened   integer NOT NULL,
    code           text NOT NULL,                 -- from here on: as the last run that saw it said
    name           text NOT NULL,
    severity       text NOT NULL,
    subject        jsonb NOT NULL,
    start_offset   bigint,
    end_offset     bigint,
    records        bigint,
    explanation    text NOT NULL,
    evidence       jsonb NOT NULL,
    implied_by     text,
    next           text,
    points_to      text,
    believe        integer[],
    diagnosis      text,
    severity_rank  smallint GENERATED ALWAYS AS
        (CASE severity WHEN 'critical' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END) STORED,
    topic_key      text COLLATE "C" GENERATED ALWAYS AS (left(subject ->> 'topic', 249)) STORED,
    partition_key  text COLLATE "C" GENERATED ALWAYS AS (left(subject ->> 'partition', 20)) STORED,
    PRIMARY KEY (cluster, breach_id)
) WITH (fillfactor = 50);
CREATE INDEX breach_by_state ON tidegauge.breach (cluster, state);

-- Worst first, and by what names a place: the pages' orders, so that each page is a short walk on an index.
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

-- Breaches of each invariant, counted, and open breaches of each topic. Both follow `breach` by triggers, so that a run
-- which changes ten breaches of a million costs ten.
CREATE TABLE tidegauge.breach_count (
    cluster  text NOT NULL,
    code     text NOT NULL,
    severity text NOT NULL,
    state    text NOT NULL,
    roots    bigint NOT NULL,
    breaches bigint NOT NULL,
    PRIMARY KEY (cluster, code, severity, state)
);
CREATE TABLE tidegauge.topic_breach_count (
    cluster      text NOT NULL,
    topic_digest text NOT NULL,                   -- a hostile name is longer than an entry of an index may be
    topic        text NOT NULL,
    severity     text NOT NULL,
    roots        bigint NOT NULL,
    PRIMARY KEY (cluster, topic_digest, severity)
);

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
REVOKE ALL ON FUNCTION tidegauge.count_breaches(), tidegauge.add_breaches(tidegauge.breach_change[]) FROM PUBLIC;

CREATE TRIGGER count_added AFTER INSERT ON tidegauge.breach REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.count_breaches();
CREATE TRIGGER count_removed AFTER DELETE ON tidegauge.breach REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.count_breaches();
CREATE TRIGGER count_changed AFTER UPDATE ON tidegauge.breach REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.count_breaches();
CREATE TRIGGER count_none AFTER TRUNCATE ON tidegauge.breach
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.count_breaches();
