-- The loss ledger: what was ever lost or at risk, over all runs of a cluster. No row refers to a run: runs go with age, a
-- loss that nobody has decided never does.

ALTER TABLE tidegauge.audit_run ADD COLUMN losses_carried boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN tidegauge.audit_run.losses_carried IS 'What it tells of losses stands in the ledger.';

CREATE TABLE tidegauge.loss_ledger (              -- a loss: what was cut off a partition under one leader epoch
    loss_id      text PRIMARY KEY,                -- of cluster, topic (its id), partition, leader epoch
    cluster      text NOT NULL,
    topic        text NOT NULL,
    topic_id     text,                            -- null: no run tells it, and the name stands for it
    partition    integer NOT NULL,
    leader_epoch integer,                         -- null: of a message format without
    source       text NOT NULL                    -- captured, simulated
);
CREATE INDEX loss_ledger_of_partition ON tidegauge.loss_ledger (cluster, (left(topic, 249) COLLATE "C"), partition);

CREATE TABLE tidegauge.loss_stretch (             -- its offsets, disjoint: of each stretch the same is known
    loss_id            text NOT NULL REFERENCES tidegauge.loss_ledger,
    start_offset       bigint NOT NULL,
    end_offset         bigint NOT NULL,
    records            bigint NOT NULL,
    declared_committed bigint NOT NULL,
    state              text NOT NULL CHECK (state IN ('possible', 'at_risk', 'lost', 'back')),
    state_at           timestamptz NOT NULL,      -- capture that showed it so first
    first_told_at      timestamptz NOT NULL,      -- captures that told of it
    last_told_at       timestamptz NOT NULL,
    undecided          boolean NOT NULL,          -- neither back, nor does a person's decision cover it as it is now
    held_by            integer[] NOT NULL,        -- by the newest word on it
    cause              text NOT NULL,
    groups_affected    text[] NOT NULL,
    life               jsonb NOT NULL,            -- all that was seen of it, by kind, with first and last run
    back_at            timestamptz,               -- newest capture that showed the same records on the leader
    decision_id        bigint,                    -- the decision on it,
    decided_state      text,                      -- the state that this was about,
    decided_back_at    timestamptz,               -- and `back_at` at that time
    PRIMARY KEY (loss_id, start_offset)
);

CREATE TABLE tidegauge.loss_decision (            -- rows are added and never changed
    decision_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    decided_at    timestamptz NOT NULL,
    action        text NOT NULL CHECK (action IN ('accepted', 'salvaged', 'produced_again', 'reopened')),
    cluster       text NOT NULL,
    loss_id       text NOT NULL,
    records       numeric NOT NULL,               -- that it decided, or opened again
    ranges        jsonb NOT NULL,                 -- [{"start_offset","end_offset","records","state"}]
    decided_by    text NOT NULL CHECK (decided_by <> ''),
    verification  text NOT NULL CHECK (verification IN ('airflow', 'proxy', 'token', 'unverified')),
    from_address  inet,                           -- null: not known
    database_role text NOT NULL,                  -- who was logged in to the store
    note          text NOT NULL CHECK (note <> '')
);
CREATE INDEX loss_decision_of_loss ON tidegauge.loss_decision (loss_id, decision_id);

CREATE FUNCTION tidegauge.keep_loss_decisions() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the trail of decisions on losses is only added to: % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END
$$;
REVOKE ALL ON FUNCTION tidegauge.keep_loss_decisions() FROM PUBLIC;
CREATE TRIGGER keep_loss_decisions BEFORE UPDATE OR DELETE OR TRUNCATE ON tidegauge.loss_decision
    FOR EACH STATEMENT EXECUTE FUNCTION tidegauge.keep_loss_decisions();

-- Decides what of a loss is undecided, or opens again what was decided. `outcome`: decided, reopened, or, with nothing
-- changed: already (the same was decided; by whom and when is returned), otherwise (something else was), open (nothing to
-- open again), back (proof closed it), changed (it holds other undecided records than `seen_records`), unknown (no such
-- loss), nobody (no name), silent (no note). Whoever may call it needs no right on a table, and is believed about
-- `vouched_by`. Two that decide at once go one after the other, and neither goes at once with a run that tells of the loss.
CREATE FUNCTION tidegauge.decide_loss(
    of_loss text, what text, who text, why text, seen_records numeric DEFAULT NULL, vouched_by text DEFAULT 'unverified',
    asked_from inet DEFAULT NULL)
RETURNS TABLE (
    outcome text, action text, decided_by text, decided_at timestamptz, note text, verification text, records numeric)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    found_cluster text;
    present tidegauge.loss_decision;
    undecided_records numeric;
    touched jsonb;
    touched_records numeric;
    made bigint;
    said timestamptz;
BEGIN
    SELECT l.cluster INTO found_cluster FROM tidegauge.loss_ledger l WHERE l.loss_id = of_loss;
    IF found_cluster IS NULL OR coalesce(btrim(who), '') = '' OR coalesce(btrim(why), '') = '' THEN
        RETURN QUERY SELECT CASE WHEN found_cluster IS NULL THEN 'unknown'
                                 WHEN coalesce(btrim(who), '') = '' THEN 'nobody' ELSE 'silent' END,
                            NULL::text, NULL::text, NULL::timestamptz, NULL::text, NULL::text, NULL::numeric;
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('tidegauge:losses:' || found_cluster, 0));
    said := clock_timestamp();
    SELECT d.* INTO present FROM tidegauge.loss_decision d
    WHERE d.decision_id = (SELECT max(s.decision_id) FROM tidegauge.loss_stretch s WHERE s.loss_id = of_loss);
    SELECT sum(s.records) INTO undecided_records FROM tidegauge.loss_stretch s WHERE s.loss_id = of_loss AND s.undecided;
    IF what = 'reopened' THEN
        SELECT jsonb_agg(jsonb_build_object('start_offset', s.start_offset, 'end_offset', s.end_offset,
                                            'records', s.records, 'state', s.state) ORDER BY s.start_offset), sum(s.records)
        INTO touched, touched_records FROM tidegauge.loss_stretch s
        WHERE s.loss_id = of_loss AND s.decision_id IS NOT NULL AND s.state <> 'back' AND NOT s.undecided;
    ELSIF undecided_records IS DISTINCT FROM seen_records AND seen_records IS NOT NULL AND undecided_records IS NOT NULL THEN
        RETURN QUERY SELECT 'changed', NULL::text, NULL::text, NULL::timestamptz, NULL::text, NULL::text, undecided_records;
        RETURN;
    ELSE
        SELECT jsonb_agg(jsonb_build_object('start_offset', s.start_offset, 'end_offset', s.end_offset,
                                            'records', s.records, 'state', s.state) ORDER BY s.start_offset), sum(s.records)
        INTO touched, touched_records FROM tidegauge.loss_stretch s WHERE s.loss_id = of_loss AND s.undecided;
    END IF;
    IF touched IS NULL THEN
        RETURN QUERY SELECT CASE WHEN what = 'reopened' AND undecided_records IS NOT NULL THEN 'open'
                                 WHEN what = 'reopened' OR present.decision_id IS NULL THEN 'back'
                                 WHEN present.action = what THEN 'already' ELSE 'otherwise' END,
                            present.action, present.decided_by, present.decided_at, present.note, present.verification,
                            present.records;
        RETURN;
    END IF;
    INSERT INTO tidegauge.loss_decision
        (decided_at, action, cluster, loss_id, records, ranges, decided_by, verification, from_address, database_role, note)
    VALUES (said, what, found_cluster, of_loss, touched_records, touched, btrim(who), vouched_by,
            coalesce(asked_from, inet_client_addr()), session_user, btrim(why))
    RETURNING loss_decision.decision_id INTO made;
    IF what = 'reopened' THEN
        UPDATE tidegauge.loss_stretch s
        SET undecided = true, decision_id = NULL, decided_state = NULL, decided_back_at = NULL
        WHERE s.loss_id = of_loss AND s.decision_id IS NOT NULL AND s.state <> 'back' AND NOT s.undecided;
    ELSE
        UPDATE tidegauge.loss_stretch s
        SET undecided = false, decision_id = made, decided_state = s.state, decided_back_at = s.back_at
        WHERE s.loss_id = of_loss AND s.undecided;
    END IF;
    RETURN QUERY SELECT CASE WHEN what = 'reopened' THEN 'reopened' ELSE 'decided' END, what, btrim(who), said, btrim(why),
                        vouched_by, touched_records;
END
$$;
REVOKE ALL ON FUNCTION tidegauge.decide_loss(text, text, text, text, numeric, text, inet) FROM PUBLIC;
