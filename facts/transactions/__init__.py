"""Transactions beside what ends them: markers, coordinators' decisions, and the word of other partitions."""
