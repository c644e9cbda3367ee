"""Alembic's environment (`env`), the views (`views`) and the revisions (`versions`)."""
