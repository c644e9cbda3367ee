-- Where each follower's log leaves its leader's, as each published run saw it.
CREATE VIEW tidegauge.v_run_divergence AS
SELECT f.cluster, f.snapshot_id, r.captured_at, f.run_id, f.topic, f.partition, f.leader_id, f.follower_id,
       f.divergence_offset, f.first_differing_offset, f.follower_log_end_offset, f.records_at_stake, f.comparable,
       f.incomparable_reason, f.compared_from_offset, f.compared_to_end_offset, f.declared_committed,
       f.unclean_election_offset,
       left(f.topic, 249) COLLATE "C" AS topic_key
FROM tidegauge.divergences f
JOIN tidegauge.audit_run r ON r.run_id = f.run_id AND r.status = 'published';
