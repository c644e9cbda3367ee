-- A role for the console: it reads the store's views, may acknowledge breaches and decide losses, nothing else. Run it
-- once, as a role that may create roles, on a migrated store, after reader.sql; then GRANT tidegauge_console TO whoever
-- logs in. Running it again does no harm, and it must be run again after a migration that brings new functions.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tidegauge_console') THEN
        CREATE ROLE tidegauge_console NOLOGIN;
    END IF;
END
$$;
GRANT tidegauge_reader TO tidegauge_console;
GRANT EXECUTE ON FUNCTION tidegauge.acknowledge(text, text, text, timestamptz, text, text, inet) TO tidegauge_console;
GRANT EXECUTE ON FUNCTION tidegauge.withdraw_acknowledgement(text, text, text, text, inet) TO tidegauge_console;
GRANT EXECUTE ON FUNCTION tidegauge.decide_loss(text, text, text, text, numeric, text, inet) TO tidegauge_console;
GRANT EXECUTE ON FUNCTION tidegauge.split_incident(text, text[], text, text, text, inet) TO tidegauge_console;
GRANT EXECUTE ON FUNCTION tidegauge.merge_incidents(text, text, text, text, text, inet) TO tidegauge_console;
GRANT EXECUTE ON FUNCTION tidegauge.acknowledge_incident(text, text, timestamptz, text, text, inet) TO tidegauge_console;
GRANT EXECUTE ON FUNCTION tidegauge.note_incident_step(text, text, boolean, text, text, text, inet) TO tidegauge_console;
