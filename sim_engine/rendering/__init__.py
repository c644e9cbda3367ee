"""Worlds as log directories and snapshots."""
