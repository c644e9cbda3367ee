"""One stretch of a log: its batches folded into a summary that is small and can be merged."""
