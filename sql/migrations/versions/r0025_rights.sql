-- What a role needs that reads the store, and nothing more.

CREATE FUNCTION tidegauge.grant_reading(reader text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    view_name text;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tidegauge TO %I', reader);
    FOR view_name IN SELECT viewname FROM pg_views WHERE schemaname = 'tidegauge' AND viewname LIKE 'v\_%' LOOP
        EXECUTE format('GRANT SELECT ON tidegauge.%I TO %I', view_name, reader);
    END LOOP;
END
$$;
COMMENT ON FUNCTION tidegauge.grant_reading(text) IS 'Lets a role read every v_* view and nothing else of the store.';
