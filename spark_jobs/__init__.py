"""From a snapshot to facts, to verdicts, to the store: pure folds in `facts/`, thin shells around them."""
