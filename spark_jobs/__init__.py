"""From a snapshot to facts, to verdicts, to the store: pure folds in `facts/`, thin Spark and Postgres shells around them."""
