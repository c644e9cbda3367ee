-- Every loss of each cluster, over all runs, until a person has decided it or the same records are proven to be back. A loss
-- is what was cut off a partition under one leader epoch. `state`: the worst of what is undecided (lost, at_risk,
-- possible); else the newest decision (accepted, salvaged, produced_again); else back. `records`: those undecided.
CREATE VIEW tidegauge.v_loss_ledger AS
SELECT s.cluster, s.loss_id, s.topic, s.topic_id, s.partition, s.leader_epoch, s.source,
       CASE WHEN bool_or(s.undecided) THEN
                CASE max(s.rank) FILTER (WHERE s.undecided) WHEN 3 THEN 'lost' WHEN 2 THEN 'at_risk' ELSE 'possible' END
            WHEN bool_or(s.state <> 'back') THEN
                (array_agg(s.decision ORDER BY s.decided_at DESC NULLS LAST) FILTER (WHERE s.state <> 'back'))[1]
            ELSE 'back' END AS state,
       bool_or(s.undecided) AS undecided,
       coalesce(sum(s.records) FILTER (WHERE s.undecided), 0) AS records,
       coalesce(sum(s.records) FILTER (WHERE s.undecided AND s.state = 'lost'), 0) AS records_lost,
       coalesce(sum(s.records) FILTER (WHERE s.undecided AND s.state = 'at_risk'), 0) AS records_at_risk,
       coalesce(sum(s.records) FILTER (WHERE s.undecided AND s.state = 'possible'), 0) AS records_possible,
       coalesce(sum(s.records) FILTER (WHERE NOT s.undecided AND s.state <> 'back'), 0) AS records_decided,
       coalesce(sum(s.records) FILTER (WHERE s.state = 'back'), 0) AS records_back,
       sum(s.declared_committed) AS declared_committed,
       min(s.start_offset) AS start_offset, max(s.end_offset) AS end_offset,
       min(s.first_told_at) AS first_told_at, max(s.last_told_at) AS last_told_at,
       coalesce(min(s.state_at) FILTER (WHERE s.undecided AND s.state = 'lost'),
                min(s.state_at) FILTER (WHERE s.undecided), min(s.first_told_at)) AS since,
       ARRAY(SELECT DISTINCT h FROM tidegauge.loss_stretch o, unnest(o.held_by) AS h
             WHERE o.loss_id = s.loss_id AND o.state NOT IN ('lost', 'back') ORDER BY 1) AS held_by,
       (array_agg(s.cause ORDER BY s.rank DESC, s.last_told_at DESC, s.start_offset))[1] AS cause,
       ARRAY(SELECT DISTINCT g FROM tidegauge.loss_stretch o, unnest(o.groups_affected) AS g
             WHERE o.loss_id = s.loss_id ORDER BY 1) AS groups_affected,
       max(s.decided_at) AS decided_at,
       (array_agg(s.decided_by ORDER BY s.decided_at DESC NULLS LAST))[1] AS decided_by,
       s.topic_key
FROM tidegauge.v_loss_stretch s
GROUP BY s.cluster, s.loss_id, s.topic, s.topic_id, s.partition, s.leader_epoch, s.source, s.topic_key;
