-- The relations of `relations/metadata.py`: each node's copy of the metadata log, snapshots of it, and what it says.

CREATE TABLE tidegauge.metadata_logs (
    run_id                   text NOT NULL,
    cluster                  text NOT NULL,
    snapshot_id              text NOT NULL,
    topic                    text,
    partition                integer,
    broker_id                integer,
    replayed                 boolean,
    log_start_offset         bigint,
    log_end_offset           bigint,
    first_leader_epoch       integer,
    last_leader_epoch        integer,
    epoch_order_errors       integer,
    epoch_order_offset       bigint,
    unannounced_epochs       integer,
    unannounced_offset       bigint,
    damaged                  boolean,
    quorum_state_present     boolean,
    quorum_leader_epoch      integer,
    quorum_leader_id         integer,
    voted_id                 integer,
    elected_leader_id        integer,
    vote_granted             boolean,
    transactions             integer,
    transaction_errors       integer,
    transaction_error_offset bigint,
    transaction_error        text,
    open_transaction_offset  bigint,
    broker_quiet             boolean,
    snapshot_quiet           boolean,
    path                     text
);
CREATE INDEX metadata_logs_of_run ON tidegauge.metadata_logs (run_id);

CREATE TABLE tidegauge.metadata_snapshots (
    run_id               text NOT NULL,
    cluster              text NOT NULL,
    snapshot_id          text NOT NULL,
    topic                text,
    partition            integer,
    broker_id            integer,
    path                 text,
    end_offset           bigint,
    leader_epoch         integer,
    newest               boolean,
    whole                boolean,
    entries              integer,
    comparable           boolean,
    incomparable_reason  text,
    differing_entries    integer,
    differing_epochs     integer,
    differing_principals integer,
    differences          jsonb,
    after_damage         boolean
);
CREATE INDEX metadata_snapshots_of_run ON tidegauge.metadata_snapshots (run_id);

CREATE TABLE tidegauge.metadata_entries (
    run_id          text NOT NULL,
    cluster         text NOT NULL,
    snapshot_id     text NOT NULL,
    topic           text,
    partition       integer,
    kind            text,
    name            text,
    value           jsonb,
    metadata_offset bigint,
    at_ms           bigint,
    nodes_otherwise integer[],
    after_damage    boolean,
    node_id         integer,
    path            text,
    paths_otherwise text[]
) PARTITION BY RANGE (run_id);
CREATE TABLE tidegauge.metadata_entries_default PARTITION OF tidegauge.metadata_entries DEFAULT;
CREATE INDEX metadata_entries_of_run ON tidegauge.metadata_entries (run_id);

CREATE TABLE tidegauge.broker_registrations (
    run_id                text NOT NULL,
    cluster               text NOT NULL,
    snapshot_id           text NOT NULL,
    topic                 text,
    partition             integer,
    broker_id             integer,
    metadata_offset       bigint,
    batch_offset          bigint,
    from_snapshot         boolean,
    at_ms                 bigint,
    broker_epoch          bigint,
    previous_broker_epoch bigint,
    same_incarnation      boolean,
    metadata_version      integer,
    release               text,
    stale_records         integer,
    stale_record_offset   bigint,
    after_damage          boolean,
    node_id               integer,
    path                  text
);
CREATE INDEX broker_registrations_of_run ON tidegauge.broker_registrations (run_id);

CREATE TABLE tidegauge.fencing_epochs (
    run_id       text NOT NULL,
    cluster      text NOT NULL,
    snapshot_id  text NOT NULL,
    epoch        text,
    topic        text,
    partition    integer,
    broker_id    integer,
    name         text,
    regressions  bigint,
    first_offset bigint,
    epoch_before bigint,
    epoch_after  bigint,
    node_id      integer,
    path         text
);
CREATE INDEX fencing_epochs_of_run ON tidegauge.fencing_epochs (run_id);
