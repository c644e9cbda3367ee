-- Which cluster a name stands for, and the snapshots that were refused: of another cluster, or dated in the future. A
-- refusal is one row for each time that it began and somebody had not settled it.

CREATE TABLE tidegauge.cluster_identity (
    cluster     text NOT NULL,
    cluster_id  text NOT NULL,
    snapshot_id text,                             -- the first that was published of it; null: somebody named it before
    known_at    timestamptz NOT NULL,
    retired_at  timestamptz,                      -- another cluster took the name; what was captured before is its own
    settled_by  text,                             -- who said so, where somebody did
    note        text,
    PRIMARY KEY (cluster, cluster_id)
);
CREATE UNIQUE INDEX cluster_identity_now ON tidegauge.cluster_identity (cluster) WHERE retired_at IS NULL;
CREATE INDEX cluster_identity_names ON tidegauge.cluster_identity (cluster_id);
COMMENT ON TABLE tidegauge.cluster_identity IS 'Which cluster a name stands for, by its cluster.id.';

CREATE TABLE tidegauge.cluster_contradiction (
    cluster          text NOT NULL,
    cluster_id       text NOT NULL,               -- what the refused snapshots say
    opening          integer NOT NULL,
    known_cluster_id text NOT NULL,               -- what the name stood for
    snapshot_id      text NOT NULL,               -- the last one that was refused
    place            text,
    captured_at      timestamptz NOT NULL,
    began_at         timestamptz NOT NULL,
    refused_at       timestamptz NOT NULL,
    refusals         integer NOT NULL,
    settled_at       timestamptz,
    settled_by       text,
    outcome          text CHECK (outcome IN ('rebuilt', 'not_ours')),
    note             text,
    PRIMARY KEY (cluster, cluster_id, opening)
);
COMMENT ON TABLE tidegauge.cluster_contradiction IS 'Snapshots refused for another cluster.id.';

CREATE TABLE tidegauge.dated_ahead (
    cluster     text NOT NULL,
    opening     integer NOT NULL,
    snapshot_id text NOT NULL,                    -- the last one that was met
    place       text,
    claimed_at  timestamptz NOT NULL,             -- when it says that it was captured
    believed_at timestamptz NOT NULL,             -- what time it was instead, by the clock of who met it
    met_by      text NOT NULL,                    -- the run directory of the audit, or the command
    began_at    timestamptz NOT NULL,
    met_at      timestamptz NOT NULL,
    times_met   integer NOT NULL,
    settled_at  timestamptz,
    settled_by  text,
    note        text,
    PRIMARY KEY (cluster, opening)
);
COMMENT ON TABLE tidegauge.dated_ahead IS 'Snapshots refused for a date in the future.';
