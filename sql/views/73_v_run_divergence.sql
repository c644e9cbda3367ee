-- Where each follower's log leaves its leader's, as each published run saw it. `only_end_differs`: nothing cuts it off, it
-- is only longer, and was read later: D05 and D06 do not know whether it diverged.
CREATE VIEW tidegauge.v_run_divergence AS
SELECT f.cluster, f.snapshot_id, r.captured_at, f.run_id, f.topic, f.partition, f.leader_id, f.follower_id,
       f.divergence_offset, f.first_differing_offset, f.follower_log_end_offset, f.records_at_stake, f.comparable,
       f.incomparable_reason, f.compared_from_offset, f.compared_to_end_offset, f.declared_committed,
       f.unclean_election_offset,
       f.newer_epoch IS NULL AND f.first_differing_offset IS NULL AND NOT f.snapshot_quiet
       AND coalesce(f.follower_copied_after_leader, true) AS only_end_differs,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.divergences f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
