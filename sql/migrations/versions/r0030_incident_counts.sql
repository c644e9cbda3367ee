-- What is open of each incident, counted when a run is published or somebody decides, splits or merges, so that nobody counts
-- a hundred thousand members to see a list.

CREATE TABLE tidegauge.incident_count (
    incident_id      text PRIMARY KEY REFERENCES tidegauge.incident ON DELETE CASCADE,
    cluster          text NOT NULL,
    severity_rank    smallint,                    -- of the worst that is open, 1 critical; null: nothing is
    open_breaches    bigint NOT NULL,
    breaches         bigint NOT NULL,
    undecided_losses bigint NOT NULL,
    losses           bigint NOT NULL,
    records_lost     numeric NOT NULL,            -- of losses that nobody has decided, as the next two
    records_at_risk  numeric NOT NULL,
    records_possible numeric NOT NULL,
    partitions       text[] NOT NULL,
    topics           text[] NOT NULL,
    groups_affected  text[] NOT NULL
);
CREATE INDEX incident_count_of_cluster ON tidegauge.incident_count (cluster);

-- Counts incidents of a cluster anew; `which` null: all of them. Who calls it holds the lock of `lock_incidents`. Acknowledgements
-- end by the clock and risks are the latest run's, so neither is counted here.
CREATE FUNCTION tidegauge.count_incidents(of_cluster text, which text[]) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    WITH members AS MATERIALIZED (
        SELECT m.incident_id, m.kind, m.member, m.topic, m.partitions FROM tidegauge.incident_member m
        WHERE m.cluster = of_cluster AND (which IS NULL OR m.incident_id = ANY(which))
    ), losses AS MATERIALIZED (
        SELECT m.incident_id, l.loss_id, coalesce(bool_or(s.undecided), false) AS undecided,
               max(CASE s.state WHEN 'lost' THEN 3 WHEN 'at_risk' THEN 2 ELSE 1 END) FILTER (WHERE s.undecided) AS rank,
               sum(s.records) FILTER (WHERE s.undecided AND s.state = 'lost') AS lost,
               sum(s.records) FILTER (WHERE s.undecided AND s.state = 'at_risk') AS at_risk,
               sum(s.records) FILTER (WHERE s.undecided AND s.state = 'possible') AS possible
        FROM members m
        JOIN tidegauge.loss_ledger l ON l.cluster = of_cluster AND l.loss_id = m.member
        LEFT JOIN tidegauge.loss_stretch s ON s.loss_id = l.loss_id
        WHERE m.kind = 'loss' GROUP BY m.incident_id, l.loss_id
    ), of_breaches AS (
        SELECT m.incident_id, count(*) AS breaches, count(*) FILTER (WHERE b.state <> 'resolved') AS open_breaches,
               min(b.severity_rank) FILTER (WHERE b.state <> 'resolved') AS rank
        FROM members m LEFT JOIN tidegauge.breach b ON b.cluster = of_cluster AND b.breach_id = m.member
        WHERE m.kind = 'breach' GROUP BY m.incident_id
    ), of_losses AS (
        SELECT incident_id, count(*) AS losses, count(*) FILTER (WHERE undecided) AS undecided, sum(lost) AS lost,
               sum(at_risk) AS at_risk, sum(possible) AS possible,
               min(CASE WHEN rank > 1 THEN 1 ELSE 2 END) FILTER (WHERE undecided) AS rank
        FROM losses GROUP BY incident_id
    ), of_places AS (
        SELECT incident_id, array_agg(topic || '-' || partition ORDER BY topic, partition) AS partitions
        FROM (SELECT DISTINCT m.incident_id, m.topic COLLATE "C" AS topic, p AS partition
              FROM members m, unnest(m.partitions) AS p WHERE m.topic IS NOT NULL) AS places
        GROUP BY incident_id
    ), of_topics AS (
        SELECT incident_id, array_agg(DISTINCT topic COLLATE "C" ORDER BY topic COLLATE "C") AS topics
        FROM members WHERE topic IS NOT NULL GROUP BY incident_id
    ), of_groups AS (
        SELECT incident_id, array_agg(DISTINCT name COLLATE "C" ORDER BY name COLLATE "C") AS names
        FROM (SELECT m.incident_id, b.subject ->> 'group' AS name
              FROM members m JOIN tidegauge.breach b ON b.cluster = of_cluster AND b.breach_id = m.member
              WHERE m.kind = 'breach'
              UNION ALL
              SELECT l.incident_id, g FROM losses l
              JOIN tidegauge.loss_stretch s ON s.loss_id = l.loss_id, unnest(s.groups_affected) AS g) AS named
        WHERE name IS NOT NULL GROUP BY incident_id
    )
    INSERT INTO tidegauge.incident_count
    SELECT i.incident_id, of_cluster, least(b.rank, l.rank), coalesce(b.open_breaches, 0), coalesce(b.breaches, 0),
           coalesce(l.undecided, 0), coalesce(l.losses, 0), coalesce(l.lost, 0), coalesce(l.at_risk, 0),
           coalesce(l.possible, 0), coalesce(p.partitions, '{}'), coalesce(t.topics, '{}'), coalesce(g.names, '{}')
    FROM tidegauge.incident i
    LEFT JOIN of_breaches b USING (incident_id) LEFT JOIN of_losses l USING (incident_id)
    LEFT JOIN of_places p USING (incident_id) LEFT JOIN of_topics t USING (incident_id)
    LEFT JOIN of_groups g USING (incident_id)
    WHERE i.cluster = of_cluster AND i.merged_into IS NULL AND (which IS NULL OR i.incident_id = ANY(which))
    ON CONFLICT (incident_id) DO UPDATE
    SET (severity_rank, open_breaches, breaches, undecided_losses, losses, records_lost, records_at_risk, records_possible,
         partitions, topics, groups_affected) =
        (excluded.severity_rank, excluded.open_breaches, excluded.breaches, excluded.undecided_losses, excluded.losses,
         excluded.records_lost, excluded.records_at_risk, excluded.records_possible, excluded.partitions, excluded.topics,
         excluded.groups_affected)
$$;

-- Each cluster's possible losses are summed wherever clusters are listed; few losses are only possible.
CREATE INDEX loss_possible ON tidegauge.loss (run_id) WHERE state = 'possible';

SELECT tidegauge.count_incidents(cluster, NULL) FROM (SELECT DISTINCT cluster FROM tidegauge.incident) AS clusters;
