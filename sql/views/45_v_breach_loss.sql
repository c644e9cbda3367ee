-- Breaches whose records were lost since: of each, the losses that its offsets overlap, and how many of their records are
-- lost. Such a breach is not over because an audit no longer finds it.
CREATE VIEW tidegauge.v_breach_loss AS
SELECT b.cluster, b.breach_id, b.state AS breach_state, l.loss_id, l.topic, l.partition, l.leader_epoch,
       sum(s.records) AS records_lost, bool_or(s.undecided) AS undecided, min(s.state_at) AS lost_at
FROM tidegauge.breach b
JOIN tidegauge.loss_ledger l ON l.cluster = b.cluster AND left(l.topic, 249) COLLATE "C" = b.topic_key
    AND l.topic = b.subject ->> 'topic' AND l.partition::text = b.partition_key
JOIN tidegauge.loss_stretch s ON s.loss_id = l.loss_id AND s.state = 'lost'
    AND s.start_offset < b.end_offset AND b.start_offset < s.end_offset
GROUP BY b.cluster, b.breach_id, b.state, l.loss_id, l.topic, l.partition, l.leader_epoch;
