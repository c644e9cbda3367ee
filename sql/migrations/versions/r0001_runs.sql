-- Runs, what they found, and the life of a breach.

CREATE TABLE tidegauge.audit_run (
    run_id               text PRIMARY KEY,
    cluster              text NOT NULL,
    snapshot_id          text NOT NULL,
    ruleset_version      text NOT NULL,
    previous_snapshot_id text,                    -- the earlier snapshot that this one was compared with
    consistency          text NOT NULL CHECK (consistency IN ('quiesced', 'atomic', 'fuzzy')),
    source               text NOT NULL,           -- captured, simulated
    captured_at          timestamptz NOT NULL,    -- orders a cluster's snapshots, whenever they are audited
    started_at           timestamptz NOT NULL,
    finished_at          timestamptz,
    published_at         timestamptz,
    status               text NOT NULL CHECK (status IN ('staging', 'published', 'failed')),
    coverage             jsonb,                   -- brokers, replicas, segments, batches, bytes, and what was left unread
    missing_brokers      integer[],               -- known to the cluster, not in the snapshot: nothing about them can be resolved
    undecided            text[],                  -- breaches known before that this run could not judge; null: not told
    content_digest       text                     -- of facts and findings: tells whether a second audit says anything new
);
CREATE UNIQUE INDEX audit_run_published_key ON tidegauge.audit_run (cluster, snapshot_id, ruleset_version)
    WHERE status = 'published';
CREATE INDEX audit_run_of_cluster ON tidegauge.audit_run (cluster, captured_at DESC, snapshot_id DESC);

CREATE TABLE tidegauge.staged_part (
    run_id   text NOT NULL REFERENCES tidegauge.audit_run ON DELETE CASCADE,
    relation text NOT NULL,
    part     text NOT NULL,
    rows     bigint NOT NULL,
    PRIMARY KEY (run_id, relation, part)          -- a retried task finds its part staged
);

CREATE TABLE tidegauge.invariant_result (
    run_id   text NOT NULL REFERENCES tidegauge.audit_run ON DELETE CASCADE,
    code     text NOT NULL,
    name     text NOT NULL,
    severity text NOT NULL CHECK (severity IN ('critical', 'warning', 'info')),
    verdict  text NOT NULL CHECK (verdict IN ('holds', 'breached', 'unknown')),
    checked  bigint NOT NULL,
    breached bigint NOT NULL,
    unknown  bigint NOT NULL,
    reasons  jsonb NOT NULL,                      -- why unknown: {reason: count}
    PRIMARY KEY (run_id, code)
);

CREATE TABLE tidegauge.finding (                  -- the breaches of one run
    run_id       text NOT NULL REFERENCES tidegauge.audit_run ON DELETE CASCADE,
    breach_id    text NOT NULL,
    code         text NOT NULL,
    name         text NOT NULL,
    severity     text NOT NULL CHECK (severity IN ('critical', 'warning', 'info')),
    subject      jsonb NOT NULL,                  -- topic, partition, broker_id, ... as they apply
    start_offset bigint,
    end_offset   bigint,
    records      bigint,
    explanation  text NOT NULL,
    evidence     jsonb NOT NULL,
    implied_by   text,                            -- breach of the same run from which this one follows
    next         text,
    PRIMARY KEY (run_id, breach_id)
);
CREATE INDEX finding_of_breach ON tidegauge.finding (breach_id);

CREATE TABLE tidegauge.breach (                   -- the life of a breach: worked out from the findings of all published runs
    cluster        text NOT NULL,
    breach_id      text NOT NULL,
    state          text NOT NULL CHECK (state IN ('open', 'still_open', 'resolved')),
    first_seen_run text NOT NULL,                 -- the first run that ever saw it
    opened_run     text NOT NULL,                 -- the run that saw it first since it was last resolved
    last_seen_run  text NOT NULL,
    resolved_run   text,                          -- the first run after that which judged its subject and did not see it
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
    PRIMARY KEY (cluster, breach_id)
);
CREATE INDEX breach_by_state ON tidegauge.breach (cluster, state);

CREATE TABLE tidegauge.loss (
    run_id             text NOT NULL REFERENCES tidegauge.audit_run ON DELETE CASCADE,
    topic              text NOT NULL,
    partition          integer NOT NULL,
    start_offset       bigint NOT NULL,
    end_offset         bigint NOT NULL,
    records            bigint NOT NULL,
    leader_epoch       integer,
    held_by            integer[] NOT NULL,        -- brokers on whose disks they still are
    state              text NOT NULL CHECK (state IN ('at_risk', 'lost')),
    declared_committed bigint,
    cause              text,
    groups_affected    text[] NOT NULL
);
CREATE INDEX loss_of_run ON tidegauge.loss (run_id);

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
