"""What is so: pure folds from summaries, tables and metadata to rows of the relations. They judge nothing."""
