"""Worlds as snapshots."""
