-- The relation of `relations/answers.py`: a cluster's own answers beside what its files say.

CREATE TABLE tidegauge.cluster_answers (
    run_id               text NOT NULL,
    cluster              text NOT NULL,
    snapshot_id          text NOT NULL,
    kind                 text,
    name                 text,
    broker_id            integer,
    topic                text,
    partition            integer,
    "group"              text,
    transactional_id     text,
    producer_id          bigint,
    asked_before_at_ms   bigint,
    asked_after_at_ms    bigint,
    answered_before      bigint,
    answered_after       bigint,
    recomputed_lowest    bigint,
    recomputed_highest   bigint,
    answered_before_text text,
    answered_after_text  text,
    recomputed_values    text[],
    comparable           boolean,
    incomparable_reason  text,
    error                text
);
CREATE INDEX cluster_answers_of_run ON tidegauge.cluster_answers (run_id);
