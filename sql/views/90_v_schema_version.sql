-- Which tables and views this store has: the revision of its migrations, and the digest of its views' text. One row, of no cluster.
-- `readers`: revisions whose versions may read it, be they older than its own.
CREATE VIEW tidegauge.v_schema_version AS
SELECT NULL::text AS cluster, a.version_num AS revision, v.digest AS views,
       (SELECT array_agg(r.revision ORDER BY r.revision) FROM tidegauge.readable_by r) AS readers
FROM tidegauge.alembic_version a, tidegauge.view_version v;
