-- The trail of acknowledgements: who acknowledged which breach or took that back, who vouches for the name (`verification` as
-- in v_acknowledgement), from which address, as which role of the store, when. Rows are added and never changed; they stay when
-- the breach is resolved or removed (`found_state` is null then). Null for the address and the role: not known.
CREATE VIEW tidegauge.v_acknowledgement_event AS
SELECT e.event_id, e.happened_at, e.action, e.cluster, e.breach_id, e.said_by, e.verification,
       host(e.from_address) AS from_address, e.database_role, e.acknowledged_until, e.note, b.code, b.name, b.severity,
       b.state AS found_state
FROM tidegauge.acknowledgement_event e
LEFT JOIN tidegauge.breach b ON b.cluster = e.cluster AND b.breach_id = e.breach_id;
