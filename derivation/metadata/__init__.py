"""The metadata logs of a snapshot: which nodes' copies there are, what they say, how far each has read."""
