-- Runs of the audit and what each of them found.

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
    coverage             jsonb,                   -- brokers, replicas, segments, batches, bytes; what was left unread
    missing_brokers      integer[],               -- known to the cluster, not in the snapshot: none of their breaches
                                                  -- can be resolved
    undecided            text[],                  -- breaches known before that this run could not judge; null: not told
    content_digest       text,                    -- of facts and findings: does a second audit say anything new?
    place                text,                    -- where the snapshot lies
    cluster_id           text                     -- cluster.id of the snapshot's brokers; null: none, or several
);
CREATE UNIQUE INDEX audit_run_published_key ON tidegauge.audit_run (cluster, snapshot_id, ruleset_version)
    WHERE status = 'published';
CREATE INDEX audit_run_of_cluster ON tidegauge.audit_run (cluster, captured_at DESC, snapshot_id DESC);
CREATE INDEX audit_run_by_capture ON tidegauge.audit_run (captured_at DESC, run_id DESC) WHERE status = 'published';

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
    run_id        text NOT NULL,
    breach_id     text NOT NULL,
    code          text NOT NULL,
    name          text NOT NULL,
    severity      text NOT NULL CHECK (severity IN ('critical', 'warning', 'info')),
    subject       jsonb NOT NULL,                 -- topic, partition, broker_id, ... as they apply
    start_offset  bigint,
    end_offset    bigint,
    records       bigint,
    explanation   text NOT NULL,
    evidence      jsonb NOT NULL,
    implied_by    text,                           -- breach of the same run from which this one follows
    next          text,
    points_to     text,                           -- the likely cause
    believe       integer[],                      -- brokers whose replicas are to be believed
    diagnosis     text,
    severity_rank smallint GENERATED ALWAYS AS
        (CASE severity WHEN 'critical' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END) STORED,
    PRIMARY KEY (run_id, breach_id),
    -- Stores of development versions have it under this name, too.
    CONSTRAINT finding_run_id_fkey1 FOREIGN KEY (run_id) REFERENCES tidegauge.audit_run ON DELETE CASCADE
) PARTITION BY RANGE (run_id);
CREATE TABLE tidegauge.finding_default PARTITION OF tidegauge.finding DEFAULT;
CREATE INDEX finding_of_breach ON tidegauge.finding (breach_id);
CREATE INDEX finding_worst_first ON tidegauge.finding (run_id, severity_rank, code, breach_id);

CREATE TABLE tidegauge.loss (
    run_id             text NOT NULL REFERENCES tidegauge.audit_run ON DELETE CASCADE,
    topic              text NOT NULL,
    partition          integer NOT NULL,
    start_offset       bigint NOT NULL,
    end_offset         bigint NOT NULL,
    records            bigint NOT NULL,
    leader_epoch       integer,
    held_by            integer[] NOT NULL,        -- brokers on whose disks they still are
    state              text NOT NULL CHECK (state IN ('at_risk', 'lost', 'possible')),
    declared_committed bigint,
    cause              text,
    groups_affected    text[] NOT NULL,
    markers            bigint
);
CREATE INDEX loss_of_partition ON tidegauge.loss (run_id, (left(topic, 249) COLLATE "C"), partition);
