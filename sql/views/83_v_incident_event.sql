-- What people said of incidents, the oldest first: split, merged, acknowledged, steps of the checklist done and undone. A trail
-- that nobody rewrites.
CREATE VIEW tidegauge.v_incident_event AS
SELECT event_id, happened_at, action, cluster, incident_id, other_id, members, step, said_by, verification,
       host(from_address) AS from_address, database_role, note
FROM tidegauge.incident_event;
