-- The alerts' book: what was told to whom, and the risks that somebody may be told of.

CREATE TABLE tidegauge.alert_told (
    channel text NOT NULL,
    cluster text NOT NULL,
    name    text NOT NULL,
    opening text NOT NULL,
    word    text NOT NULL CHECK (word IN ('firing', 'resolved')),
    told_at timestamptz NOT NULL,
    PRIMARY KEY (channel, cluster, name, opening, word)
);
COMMENT ON TABLE tidegauge.alert_told IS 'What each channel was told of each alert.';

CREATE TABLE tidegauge.alert_risk (
    cluster  text NOT NULL,
    name     text NOT NULL,
    opening  integer NOT NULL,                    -- one row for each time that the risk began
    failures text NOT NULL,
    subject  jsonb NOT NULL,
    began_at timestamptz NOT NULL,
    ended_at timestamptz,
    PRIMARY KEY (cluster, name, opening)
);
COMMENT ON TABLE tidegauge.alert_risk IS 'Risks as `tidegauge alerts send` met them: new, and over.';
