-- What people say of a breach, how sure it is who said it, and a trail of all that was said that nobody rewrites.
-- `verification`, who vouches for the name: airflow, proxy, token; or nobody (unverified), so that anybody may have
-- typed it.

CREATE TABLE tidegauge.acknowledgement (
    cluster            text NOT NULL,
    breach_id          text NOT NULL,
    acknowledged_at    timestamptz NOT NULL,
    acknowledged_by    text NOT NULL CHECK (acknowledged_by <> ''),
    acknowledged_until timestamptz,               -- null: until the breach is resolved
    note               text,
    opened_at          timestamptz NOT NULL,      -- capture that had opened the breach by then: a later opening is news
    ended_at           timestamptz,               -- replaced by another one, or withdrawn; rows are never removed
    ended_by           text,
    verification       text NOT NULL DEFAULT 'unverified'
        CHECK (verification IN ('airflow', 'proxy', 'token', 'unverified')),
    ended_verification text                       -- of ended_by; null while nobody ended it
        CHECK (ended_verification IN ('airflow', 'proxy', 'token', 'unverified'))
);
CREATE UNIQUE INDEX acknowledgement_in_force ON tidegauge.acknowledgement (cluster, breach_id) WHERE ended_at IS NULL;
CREATE INDEX acknowledgement_of_breach ON tidegauge.acknowledgement (cluster, breach_id, acknowledged_at);

CREATE TABLE tidegauge.acknowledgement_event (    -- rows are added and never changed, whatever becomes of the breach
    event_id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    happened_at        timestamptz NOT NULL,
    action             text NOT NULL CHECK (action IN ('acknowledged', 'withdrawn')),
    cluster            text NOT NULL,
    breach_id          text NOT NULL,
    said_by            text NOT NULL CHECK (said_by <> ''),
    verification       text NOT NULL CHECK (verification IN ('airflow', 'proxy', 'token', 'unverified')),
    from_address       inet,                      -- null: not known
    database_role      text,                      -- who was logged in to the store; null before it was kept
    acknowledged_until timestamptz,               -- null: until the breach is resolved, or withdrawn
    note               text
);
CREATE INDEX acknowledgement_event_of_cluster ON tidegauge.acknowledgement_event (cluster, event_id);
CREATE INDEX acknowledgement_event_of_breach ON tidegauge.acknowledgement_event (cluster, breach_id, event_id);

CREATE FUNCTION tidegauge.keep_acknowledgement_events() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the trail of acknowledgements is only added to: % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END
$$;
REVOKE ALL ON FUNCTION tidegauge.keep_acknowledgement_events() FROM PUBLIC;
CREATE TRIGGER keep_acknowledgement_events BEFORE UPDATE OR DELETE OR TRUNCATE ON tidegauge.acknowledgement_event
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.keep_acknowledgement_events();

-- Says who takes care of a breach, and until when it need not be told again. `outcome`: acknowledged, already (the same
-- words are in force, vouched for in the same way: nothing changed), replaced (another one was in force: it is what is
-- returned), resolved (nothing to acknowledge), unknown (no such breach), past (`until` is over), nobody (no name).
-- Whoever may call it needs no right on a table. Whoever calls it is believed about `verification`: it is the console
-- that asks who somebody is. Without `asked_from` the address is that from which the store was asked.
CREATE FUNCTION tidegauge.acknowledge(
    of_cluster text, of_breach text, who text, until_at timestamptz, why text, vouched_by text DEFAULT 'unverified',
    asked_from inet DEFAULT NULL)
RETURNS TABLE (
    outcome text, acknowledged_by text, acknowledged_at timestamptz, acknowledged_until timestamptz, note text,
    verification text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    present tidegauge.acknowledgement;
    found_state text;
    opened timestamptz;
    said timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('tidegauge:acknowledge:' || of_cluster || '/' || of_breach, 0));
    said := clock_timestamp();
    SELECT b.state, r.captured_at INTO found_state, opened FROM tidegauge.breach b
    JOIN tidegauge.audit_run r ON r.run_id = b.opened_run WHERE b.cluster = of_cluster AND b.breach_id = of_breach;
    IF found_state IS NULL OR found_state = 'resolved' THEN
        RETURN QUERY SELECT coalesce(found_state, 'unknown'), NULL::text, NULL::timestamptz, NULL::timestamptz, NULL::text,
                            NULL::text;
        RETURN;
    END IF;
    IF coalesce(btrim(who), '') = '' OR until_at <= said THEN
        RETURN QUERY SELECT CASE WHEN coalesce(btrim(who), '') = '' THEN 'nobody' ELSE 'past' END,
                            NULL::text, NULL::timestamptz, NULL::timestamptz, NULL::text, NULL::text;
        RETURN;
    END IF;
    SELECT * INTO present FROM tidegauge.acknowledgement a
    WHERE a.cluster = of_cluster AND a.breach_id = of_breach AND a.ended_at IS NULL;
    IF present.acknowledged_at IS NOT NULL AND present.opened_at >= opened
       AND (present.acknowledged_until IS NULL OR present.acknowledged_until > said) THEN
        IF (present.acknowledged_by, present.acknowledged_until, present.note, present.verification)
           IS NOT DISTINCT FROM (btrim(who), until_at, nullif(btrim(why), ''), vouched_by) THEN
            RETURN QUERY SELECT 'already', present.acknowledged_by, present.acknowledged_at, present.acknowledged_until,
                                present.note, present.verification;
            RETURN;
        END IF;
        RETURN QUERY SELECT 'replaced', present.acknowledged_by, present.acknowledged_at, present.acknowledged_until,
                            present.note, present.verification;
    ELSE
        RETURN QUERY SELECT 'acknowledged', btrim(who), said, until_at, nullif(btrim(why), ''), vouched_by;
    END IF;
    UPDATE tidegauge.acknowledgement a SET ended_at = said, ended_by = btrim(who), ended_verification = vouched_by
    WHERE a.cluster = of_cluster AND a.breach_id = of_breach AND a.ended_at IS NULL;
    INSERT INTO tidegauge.acknowledgement
        (cluster, breach_id, acknowledged_at, acknowledged_by, acknowledged_until, note, opened_at, verification)
    VALUES (of_cluster, of_breach, said, btrim(who), until_at, nullif(btrim(why), ''), opened, vouched_by);
    INSERT INTO tidegauge.acknowledgement_event
        (happened_at, action, cluster, breach_id, said_by, verification, from_address, database_role, acknowledged_until, note)
    VALUES (said, 'acknowledged', of_cluster, of_breach, btrim(who), vouched_by, coalesce(asked_from, inet_client_addr()),
            session_user, until_at, nullif(btrim(why), ''));
END
$$;
REVOKE ALL ON FUNCTION tidegauge.acknowledge(text, text, text, timestamptz, text, text, inet) FROM PUBLIC;

-- Takes back what is in force; false where nothing was.
CREATE FUNCTION tidegauge.withdraw_acknowledgement(
    of_cluster text, of_breach text, who text, vouched_by text DEFAULT 'unverified', asked_from inet DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    said timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('tidegauge:acknowledge:' || of_cluster || '/' || of_breach, 0));
    said := clock_timestamp();
    UPDATE tidegauge.acknowledgement a SET ended_at = said, ended_by = btrim(who), ended_verification = vouched_by
    WHERE a.cluster = of_cluster AND a.breach_id = of_breach AND a.ended_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO tidegauge.acknowledgement_event
        (happened_at, action, cluster, breach_id, said_by, verification, from_address, database_role)
    VALUES (said, 'withdrawn', of_cluster, of_breach, btrim(who), vouched_by, coalesce(asked_from, inet_client_addr()),
            session_user);
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION tidegauge.withdraw_acknowledgement(text, text, text, text, inet) FROM PUBLIC;
