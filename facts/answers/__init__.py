"""What a running cluster answered, and when it was asked."""
