-- What was found before there were incidents: each open root breach, with what follows from it, and each undecided loss is one
-- of its own, until an audit that sees it puts it where it belongs.

INSERT INTO tidegauge.incident
SELECT 'incident-' || left(encode(sha256(convert_to(b.cluster || E'\n' || b.breach_id, 'UTF8')), 'hex'), 10), b.cluster,
       'records', b.points_to, jsonb_build_object('breach_id', b.breach_id), b.severity, b.code || ' ' || b.name,
       'Do not delete snapshots before an audit has put together what belongs to it.', NULL, NULL, '{}',
       coalesce(b.believe, '{}'), NULL, '[]', o.captured_at, l.captured_at, 1, NULL, NULL
FROM tidegauge.breach b
JOIN tidegauge.audit_run o ON o.run_id = b.opened_run JOIN tidegauge.audit_run l ON l.run_id = b.last_seen_run
WHERE b.state <> 'resolved' AND b.implied_by IS NULL AND NOT EXISTS (
    SELECT FROM tidegauge.incident_member m WHERE (m.cluster, m.kind, m.member) = (b.cluster, 'breach', b.breach_id));

INSERT INTO tidegauge.incident_member
SELECT b.cluster, 'breach', b.breach_id, i.incident_id, b.subject ->> 'topic',
       CASE WHEN jsonb_typeof(b.subject -> 'partition') = 'number'
            THEN ARRAY[(b.subject ->> 'partition')::integer] ELSE '{}' END,
       'alone', 'it was found before there were incidents'
FROM tidegauge.breach b
JOIN tidegauge.incident i ON i.cluster = b.cluster AND i.anchor ->> 'breach_id' = coalesce(b.implied_by, b.breach_id)
WHERE b.state <> 'resolved'
ON CONFLICT DO NOTHING;

INSERT INTO tidegauge.incident
SELECT 'incident-' || left(encode(sha256(convert_to(l.cluster || E'\n' || l.loss_id, 'UTF8')), 'hex'), 10), l.cluster,
       'records', NULL, jsonb_build_object('loss_id', l.loss_id), 'critical', 'Records cut off',
       'Do not delete snapshots before an audit has put together what belongs to it.', NULL, NULL, '{}', '{}', NULL, '[]',
       min(s.first_told_at), max(s.last_told_at), 1, NULL, NULL
FROM tidegauge.loss_ledger l JOIN tidegauge.loss_stretch s ON s.loss_id = l.loss_id AND s.undecided
WHERE NOT EXISTS (
    SELECT FROM tidegauge.incident_member m WHERE (m.cluster, m.kind, m.member) = (l.cluster, 'loss', l.loss_id))
GROUP BY l.cluster, l.loss_id;

INSERT INTO tidegauge.incident_member
SELECT l.cluster, 'loss', l.loss_id, i.incident_id, l.topic, ARRAY[l.partition], 'alone',
       'it was found before there were incidents'
FROM tidegauge.loss_ledger l JOIN tidegauge.incident i ON i.cluster = l.cluster AND i.anchor ->> 'loss_id' = l.loss_id
ON CONFLICT DO NOTHING;
