"""Stories of clusters that break, each with its truth and with what an audit should find.

In: a seed. Out: worlds at the story's moments, and the findings that are expected there. What is expected is written
down with the story, held against what an audit says by tests.
"""
