-- Large tables by the month of their runs: a run's id begins with the instant of its start, `20261121T030000Z-…`. The
-- default partition takes runs of the month in which the store is made, and ids that begin otherwise; from the next
-- month on each month has a partition of its own, named `<table>_<year>_<month>`.

-- Makes the partitions of the next two months, where they are missing. Whoever opens a run calls it, so that they are
-- there long before they are needed: what comes without one goes to the default partition, and is found there as well.
CREATE FUNCTION tidegauge.make_partitions() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    month timestamp;
    parent text;
    leaf text;
BEGIN
    FOR ahead IN 1..2 LOOP
        month := date_trunc('month', now() AT TIME ZONE 'UTC') + ahead * interval '1 month';
        CONTINUE WHEN to_regclass(format('tidegauge.finding_%s', to_char(month, 'YYYY_MM'))) IS NOT NULL;
        BEGIN
            PERFORM pg_advisory_xact_lock(hashtextextended('tidegauge:partitions', 0));
            FOR parent IN SELECT c.relname FROM pg_class c
                WHERE c.relnamespace = 'tidegauge'::regnamespace AND c.relkind = 'p' ORDER BY c.relname LOOP
                leaf := parent || to_char(month, '_YYYY_MM');
                CONTINUE WHEN to_regclass(format('tidegauge.%I', leaf)) IS NOT NULL;
                -- Made apart and attached: that lets others go on reading and writing.
                EXECUTE format('CREATE TABLE tidegauge.%I (LIKE tidegauge.%I INCLUDING ALL EXCLUDING INDEXES)', leaf, parent);
                EXECUTE format('ALTER TABLE tidegauge.%I ATTACH PARTITION tidegauge.%I FOR VALUES FROM (%L) TO (%L)',
                               parent, leaf, to_char(month, 'YYYYMM'), to_char(month + interval '1 month', 'YYYYMM'));
            END LOOP;
        EXCEPTION
            WHEN lock_not_available THEN
                NULL;  -- somebody reads for long: the next run that is opened tries again
            WHEN check_violation THEN
                NULL;  -- a clock was wrong, and runs of that month are in the default partition: they stay there
        END;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION tidegauge.make_partitions() FROM PUBLIC;

-- Empties the partitions of months in which no run has facts any more, or findings: at once, and the space is free
-- again. A fact's run has a line in `staged_part`, made in the transaction that staged it. Returns the names of the
-- partitions.
CREATE FUNCTION tidegauge.empty_partitions() RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    leaf record;
    is_needed boolean;
BEGIN
    FOR leaf IN
        SELECT c.relname AS name, p.relname AS parent, c.oid,
               substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''(\d{6})''\)') AS first,
               substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''(\d{6})''\)') AS after
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
        WHERE p.relnamespace = 'tidegauge'::regnamespace AND p.relkind = 'p' AND c.relkind = 'r' ORDER BY c.relname
    LOOP
        CONTINUE WHEN leaf.first IS NULL OR leaf.after IS NULL OR pg_relation_size(leaf.oid) = 0;
        BEGIN
            -- First: whoever still stages into it is waited for, and what they staged is seen.
            EXECUTE format('LOCK TABLE tidegauge.%I IN ACCESS EXCLUSIVE MODE', leaf.name);
            IF leaf.parent = 'finding' THEN
                is_needed := EXISTS (SELECT FROM tidegauge.audit_run WHERE run_id >= leaf.first AND run_id < leaf.after);
            ELSE
                is_needed := EXISTS (SELECT FROM tidegauge.staged_part WHERE run_id >= leaf.first AND run_id < leaf.after);
            END IF;
            IF NOT is_needed THEN
                EXECUTE format('TRUNCATE tidegauge.%I', leaf.name);
                RETURN NEXT leaf.name;
            END IF;
        EXCEPTION WHEN lock_not_available THEN
            NULL;  -- somebody reads it: its rows are deleted one by one, or it is emptied next time
        END;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION tidegauge.empty_partitions() FROM PUBLIC;

SELECT tidegauge.make_partitions();
