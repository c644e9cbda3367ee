-- A role that reads the store's views and nothing else, for dashboards. Run it once, as a role that may create roles, on
-- a migrated store; then GRANT tidegauge_reader TO whoever logs in. Running it again does no harm, and later migrations
-- give the role their new views by themselves.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tidegauge_reader') THEN
        CREATE ROLE tidegauge_reader NOLOGIN;
    END IF;
END
$$;
SELECT tidegauge.grant_reading('tidegauge_reader');
