"""Who is told of what: breaches and stale clusters in the store in, messages out, each once."""
