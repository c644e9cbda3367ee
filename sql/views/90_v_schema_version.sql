-- Which tables and views this store has: the revision of its migrations, and the digest of its views' text. One row, of no cluster.
CREATE VIEW tidegauge.v_schema_version AS
SELECT NULL::text AS cluster, a.version_num AS revision, v.digest AS views FROM tidegauge.alembic_version a, tidegauge.view_version v;
