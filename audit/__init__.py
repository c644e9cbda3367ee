"""The steps of an audit, from snapshots to a published verdict: the one place that knows every other room."""
