-- How well worlds of known truth were judged: a scoring run, and a row an invariant.

CREATE TABLE tidegauge.score_run (
    run_id            text PRIMARY KEY,
    cluster           text NOT NULL,              -- whose worlds: 'simulated'
    ruleset_version   text NOT NULL,
    scored_at         timestamptz NOT NULL,
    first_seed        bigint,                     -- worlds with faults; null: none
    last_seed         bigint,
    first_sound_seed  bigint,                     -- worlds without; null: none
    last_sound_seed   bigint,
    worlds            integer NOT NULL,
    fault_free_worlds integer NOT NULL,
    scenarios         integer NOT NULL,
    snapshots         integer NOT NULL,
    live_copies       integer NOT NULL,
    fault_free_alarms integer NOT NULL,           -- breaches above info in worlds without faults
    losses            integer NOT NULL,
    losses_exact      integer NOT NULL,           -- told to the offset
    losses_unseen     integer NOT NULL,           -- that leave no trace in the files
    failures          jsonb NOT NULL              -- what was missed or false, each with the command that shows it
);

CREATE TABLE tidegauge.score (
    run_id       text NOT NULL REFERENCES tidegauge.score_run ON DELETE CASCADE,
    code         text NOT NULL,
    name         text NOT NULL,
    should_catch integer NOT NULL,
    caught       integer NOT NULL,
    missed       integer NOT NULL,
    false_alarms integer NOT NULL,
    PRIMARY KEY (run_id, code)
);
