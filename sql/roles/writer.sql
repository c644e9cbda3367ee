-- A role that audits write with: rows of runs, findings and facts, and nothing else, no word of people's on a breach or a
-- loss either; it makes and drops no table, but for functions that make the next months' partitions and empty those that
-- hold nothing any more. Run it once, as the store's owner, on a migrated store; then GRANT tidegauge_writer TO whoever
-- logs in. Running it again does no harm, and it must be run again after a migration that brings new tables (`tidegauge
-- store migrate --roles` does).
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tidegauge_writer') THEN
        CREATE ROLE tidegauge_writer NOLOGIN;
    END IF;
END
$$;
GRANT USAGE ON SCHEMA tidegauge TO tidegauge_writer;
GRANT SELECT ON ALL TABLES IN SCHEMA tidegauge TO tidegauge_writer;
DO $$
DECLARE
    table_name text;
BEGIN
    FOR table_name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'tidegauge' AND tablename NOT IN
            ('alembic_version', 'view_version', 'acknowledgement', 'acknowledgement_event', 'incident_event',
             'loss_decision', 'loss_ledger') LOOP
        EXECUTE format('GRANT INSERT, UPDATE, DELETE ON tidegauge.%I TO tidegauge_writer', table_name);
    END LOOP;
END
$$;
GRANT INSERT ON tidegauge.loss_ledger TO tidegauge_writer;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA tidegauge TO tidegauge_writer;
GRANT EXECUTE ON FUNCTION tidegauge.make_partitions(), tidegauge.empty_partitions() TO tidegauge_writer;
