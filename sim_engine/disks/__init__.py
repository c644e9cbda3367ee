"""A broker's disk, and what happens to it: bytes that never reach it, rot, come back or are gone."""
