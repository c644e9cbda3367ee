"""A node's directories as files: logs, leftovers, checkpoints."""
