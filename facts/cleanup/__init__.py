"""What retention, the cleaner and the remote tier do to a log."""
