-- Snapshots that no audit took, since they are dated more than an hour in the future: one row for each cluster that has such,
-- and one more for each time that they came back after somebody had settled it. `snapshot_id`, `place`, `claimed_at_utc` (when
-- it says that it was captured), `believed_at` (what time it was instead, by the clock of who met it) and `met_by` (that
-- audit's run directory, or the command) are those of the last one. `claimed_at_utc` has no zone: the year 9999 in UTC may be
-- 10000 elsewhere, which few programs can read.
CREATE VIEW tidegauge.v_dated_ahead AS
SELECT cluster, opening, snapshot_id, place, claimed_at AT TIME ZONE 'UTC' AS claimed_at_utc, believed_at, met_by, began_at,
       met_at, times_met, settled_at IS NULL AS is_open, settled_at, settled_by, note
FROM tidegauge.dated_ahead;
