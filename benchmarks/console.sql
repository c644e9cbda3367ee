-- A store of many runs, clusters, breaches and incidents. Read by console.py, which binds the numbers.

INSERT INTO tidegauge.audit_run (run_id, cluster, snapshot_id, ruleset_version, consistency, source, captured_at, started_at,
                                 finished_at, published_at, status, coverage)
SELECT format('r%%s-%%s', c, d), 'c' || c, 's' || d, '1', 'fuzzy', 'captured', t, t, t, t, 'published',
       '{"brokers": 9, "replicas": 300000, "segments": 3000000, "batches": 900000000, "bytes": 90000000000000, "unread": []}'
FROM generate_series(0, %(clusters)s - 1) c, generate_series(1, %(runs)s) d,
     LATERAL (SELECT now() - (%(runs)s - d) * interval '1 day' AS t) AS at;

INSERT INTO tidegauge.invariant_result
SELECT run_id, format('X%%s', i), 'Name' || i, 'critical', CASE i %% 3 WHEN 0 THEN 'breached' WHEN 1 THEN 'unknown' ELSE 'holds' END,
       100000, i %% 3, i %% 2, '{"copy skew": 3}'
FROM tidegauge.audit_run, generate_series(1, 140) i;

INSERT INTO tidegauge.breach (cluster, breach_id, state, first_seen_run, opened_run, last_seen_run, resolved_run, times_opened,
                              code, name, severity, subject, start_offset, end_offset, records, explanation, evidence,
                              implied_by, next)
SELECT cluster, format('D06-%%s', lpad(to_hex(n), 8, '0')), state, run, run, format('r%%s-%%s', c, %(runs)s),
       CASE state WHEN 'resolved' THEN format('r%%s-%%s', c, %(runs)s) END, 1, code, 'NoCommittedTruncation',
       (ARRAY['critical', 'warning', 'info'])[1 + n %% 3], jsonb_build_object('topic', 'topic-' || n %% %(topics)s,
       'partition', n / %(topics)s %% 100, 'follower_id', n %% 9), n, n + 700, 700,
       repeat('Broker 1 holds offsets 800..1499 under leader epoch 0. ', 8), '{"high_watermark": 872, "isr": [1]}',
       CASE WHEN n %% 4 = 3 THEN format('D06-%%s', lpad(to_hex(n - 3), 8, '0')) END, 'tidegauge salvage'
FROM generate_series(0, %(breaches)s - 1) n,
     LATERAL (SELECT CASE WHEN n %% 2 = 0 THEN 0 ELSE 1 + n / 2 %% (%(clusters)s - 1) END AS c) AS chosen,
     LATERAL (SELECT 'c' || c AS cluster, format('r%%s-%%s', c, 1 + n %% %(runs)s) AS run,
                     CASE n / 7 %% 3 WHEN 0 THEN 'resolved' WHEN 1 THEN 'still_open' ELSE 'open' END AS state,
                     format('D%%s', lpad((1 + n %% 20)::text, 2, '0')) AS code) AS derived;

INSERT INTO tidegauge.finding (run_id, breach_id, code, name, severity, subject, start_offset, end_offset, records, explanation,
                               evidence, implied_by, next)
SELECT last_seen_run, breach_id, code, name, severity, subject, start_offset, end_offset, records, explanation, evidence,
       implied_by, next
FROM tidegauge.breach WHERE state <> 'resolved';

INSERT INTO tidegauge.brokers (run_id, cluster, snapshot_id, broker_id, captured, registered)
SELECT run_id, cluster, snapshot_id, b, true, true FROM tidegauge.audit_run, generate_series(1, 9) b
WHERE snapshot_id = 's' || %(runs)s;

CREATE TEMP TABLE place AS
SELECT 'r0-' || %(runs)s AS run_id, 'c0' AS cluster, 's' || %(runs)s AS snapshot_id, 'topic-' || t AS topic, p AS partition
FROM generate_series(0, %(topics)s - 1) t, generate_series(0, %(partitions)s / %(topics)s - 1) p;
INSERT INTO tidegauge.partitions (run_id, cluster, snapshot_id, topic, partition, leader_id, leader_epoch, replicas, isr,
                                  log_start_offset, log_end_offset, high_watermark_lower, min_insync_replicas)
SELECT run_id, cluster, snapshot_id, topic, partition, 1, 3, '{1,2,3}', '{1,2,3}', 0, 100000, 99000, 2 FROM place;
INSERT INTO tidegauge.replicas (run_id, cluster, snapshot_id, broker_id, topic, partition, log_start_offset, log_end_offset,
                                high_watermark, last_stable_offset, is_leader, is_future, in_isr, size_bytes)
SELECT run_id, cluster, snapshot_id, b, topic, partition, 0, 100000, 99000, 99000, b = 1, false, true, 1000000
FROM place, generate_series(1, %(replicas)s) b;
INSERT INTO tidegauge.epoch_spans (run_id, cluster, snapshot_id, broker_id, topic, partition, leader_epoch, start_offset, end_offset)
SELECT run_id, cluster, snapshot_id, b, topic, partition, e, e * 50000, (e + 1) * 50000
FROM place, generate_series(1, %(replicas)s) b, generate_series(0, %(epochs)s - 1) e;
INSERT INTO tidegauge.divergences (run_id, cluster, snapshot_id, topic, partition, leader_id, follower_id, divergence_offset,
                                   follower_log_end_offset, records_at_stake)
SELECT run_id, cluster, snapshot_id, topic, partition, 1, b, 99000, 100000, 0 FROM place, generate_series(2, %(replicas)s) b;
INSERT INTO tidegauge.partition_changes (run_id, cluster, snapshot_id, topic, partition, metadata_offset, at_ms, leader_id,
                                         leader_epoch, replicas, isr, election)
SELECT run_id, cluster, snapshot_id, topic, partition, e * 100, 1795227055443 + e * 60000, 1, e, '{1,2,3}', '{1,2,3}', 'clean'
FROM place, generate_series(0, 2) e;
INSERT INTO tidegauge.transactions (run_id, cluster, snapshot_id, topic, partition, broker_id, producer_id, producer_epoch,
                                    first_offset, last_offset, outcome, marker_offset, hanging, first_timestamp_ms)
SELECT run_id, cluster, snapshot_id, topic, partition, 1, 7, 0, x * 1000, x * 1000 + 9,
       CASE WHEN x = 9 AND partition = 0 THEN 'open' ELSE 'committed' END, x * 1000 + 10, false, 1795227055443
FROM place, generate_series(0, 9) x;
INSERT INTO tidegauge.committed_offsets (run_id, cluster, snapshot_id, "group", topic, partition, committed_offset)
SELECT run_id, cluster, snapshot_id, 'g' || g, topic, partition, 500 FROM place, generate_series(1, 2) g;
INSERT INTO tidegauge.postures (run_id, cluster, snapshot_id, topic, partition_count, replication_factor, min_insync_replicas)
SELECT run_id, cluster, snapshot_id, topic, count(*), %(replicas)s, 2 FROM place GROUP BY run_id, cluster, snapshot_id, topic;
INSERT INTO tidegauge.risks (run_id, cluster, snapshot_id, topic, failure, brokers, racks, partition_count, losing, unavailable,
                             unclean, refusing, records_at_risk, records_at_risk_known)
SELECT run_id, cluster, snapshot_id, topic, CASE WHEN a = b THEN 'broker' ELSE 'brokers' END,
       CASE WHEN a = b THEN ARRAY[a] ELSE ARRAY[a, b] END, '{}', partition_count, (a <> b)::integer, 0, 0, 1, 700, true
FROM tidegauge.postures, generate_series(1, 9) a, generate_series(a, 9) b;
INSERT INTO tidegauge.loss (run_id, topic, partition, start_offset, end_offset, records, held_by, state, groups_affected)
SELECT run_id, topic, partition, 99000, 100000, 1000, '{2}', 'at_risk', '{}' FROM place WHERE partition %% 10 = 0;
INSERT INTO tidegauge.acknowledgement (cluster, breach_id, acknowledged_at, acknowledged_by, acknowledged_until, opened_at)
SELECT cluster, breach_id, now(), 'ada', now() + interval '1 day', now()
FROM tidegauge.breach WHERE state <> 'resolved' ORDER BY breach_id LIMIT 1000;

INSERT INTO tidegauge.finding_count
SELECT run_id, severity, count(*) FILTER (WHERE implied_by IS NULL), count(*) FROM tidegauge.finding GROUP BY run_id, severity;

-- Each breach is of the incident of its number; each incident has a loss that nobody has decided. An incident's breaches are of
-- one cluster, as those of one half are: half of the incidents are of the large cluster.
INSERT INTO tidegauge.incident
SELECT 'incident-' || lpad(to_hex(i), 10, '0'), cluster, 'election', 'unclean_loss', jsonb_build_object('number', i), 'critical',
       'Unclean election 2026-11-21 02:12:01 UTC, broker 1 -> 2', 'Keep broker 1 down.', now(), now(), '{1, 2}', '{1}', NULL,
       '[]', now() - interval '1 day', now(), 1, NULL, NULL
FROM generate_series(0, %(incidents)s - 1) i,
     LATERAL (SELECT 'c' || CASE WHEN i %% 2 = 0 THEN 0 ELSE 1 + i / 2 %% (%(clusters)s - 1) END AS cluster) AS chosen;
INSERT INTO tidegauge.incident_member
SELECT b.cluster, 'breach', b.breach_id, 'incident-' || lpad(to_hex(i), 10, '0'), b.subject ->> 'topic',
       ARRAY[(b.subject ->> 'partition')::integer], 'election', 'the election of 02:12:01 made it'
FROM tidegauge.breach b,
     LATERAL (SELECT ('x' || right(b.breach_id, 8))::bit(32)::integer AS n) AS numbered,
     LATERAL (SELECT CASE WHEN n %% 2 = 0 THEN n %% %(incidents)s
                     ELSE 1 + 2 * (n / 2 %% others + others * (n / 2 / others %% (%(incidents)s / 2 / others))) END AS i
              FROM (SELECT %(clusters)s - 1 AS others) AS sizes) AS placed
WHERE b.state <> 'resolved';
INSERT INTO tidegauge.loss_ledger
SELECT 'loss-' || lpad(to_hex(i), 10, '0'), cluster, 'topic-' || i %% %(topics)s, NULL, i / %(topics)s %% 100, i, 'captured'
FROM generate_series(0, %(incidents)s - 1) i, tidegauge.incident WHERE incident_id = 'incident-' || lpad(to_hex(i), 10, '0');
INSERT INTO tidegauge.loss_stretch
SELECT loss_id, 800, 1500, 700, 700, 'at_risk', now(), now(), now(), true, '{1}', 'unclean election', '{billing,audit}', '[]'
FROM tidegauge.loss_ledger;
INSERT INTO tidegauge.incident_member
SELECT cluster, 'loss', loss_id, 'incident-' || right(loss_id, 10), topic, ARRAY[partition], 'election', 'it cut this off'
FROM tidegauge.loss_ledger;
