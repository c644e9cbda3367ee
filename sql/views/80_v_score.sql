-- How well worlds of known truth were judged: a row for each scoring run and invariant, newest first.
CREATE VIEW tidegauge.v_score AS
SELECT r.cluster, r.run_id, r.scored_at, r.ruleset_version, r.first_seed, r.last_seed, r.first_sound_seed,
       r.last_sound_seed, r.worlds, r.fault_free_worlds, r.scenarios, r.snapshots, r.live_copies, r.fault_free_alarms,
       r.losses, r.losses_exact, r.losses_unseen, s.code, s.name, s.should_catch, s.caught, s.missed, s.false_alarms
FROM tidegauge.score_run r JOIN tidegauge.score s USING (run_id)
ORDER BY r.scored_at DESC, s.code;
