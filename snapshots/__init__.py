"""Snapshots: copies of brokers' log directories, what is in them, and whether they are still what was copied."""
