-- Incidents over all runs of a cluster. No row refers to a run: runs go with age.

CREATE TABLE tidegauge.incident (                 -- as the newest run that saw it tells of it
    incident_id   text PRIMARY KEY,
    cluster       text NOT NULL,
    kind          text NOT NULL,
    cause         text,
    anchor        jsonb NOT NULL,
    severity      text NOT NULL CHECK (severity IN ('critical', 'warning', 'info')),
    what          text NOT NULL,                  -- the beginning of its sentence
    avoid         text NOT NULL,
    began_at      timestamptz,                    -- its first election, by the metadata log
    ended_at      timestamptz,                    -- its last
    brokers       integer[] NOT NULL,
    believe       integer[] NOT NULL,
    records_read  bigint,                         -- by groups, of its records; null: not known
    steps         jsonb NOT NULL,                 -- the checklist
    first_seen_at timestamptz NOT NULL,           -- captures
    last_seen_at  timestamptz NOT NULL,
    times_opened  integer NOT NULL,
    split_from    text,                           -- by hand
    merged_into   text                            -- by hand: what later runs find of it belongs there
);
CREATE INDEX incident_of_cluster ON tidegauge.incident (cluster, incident_id);

CREATE TABLE tidegauge.incident_member (          -- each breach, loss and risk in one incident
    cluster     text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('breach', 'loss', 'risk')),
    member      text NOT NULL,                    -- breach_id, loss_id, topic
    incident_id text NOT NULL,
    topic       text,
    partitions  integer[] NOT NULL,
    rule        text NOT NULL,
    because     text NOT NULL,
    PRIMARY KEY (cluster, kind, member)
);
CREATE INDEX incident_member_of_incident ON tidegauge.incident_member (incident_id);

CREATE TABLE tidegauge.incident_event (           -- rows are added and never changed
    event_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    happened_at   timestamptz NOT NULL,
    action        text NOT NULL CHECK (action IN ('split', 'merged', 'acknowledged', 'done', 'undone')),
    cluster       text NOT NULL,
    incident_id   text NOT NULL,
    other_id      text,                           -- split off from it, or what it was merged into
    members       text[],                         -- of a split or a merge: what moved; acknowledged: which breaches
    step          text,                           -- of the checklist
    said_by       text NOT NULL CHECK (said_by <> ''),
    verification  text NOT NULL CHECK (verification IN ('airflow', 'proxy', 'token', 'unverified')),
    from_address  inet,                           -- null: not known
    database_role text NOT NULL,                  -- who was logged in to the store
    note          text
);
CREATE INDEX incident_event_of_incident ON tidegauge.incident_event (incident_id, event_id);

CREATE FUNCTION tidegauge.keep_incident_events() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the trail of incidents is only added to: % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END
$$;
REVOKE ALL ON FUNCTION tidegauge.keep_incident_events() FROM PUBLIC;
CREATE TRIGGER keep_incident_events BEFORE UPDATE OR DELETE OR TRUNCATE ON tidegauge.incident_event
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.keep_incident_events();

-- What carries runs and what people say go one after the other, of one cluster.
CREATE FUNCTION tidegauge.lock_incidents(of_cluster text) RETURNS void LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('tidegauge:incidents:' || of_cluster, 0))
$$;
REVOKE ALL ON FUNCTION tidegauge.lock_incidents(text) FROM PUBLIC;

-- Adds to the trail what one of the next four did.
CREATE FUNCTION tidegauge.note_incident(
    did text, of_cluster text, of_incident text, other text, which text[], of_step text, who text, vouched_by text,
    asked_from inet, why text)
RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO tidegauge.incident_event
        (happened_at, action, cluster, incident_id, other_id, members, step, said_by, verification, from_address,
         database_role, note)
    VALUES (clock_timestamp(), did, of_cluster, of_incident, other, which, of_step, btrim(who), vouched_by,
            coalesce(asked_from, inet_client_addr()), session_user, nullif(btrim(why), ''))
$$;
REVOKE ALL ON FUNCTION tidegauge.note_incident(text, text, text, text, text[], text, text, text, inet, text) FROM PUBLIC;

-- What the next four return: `outcome`, as each says, and with whom it has to do: an incident, a person, or a number. All of
-- them lock the cluster's incidents, so that two people, or one and an audit, go one after the other. Whoever may call them
-- needs no right on a table, and is believed about `vouched_by`.

-- Takes breaches, with what follows from them, and losses out of an incident and makes another one of them. `outcome`: split
-- (`other_id` is the new one), or, with nothing changed: unknown (no such incident), elsewhere (`other_id` holds `detail`,
-- which is no member here; null: nothing does), all (nothing would stay), nobody (no name), silent (no note).
CREATE FUNCTION tidegauge.split_incident(
    of_incident text, which text[], who text, why text, vouched_by text DEFAULT 'unverified', asked_from inet DEFAULT NULL)
RETURNS TABLE (outcome text, other_id text, detail text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    present tidegauge.incident;
    moving text[];
    missing text;
    made text;
BEGIN
    SELECT * INTO present FROM tidegauge.incident i WHERE i.incident_id = of_incident;
    IF present.incident_id IS NULL OR coalesce(btrim(who), '') = '' OR coalesce(btrim(why), '') = '' THEN
        RETURN QUERY SELECT CASE WHEN present.incident_id IS NULL THEN 'unknown'
                                 WHEN coalesce(btrim(who), '') = '' THEN 'nobody' ELSE 'silent' END, NULL::text, NULL::text;
        RETURN;
    END IF;
    PERFORM tidegauge.lock_incidents(present.cluster);
    SELECT w INTO missing FROM unnest(which) AS w WHERE NOT EXISTS (
        SELECT FROM tidegauge.incident_member m WHERE m.incident_id = of_incident AND m.member = w AND m.kind <> 'risk') LIMIT 1;
    IF missing IS NOT NULL THEN
        RETURN QUERY SELECT 'elsewhere', (SELECT m.incident_id FROM tidegauge.incident_member m
            WHERE m.cluster = present.cluster AND m.member = missing AND m.kind <> 'risk' LIMIT 1), missing;
        RETURN;
    END IF;
    SELECT array_agg(m.member ORDER BY m.member) INTO moving FROM tidegauge.incident_member m
    LEFT JOIN tidegauge.breach b ON b.cluster = m.cluster AND m.kind = 'breach' AND b.breach_id = m.member
    WHERE m.incident_id = of_incident AND m.kind <> 'risk' AND (m.member = ANY(which) OR b.implied_by = ANY(which));
    IF NOT EXISTS (SELECT FROM tidegauge.incident_member m WHERE m.incident_id = of_incident
                   AND (m.kind = 'risk' OR m.member <> ALL(coalesce(moving, '{}')))) THEN
        RETURN QUERY SELECT 'all', NULL::text, NULL::text;
        RETURN;
    END IF;
    made := 'incident-' || left(encode(sha256(convert_to(
        array_to_string(of_incident || moving || clock_timestamp()::text, E'\n'), 'UTF8')), 'hex'), 10);
    INSERT INTO tidegauge.incident
    SELECT made, cluster, kind, cause, anchor, severity, what, avoid, began_at, ended_at, brokers, believe, NULL, steps,
           first_seen_at, last_seen_at, 1, of_incident, NULL
    FROM tidegauge.incident WHERE incident_id = of_incident;
    UPDATE tidegauge.incident_member m
    SET incident_id = made, rule = 'by_hand', because = btrim(who) || ' split it off: ' || btrim(why)
    WHERE m.incident_id = of_incident AND m.kind <> 'risk' AND m.member = ANY(moving);
    UPDATE tidegauge.incident i SET records_read = NULL WHERE i.incident_id = of_incident;
    PERFORM tidegauge.note_incident(
        'split', present.cluster, of_incident, made, moving, NULL, who, vouched_by, asked_from, why);
    RETURN QUERY SELECT 'split', made, NULL::text;
END
$$;
REVOKE ALL ON FUNCTION tidegauge.split_incident(text, text[], text, text, text, inet) FROM PUBLIC;

-- Puts all that belongs to one incident, now and later, into another one. `outcome`: merged, or, with nothing changed: already
-- (it was merged into that one), gone (it, or the other one, was merged into `other_id`), itself, clusters (they are of two),
-- unknown (`other_id` is not in this store), nobody (no name), silent (no note).
CREATE FUNCTION tidegauge.merge_incidents(
    of_incident text, into_incident text, who text, why text, vouched_by text DEFAULT 'unverified',
    asked_from inet DEFAULT NULL)
RETURNS TABLE (outcome text, other_id text, detail text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    one tidegauge.incident;
    other tidegauge.incident;
    moving text[];
    refused text;
BEGIN
    SELECT * INTO one FROM tidegauge.incident i WHERE i.incident_id = of_incident;
    SELECT * INTO other FROM tidegauge.incident i WHERE i.incident_id = into_incident;
    refused := CASE WHEN one.incident_id IS NULL OR other.incident_id IS NULL THEN 'unknown'
                    WHEN of_incident = into_incident THEN 'itself'
                    WHEN one.cluster <> other.cluster THEN 'clusters'
                    WHEN coalesce(btrim(who), '') = '' THEN 'nobody' WHEN coalesce(btrim(why), '') = '' THEN 'silent' END;
    IF refused IS NOT NULL THEN
        RETURN QUERY SELECT refused, CASE WHEN one.incident_id IS NULL THEN of_incident ELSE into_incident END, NULL::text;
        RETURN;
    END IF;
    PERFORM tidegauge.lock_incidents(one.cluster);
    SELECT * INTO one FROM tidegauge.incident i WHERE i.incident_id = of_incident;
    SELECT * INTO other FROM tidegauge.incident i WHERE i.incident_id = into_incident;
    IF one.merged_into IS NOT NULL OR other.merged_into IS NOT NULL THEN
        RETURN QUERY SELECT CASE WHEN one.merged_into = into_incident THEN 'already' ELSE 'gone' END,
                            coalesce(one.merged_into, other.merged_into),
                            CASE WHEN one.merged_into IS NOT NULL THEN of_incident ELSE into_incident END;
        RETURN;
    END IF;
    SELECT array_agg(m.member ORDER BY m.kind, m.member) INTO moving
    FROM tidegauge.incident_member m WHERE m.incident_id = of_incident;
    UPDATE tidegauge.incident_member m
    SET incident_id = into_incident, rule = 'by_hand', because = btrim(who) || ' merged ' || of_incident || ': ' || btrim(why)
    WHERE m.incident_id = of_incident;
    UPDATE tidegauge.incident i SET merged_into = into_incident WHERE i.incident_id = of_incident;
    UPDATE tidegauge.incident i SET records_read = NULL WHERE i.incident_id = into_incident;
    PERFORM tidegauge.note_incident(
        'merged', one.cluster, of_incident, into_incident, moving, NULL, who, vouched_by, asked_from, why);
    RETURN QUERY SELECT 'merged', into_incident, NULL::text;
END
$$;
REVOKE ALL ON FUNCTION tidegauge.merge_incidents(text, text, text, text, text, inet) FROM PUBLIC;

-- Says that somebody takes care of an incident: acknowledges each of its open breaches. `outcome`: acknowledged (`detail`: how
-- many), or, with nothing changed: already (each was, in the same words), over (none of its breaches is open), unknown, gone
-- (merged into `other_id`), past (`until_at` is over), nobody. Losses wait for their own decision.
CREATE FUNCTION tidegauge.acknowledge_incident(
    of_incident text, who text, until_at timestamptz, why text, vouched_by text DEFAULT 'unverified',
    asked_from inet DEFAULT NULL)
RETURNS TABLE (outcome text, other_id text, detail text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    present tidegauge.incident;
    breach_ids text[];
    changed text[] := '{}';
    each text;
    told text;
BEGIN
    SELECT * INTO present FROM tidegauge.incident i WHERE i.incident_id = of_incident;
    IF present.incident_id IS NULL OR present.merged_into IS NOT NULL OR coalesce(btrim(who), '') = ''
       OR until_at <= clock_timestamp() THEN
        RETURN QUERY SELECT CASE WHEN present.incident_id IS NULL THEN 'unknown'
                                 WHEN present.merged_into IS NOT NULL THEN 'gone'
                                 WHEN coalesce(btrim(who), '') = '' THEN 'nobody' ELSE 'past' END,
                            present.merged_into, NULL::text;
        RETURN;
    END IF;
    PERFORM tidegauge.lock_incidents(present.cluster);
    SELECT array_agg(b.breach_id ORDER BY b.breach_id) INTO breach_ids FROM tidegauge.incident_member m
    JOIN tidegauge.breach b ON b.cluster = m.cluster AND b.breach_id = m.member AND b.state <> 'resolved'
    WHERE m.incident_id = of_incident AND m.kind = 'breach';
    IF breach_ids IS NULL THEN
        RETURN QUERY SELECT 'over', NULL::text, NULL::text;
        RETURN;
    END IF;
    FOREACH each IN ARRAY breach_ids LOOP
        SELECT a.outcome INTO told
        FROM tidegauge.acknowledge(present.cluster, each, who, until_at, why, vouched_by, asked_from) AS a;
        IF told IN ('acknowledged', 'replaced') THEN
            changed := changed || each;
        END IF;
    END LOOP;
    IF changed = '{}' THEN
        RETURN QUERY SELECT 'already', NULL::text, NULL::text;
        RETURN;
    END IF;
    PERFORM tidegauge.note_incident(
        'acknowledged', present.cluster, of_incident, NULL, changed, NULL, who, vouched_by, asked_from, why);
    RETURN QUERY SELECT 'acknowledged', NULL::text, cardinality(changed)::text;
END
$$;
REVOKE ALL ON FUNCTION tidegauge.acknowledge_incident(text, text, timestamptz, text, text, inet) FROM PUBLIC;

-- Ticks off a step of the checklist, or takes that back. `outcome`: done, undone, or, with nothing changed: already (`detail`:
-- by whom), open (nothing to take back), step (no such step), unknown, gone (merged into `other_id`), nobody.
CREATE FUNCTION tidegauge.note_incident_step(
    of_incident text, which text, is_done boolean, who text, why text, vouched_by text DEFAULT 'unverified',
    asked_from inet DEFAULT NULL)
RETURNS TABLE (outcome text, other_id text, detail text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    present tidegauge.incident;
    last_event tidegauge.incident_event;
BEGIN
    SELECT * INTO present FROM tidegauge.incident i WHERE i.incident_id = of_incident;
    IF present.incident_id IS NOT NULL THEN
        PERFORM tidegauge.lock_incidents(present.cluster);
        SELECT * INTO present FROM tidegauge.incident i WHERE i.incident_id = of_incident;
    END IF;
    SELECT * INTO last_event FROM tidegauge.incident_event e
    WHERE e.incident_id = of_incident AND e.step = which AND e.action IN ('done', 'undone') ORDER BY e.event_id DESC LIMIT 1;
    IF present.incident_id IS NULL OR present.merged_into IS NOT NULL OR coalesce(btrim(who), '') = ''
       OR NOT present.steps @> jsonb_build_array(jsonb_build_object('step', which))
       OR is_done = (coalesce(last_event.action, 'undone') = 'done') THEN
        RETURN QUERY SELECT CASE WHEN present.incident_id IS NULL THEN 'unknown'
                                 WHEN present.merged_into IS NOT NULL THEN 'gone'
                                 WHEN coalesce(btrim(who), '') = '' THEN 'nobody'
                                 WHEN NOT present.steps @> jsonb_build_array(jsonb_build_object('step', which)) THEN 'step'
                                 WHEN is_done THEN 'already' ELSE 'open' END,
                            present.merged_into, last_event.said_by;
        RETURN;
    END IF;
    PERFORM tidegauge.note_incident(
        CASE WHEN is_done THEN 'done' ELSE 'undone' END, present.cluster, of_incident, NULL, NULL, which, who, vouched_by,
        asked_from, why);
    RETURN QUERY SELECT CASE WHEN is_done THEN 'done' ELSE 'undone' END, NULL::text, btrim(who);
END
$$;
REVOKE ALL ON FUNCTION tidegauge.note_incident_step(text, text, boolean, text, text, text, inet) FROM PUBLIC;
