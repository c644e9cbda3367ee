-- The relations of `relations/posture.py`: how topics are set up to bear failures, and what a failure would cost them.

CREATE TABLE tidegauge.postures (
    run_id                         text NOT NULL,
    cluster                        text NOT NULL,
    snapshot_id                    text NOT NULL,
    topic                          text,
    topic_id                       text,
    partition_count                integer,
    replication_factor             integer,
    min_insync_replicas            integer,
    min_insync_replicas_source     text,
    unclean_leader_election_enable boolean,
    unclean_leader_election_source text,
    acknowledged_copies            integer,
    refusal_after                  integer,
    loss_after                     integer,
    eligible_leader_replicas       boolean,
    smallest_isr                   integer,
    partitions_below_minimum       integer,
    rack_count                     integer,
    one_rack_partitions            integer,
    cluster_stopped                boolean
);
CREATE INDEX postures_of_run ON tidegauge.postures (run_id);

CREATE TABLE tidegauge.risks (
    run_id                 text NOT NULL,
    cluster                text NOT NULL,
    snapshot_id            text NOT NULL,
    topic                  text,
    failure                text,
    brokers                integer[],
    racks                  text[],
    partition_count        integer,
    losing                 integer,
    unavailable            integer,
    unclean                integer,
    refusing               integer,
    records_at_risk        bigint,
    records_at_risk_known  boolean,
    losing_partitions      integer[],
    unavailable_partitions integer[],
    unclean_partitions     integer[],
    refusing_partitions    integer[]
);
CREATE INDEX risks_of_run ON tidegauge.risks (run_id);
-- In the order in which pages show them.
CREATE INDEX risks_by_cost ON tidegauge.risks (
    run_id,
    ((CASE WHEN failure = 'now' THEN 'now'
           WHEN cardinality(brokers) < 2 OR failure = 'rack' THEN 'single' ELSE 'double' END) = 'double'),
    (failure <> 'now'), losing DESC, unavailable DESC, refusing DESC, unclean DESC, (left(topic, 249) COLLATE "C"));

CREATE TABLE tidegauge.broker_changes (
    run_id                 text NOT NULL,
    cluster                text NOT NULL,
    snapshot_id            text NOT NULL,
    broker_id              integer,
    metadata_offset        bigint,
    sequence_in_log        integer,
    from_snapshot          boolean,
    at_ms                  bigint,
    change                 text,
    broker_epoch           bigint,
    incarnation_id         text,
    rack                   text,
    fenced                 boolean,
    in_controlled_shutdown boolean
);
CREATE INDEX broker_changes_of_run ON tidegauge.broker_changes (run_id);
