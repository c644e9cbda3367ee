"""The store's schema: Postgres, schema `tidegauge`.

    migrations/    Alembic: tables, from an empty schema on; `store.migrate` runs it
    views/         the `v_*` views, made anew by every migration when they have changed: what dashboards may rely on
    roles/         a role that reads the views and nothing else

The rule that must hold: a view shows published runs only, and whoever reads the store reads views.
"""
